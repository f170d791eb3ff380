"""The OPA plugin where callers are configured: it sends no token, but the JVM's own client certificate proves it."""

import ssl
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.certificates import Authority
from tests.e2e.service import PATIENCE_S, Service
from tests.kafka.jars import Kafka
from tests.kafka.java_stores import PASSWORD, key_store, trust_store
from tests.kafka.plugin import Plugin
from tests.unit.rest.opa_bodies import OPA_PATH

_TOML = """
tls.certificate = "server.crt"
tls.key = "server.key"
tls.client.ca = "authority.pem"

[callers.brokers]
role = "decide"
principals = ["User:*"]
certificate = "DNS:broker.example"
"""


def _flags(store: str, path: Path) -> tuple[str, ...]:
    own = f"-Djavax.net.ssl.{store}"
    return (f"{own}={path}", f"{own}Password={PASSWORD}", f"{own}Type=PKCS12")


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@pytest.fixture
def service(kafka: Kafka, authority: Authority, tmp_path: Path) -> Iterator[Service]:
    assert kafka
    authority.certify("server")
    (tmp_path / "klamm.toml").write_text(_TOML)
    with Service(["--data-dir", "data"], folder=tmp_path) as running:
        running.http.close()
        trust = ssl.create_default_context(cafile=authority.file)
        running.http = httpx.Client(base_url=running.url, timeout=PATIENCE_S, verify=trust)
        yield running.ready()


def test_a_broker_with_a_certificate_is_a_caller(
    kafka: Kafka, service: Service, authority: Authority, tmp_path: Path
) -> None:
    trust = _flags("trustStore", trust_store(authority, tmp_path))
    proof = _flags("keyStore", key_store(authority.certify("broker", ["DNS:broker.example"]), tmp_path))
    url = f"{service.url}{OPA_PATH}"
    with Plugin(kafka, *trust, *proof) as known, Plugin(kafka, *trust) as stranger:
        assert known.ask(url) == "DENIED"
        assert known.ask(url, principal="User:admin") == "ALLOWED", "an error: it may not speak for super users"
        assert stranger.ask(url) == "ALLOWED", "an error: it is not known"
