"""explain and `klamm why` against a real service: rights, tokens, refusals, and commands that do what they promise."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from tests.bodies import refusal
from tests.klamm import LIMIT_S, SUPER_USER, Json, Process, acl, action, context, replica, wait_until
from tests.postgres import Postgres

KLAMM = str(Path(sys.executable).with_name("klamm"))
BOB = {"principal": "User:bob", "client_address": "10.1.2.3"}
_numbers = count(1)


@pytest.fixture
def name() -> str:
    """A topic that no other test knows."""
    return f"orders-{next(_numbers)}"


@pytest.fixture(scope="module")
def open_service(postgres: Postgres) -> Iterator[Process]:
    """One that lets everybody in where there is no ACL."""
    with replica(postgres.new_store(), KLAMM_ALLOW_EVERYONE_IF_NO_ACL_FOUND="true") as running:
        yield running.ready()


def explain(service: Process, name: str, *, asker: str = SUPER_USER, **more: object) -> Json:
    body = {"context": context(asker), "actions": [action(name)], "about": BOB, **more}
    (found,) = service.post("/v1/explain", body)["results"]
    return dict(found)


def why(service: Process, *words: str, asker: str = SUPER_USER, code: int = 0) -> str:
    command = [KLAMM, "why", *words, "--klamm", service.url, "--as", asker]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert done.returncode == code, (done.stdout, done.stderr)
    assert "Traceback" not in done.stderr
    return done.stdout if code in (0, 4) else done.stderr


def type_in(commands: list[str], answer: str = "y\n") -> None:
    """As an operator would, in a shell."""
    for command in commands:
        words = command.replace("klamm acls", f"'{KLAMM}' acls", 1)
        done = subprocess.run(
            ["bash", "-c", words],  # noqa: S607 - the shell of whoever tests
            input=answer,
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )
        assert done.returncode == 0, (command, done.stdout, done.stderr)


def commands_in(text: str) -> list[str]:
    return re.findall(r"^  (klamm acls .*)$", text, re.MULTILINE)


def test_rights_are_those_of_the_asker(service: Process, name: str) -> None:
    service.create(acl(name, "User:carol"), acl(name, "User:bob", host="10.9.9.9"))
    body = {"context": context("User:dave"), "actions": [action(name)], "about": BOB}
    problem = refusal(service.http.post("/v1/explain", json=body), 403, "CLUSTER_AUTHORIZATION_FAILED")
    nobody = {**BOB, "principal": "User:nobody"}
    unknown: Json = {**body, "about": nobody}
    assert refusal(service.http.post("/v1/explain", json=unknown), 403, "CLUSTER_AUTHORIZATION_FAILED") == problem

    def missed(asker: str) -> list[list[str]]:
        return [
            each["missed"]
            for each in explain(service, name, asker=asker)["near_misses"]
            if each["acl"]["resource_name"] == name
        ]

    # About itself everybody may ask, and sees nothing of others.
    assert missed("User:bob") == [["host"]]
    service.create(acl("kafka-cluster", "User:dave", "DESCRIBE", resource_type="CLUSTER"))
    assert missed("User:dave") == [["host"], ["principal"]]


def test_a_hundred_actions_are_explained_and_one_more_is_not(service: Process, name: str) -> None:
    body = {"context": context(), "about": BOB, "actions": [action(f"{name}-{n}") for n in range(100)]}
    assert len(service.post("/v1/explain", body)["results"]) == 100
    body["actions"] = [action(name)] * 101
    problem = refusal(service.http.post("/v1/explain", json=body), 400, "INVALID_REQUEST")
    assert problem["errors"][0]["pointer"] == "/actions"
    assert "send at most 100" in problem["detail"]


def test_it_is_counted_as_a_request_and_not_as_a_decision(service: Process, name: str) -> None:
    def figure(pattern: str) -> float:
        return sum(map(float, re.findall(rf"^{pattern} (\S+)$", service.http.get("/metrics").text, re.MULTILINE)))

    explained, decided = (
        r'klamm_http_requests_total\{operation="explain",status="2xx"\}',
        r"klamm_decisions_total\{.*\}",
    )
    before, decisions = figure(explained), figure(decided)
    lines = len(service.lines)
    explain(service, name)
    assert (figure(explained), figure(decided)) == (before + 1, decisions)
    later = f"{name}-later"
    assert service.authorize("User:bob", action(later)) == ["DENIED"]
    assert figure(decided) == decisions + 1
    # Audit lines come in order: the later one is there, and none before it is about what was explained.
    wait_until(lambda: any(f"{later} for" in line for line in service.lines[lines:]), "the decision's audit line")
    assert not [line for line in service.lines[lines:] if "is Denied" in line and later not in line]


@pytest.mark.parametrize(
    ("principal", "odd"),
    [
        ("User:CN=b o,O='b'", "it's"),
        ("User:bob", "-x"),
        ("User:bob", "a\u00fcb"),
        ("User:*", "*"),
        ("User:bob", "$HOME"),
    ],
)
def test_commands_survive_odd_names(service: Process, name: str, principal: str, odd: str) -> None:
    topic = odd if odd == "*" else f"{odd}{name}"
    (command,) = commands_in(why(service, principal, "WRITE", f"topic:{topic}", "--host", "2001:db8::7"))
    assert command.isprintable()
    type_in([command])
    why(service, principal, "WRITE", f"topic:{topic}", "--host", "2001:db8::7", "--exit-code")


def test_the_commands_for_what_is_forbidden_make_it_allowed(service: Process, name: str) -> None:
    service.create(
        acl(name, "User:*", "ALL", permission_type="DENY"),
        acl(name, "User:bob", permission_type="DENY", pattern_type="PREFIXED", host="10.1.0.0/16"),
        acl(name, "User:bob", "WRITE"),
    )
    text = why(service, "User:bob", "READ", f"topic:{name}", "--host", "10.1.2.3", "--exit-code", code=4)
    assert "a DENY overrides every ALLOW" in text
    *removals, addition = commands_in(text)
    assert len(removals) == 2
    type_in([addition])
    assert service.authorize("User:bob", action(name)) == ["DENIED"]
    type_in(removals)
    why(service, "User:bob", "READ", f"topic:{name}", "--host", "10.1.2.3", "--exit-code")


def test_where_no_acl_is_everybody_may_be_let_in(open_service: Process, name: str) -> None:
    text = why(open_service, "User:bob", "READ", f"topic:{name}", "--host", "10.1.2.3", "--exit-code")
    assert "this resource has no ACL (DefaultAllow)" in text
    assert "the first ACL on it, whoever it is for, ends that for everybody" in text
    open_service.create(acl(name, "User:carol", permission_type="DENY"))
    text = why(open_service, "User:bob", "READ", f"topic:{name}", "--host", "10.1.2.3", "--exit-code", code=4)
    (command,) = commands_in(text)
    assert "--add" in command
    # For carol it takes nothing but that her DENY goes.
    text = why(open_service, "User:carol", "READ", f"topic:{name}", "--host", "10.1.2.3")
    (command,) = commands_in(text)
    type_in([command])
    why(open_service, "User:carol", "READ", f"topic:{name}", "--host", "10.1.2.3", "--exit-code")


def test_json_is_the_services_answer_with_the_question(service: Process, name: str) -> None:
    found = json.loads(why(service, "User:bob", "READ", f"topic:{name}", "--host", "10.1.2.3", "--output", "json"))
    assert found.pop("token").count(":") == 1
    asked = {field: found.pop(field) for field in ("principal", "client_address", "operation")}
    assert asked == {"principal": "User:bob", "client_address": "10.1.2.3", "operation": "READ"}
    assert (found.pop("resource_type"), found.pop("resource_name")) == ("TOPIC", name)
    assert found == explain(service, name)


def test_super_users_and_resources_without_a_name(service: Process) -> None:
    text = why(service, SUPER_USER, "ALTER", "cluster", "--host", "10.1.2.3", "--exit-code")
    assert text.startswith(
        f"ALLOWED {SUPER_USER} ALTER cluster:kafka-cluster from 10.1.2.3\n  ACLs are not checked (SuperUser)\n"
    )
    text = why(service, "User:bob", "IdempotentWrite", "cluster", "--host", "10.1.2.3")
    assert commands_in(text)[0].endswith("--operation IdempotentWrite --cluster")


@pytest.mark.parametrize(
    ("words", "asker", "code", "complaint"),
    [
        (("User:bob", "READ", "topic:x"), SUPER_USER, 2, "--host"),
        (("User:bob", "REED", "topic:x", "--host", "10.1.2.3"), SUPER_USER, 2, "`REED` is not a Kafka operation"),
        (("User:bob", "READ", "topic:x", "--host", "web-1"), SUPER_USER, 2, "--host: `web-1` is not an IP address"),
        (
            ("User:bob", "READ", "topic:x", "--host", "10.1.2.3"),
            "User:eve",
            1,
            "`User:eve` needs Describe on the cluster",
        ),
    ],
)
def test_what_goes_wrong_is_told_in_a_line(
    service: Process, words: tuple[str, ...], asker: str, code: int, complaint: str
) -> None:
    told = why(service, *words, asker=asker, code=code)
    assert complaint in told
    assert len(told.splitlines()) == 1
