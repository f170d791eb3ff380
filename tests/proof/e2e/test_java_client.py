"""Java's HttpClient with default settings: it offers `Upgrade: h2c` with every request, and must lose no body by it."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.klamm import Json, Process, acl, action, context
from tests.proof.e2e.relay import relay_to
from tests.proof.kafka.jars import NotToBeHadError, find_java

REQUESTS = 10_000
_SOURCE = Path(__file__).with_name("Ask.java")
_PRINCIPALS = ("alice", "bob", "carol")
_TOPICS = ("orders", "orders-eu", "secret")
_OPERATIONS = ("READ", "WRITE")
_ALLOWED = {
    ("alice", "READ", "orders"),
    ("alice", "WRITE", "orders"),
    ("alice", "WRITE", "orders-eu"),
    ("bob", "READ", "orders"),
    ("bob", "READ", "orders-eu"),
}


@pytest.fixture(scope="module", autouse=True)
def acls(service: Process) -> None:
    service.create(
        acl("orders"),
        acl("orders", "User:alice", "WRITE", pattern_type="PREFIXED"),
        acl("*", "User:bob", "READ"),
        acl("secret", "User:*", "ALL", permission_type="DENY"),
    )


def _questions(url: str) -> Iterator[tuple[str, str, Json]]:
    """Where to ask, how the answer begins, the body."""
    for principal in _PRINCIPALS:
        for topic in _TOPICS:
            allowed = [(principal, operation, topic) in _ALLOWED for operation in _OPERATIONS]
            results = ",".join('"ALLOWED"' if each else '"DENIED"' for each in allowed)
            actions = [action(topic, operation) for operation in _OPERATIONS]
            yield (
                f"{url}/v1/authorize",
                f'{{"results":[{results}],"token":"',
                {"context": context(f"User:{principal}"), "actions": actions},
            )


def test_it_gets_right_answers_ten_thousand_times(service: Process, tmp_path: Path) -> None:
    try:
        java = find_java()
    except NotToBeHadError as why:
        pytest.skip(str(why))
    questions = tmp_path / "questions"
    with relay_to(service.url) as relay:
        lines = [
            "\t".join((url, expected, json.dumps(body)))
            for url, expected, body in _questions(relay.dsn.replace("//@", "//"))
        ]
        questions.write_text("\n".join(lines), encoding="utf-8")
        done = subprocess.run(
            [str(java), str(_SOURCE), str(questions), str(REQUESTS)],
            capture_output=True,
            text=True,
            timeout=280,
            check=False,
        )
        assert done.stdout == f"{REQUESTS} right answers\n", done.stderr
        # Kept alive: it keeps one, and may have opened another when it was not yet sure of the first.
        assert relay.opened <= 3
