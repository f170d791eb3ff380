"""The OPA plugin itself, without a broker: it tells our decisions from our refusals, and keeps the former only."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.callers import Corp, write_configuration
from tests.e2e.service import Service, binding
from tests.kafka.broker import free_ports
from tests.kafka.jars import Kafka
from tests.kafka.plugin import Plugin
from tests.unit.rest.opa_bodies import OPA_PATH

NOWHERE = "postgresql://klamm@127.0.0.1:9/klamm"
ON_ERROR = "ALLOWED"
"""As this plugin is configured. A denial that is none would be DENIED."""


@pytest.fixture(scope="module")
def service(kafka: Kafka, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    assert kafka
    with Service(["--data-dir", str(tmp_path_factory.mktemp("service") / "data")]) as running:
        yield running.ready()


@pytest.fixture(scope="module")
def plugin(kafka: Kafka) -> Iterator[Plugin]:
    with Plugin(kafka) as running:
        yield running


def test_decisions_are_understood(service: Service, plugin: Plugin) -> None:
    service.create(binding("decided"), binding("decided", "User:bob", "WRITE"))
    url = f"{service.url}{OPA_PATH}"
    assert plugin.ask(url, "READ", "decided") == "ALLOWED"
    assert plugin.ask(url, "WRITE", "decided") == "DENIED"
    assert plugin.ask(url, "WRITE", "decided", principal="User:bob") == "ALLOWED"
    assert plugin.ask(url, "ALTER", "anything", principal="User:admin") == "ALLOWED"


def test_groups_of_a_principal_are_not_sent(service: Service, plugin: Plugin) -> None:
    service.create(
        binding("of-groups", "Group:pii"),
        binding("of-groups", "Group:pii", "WRITE", permission_type="DENY"),
        binding("of-groups", "User:erin", "WRITE"),
    )
    url = f"{service.url}{OPA_PATH}"
    assert plugin.ask(url, "READ", "of-groups", principal="User:erin") == "DENIED"
    assert plugin.ask(url, "WRITE", "of-groups", principal="User:erin") == "ALLOWED"


def test_authorize_by_resource_type_is_understood(service: Service, plugin: Plugin) -> None:
    service.create(binding("by-type-", "User:carol", "WRITE", pattern_type="PREFIXED"))
    url = f"{service.url}{OPA_PATH}"
    assert plugin.ask(url, "WRITE", "", principal="User:carol") == "ALLOWED"
    assert plugin.ask(url, "READ", "", principal="User:carol") == "DENIED"
    assert plugin.ask(url, "WRITE", "", principal="User:dave") == "DENIED"


def test_names_come_through_as_they_are(service: Service, plugin: Plugin) -> None:
    principal, group = 'User:CN="Ä, ö",OU=a\\b,O=c:d', 'the "group" / \\ 😀 \u2028'
    service.create(binding(group, principal, resource_type="GROUP"))
    url = f"{service.url}{OPA_PATH}"
    assert plugin.ask(url, "READ", group, type_="GROUP", principal=principal) == "ALLOWED"
    assert plugin.ask(url, "READ", group[:-1], type_="GROUP", principal=principal) == "DENIED"
    assert plugin.ask(url, "READ", group, type_="GROUP", principal=principal[:-1]) == "DENIED"


@pytest.mark.parametrize(
    ("host", "address", "scope", "acl_host"),
    [
        ("", "10.1.2.3", 0, "10.1.2.3"),
        ("client.example.com", "10.1.2.4", 0, "10.1.2.4"),
        ("", "::1", 0, "0:0:0:0:0:0:0:1"),
        ("localhost", "2001:db8::5", 0, "2001:db8:0:0:0:0:0:5"),
        ("", "::ffff:10.1.2.6", 0, "10.1.2.6"),
        ("", "fe80::7", 3, "fe80:0:0:0:0:0:0:7%3"),
        ("", "2001:db8:1::8", 0, "2001:db8:1::/48"),
    ],
)
def test_addresses_are_understood(
    service: Service, plugin: Plugin, host: str, address: str, scope: int, acl_host: str
) -> None:
    service.create(binding("from-somewhere", host=acl_host))
    url = f"{service.url}{OPA_PATH}"
    assert plugin.ask(url, "READ", "from-somewhere", host=host, address=address, scope=scope) == "ALLOWED"
    assert plugin.ask(url, "READ", "from-somewhere", host=host, address="10.9.9.9") == "DENIED"


def test_what_is_no_decision_is_an_error_to_it(service: Service, plugin: Plugin) -> None:
    for path in (f"{OPA_PATH}/another-cluster", f"{OPA_PATH}ed", "/v1/data"):
        assert plugin.ask(f"{service.url}{path}") == ON_ERROR
    assert plugin.ask(f"{service.url}{OPA_PATH}") == "DENIED"


def test_whom_the_service_does_not_know_gets_no_decision(plugin: Plugin, tmp_path: Path) -> None:
    write_configuration(tmp_path, Corp())
    with Service(["--data-dir", "data"], folder=tmp_path) as guarded:
        guarded.ready()
        assert plugin.ask(f"{guarded.url}{OPA_PATH}") == ON_ERROR


def test_it_keeps_decisions_and_nothing_else(plugin: Plugin, tmp_path: Path) -> None:
    (port,) = free_ports(1)
    url = f"http://127.0.0.1:{port}{OPA_PATH}"
    assert plugin.ask(url) == ON_ERROR, "nobody listens"
    with Service(["--port", str(port)], {"KLAMM_DATABASE_URL": NOWHERE}) as unready:
        assert unready.http.get("/readyz").status_code == 503
        assert plugin.ask(url) == ON_ERROR
    with Service(["--data-dir", str(tmp_path / "data"), "--port", str(port)]) as ready:
        ready.ready()
        assert plugin.ask(url) == "DENIED"
    assert plugin.ask(url) == "DENIED", "the decision is kept"
    assert plugin.ask(url, "WRITE") == ON_ERROR, "nobody listens"
