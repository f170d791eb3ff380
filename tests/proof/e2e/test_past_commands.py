"""`klamm log` and `--at` against a real service."""

import csv
import io
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.klamm import LIMIT_S, SUPER_USER, Process, acl, action, replica
from tests.postgres import Postgres

KLAMM = str(Path(sys.executable).with_name("klamm"))


@pytest.fixture(scope="module")
def own(postgres: Postgres) -> Iterator[Process]:
    with replica(postgres.new_store()) as running:
        yield running.ready()


def klamm(service: Process, *words: str, code: int = 0) -> str:
    access = ["--klamm", service.url, "--as", SUPER_USER]
    done = subprocess.run([KLAMM, *words, *access], capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert done.returncode == code, (done.stdout, done.stderr)
    assert "Traceback" not in done.stderr
    return done.stdout if code == 0 else done.stderr


def test_the_past_at_a_terminal(own: Process) -> None:
    there = own.create(acl("orders", owner="orders team"), comment="OPS-1 why")["token"]
    own.create(acl("orders", owner="bills"))
    own.delete({"resource_name": "orders"})
    assert own.authorize("User:alice", action("orders")) == ["DENIED"]

    text = klamm(own, "log", "--topic", "orders", "--since", "1h")
    lines = [line.strip() for line in text.splitlines()]
    assert [line[:1] for line in lines if line[:2] in ("+ ", "~ ", "- ")] == ["-", "~", "+"]
    assert f'{SUPER_USER} "OPS-1 why"' in text
    assert "before: for ever, owner" in text
    assert there in lines
    (made,) = json.loads(klamm(own, "log", "--comment", "OPS-1", "--output", "json"))["changes"]
    assert (made["token"], made["acl"]["owner"]) == (there, "orders team")
    rows = list(csv.reader(io.StringIO(klamm(own, "log", "--actor", SUPER_USER, "--limit", "2", "--output", "csv"))))
    assert [row[2] for row in rows] == ["change", "DELETED", "CHANGED"]
    assert "there are older changes" in klamm(own, "log", "--limit", "1")

    asked = ("User:alice", "READ", "topic:orders", "--host", "10.1.2.3")
    assert "ALLOWED" in klamm(own, "why", *asked, "--at", there)
    assert "DENIED" in klamm(own, "why", *asked)
    assert "User:alice" in klamm(own, "who", "topic:orders", "--operation", "READ", "--at", there)
    assert "topic:orders" in klamm(own, "what", "User:alice", "--at", there)
    assert "orders" in klamm(own, "export", "--at", there)
    assert "orders" in klamm(own, "acls", "--list", "--at", there)
    for words in (("export", "--at", "8h"), ("acls", "--list")):
        assert "orders" not in klamm(own, *words)
    # The store is not that old, and was empty then.
    assert klamm(own, "acls", "--list", "--at", "2001-01-01T00:00:00Z").strip() == ""


@pytest.mark.parametrize(
    "words",
    [
        ("log", "--since", "yesterday"),
        ("log", "--until", ""),
        ("log", "--limit", "0"),
        ("export", "--at", "2026-11-23"),
        ("what", "User:alice", "--at", "99999999999w"),
        ("acls", "--list", "--at", "soon"),
        ("why", "User:a", "READ", "topic:a", "--host", "10.1.2.3", "--at", "x:1"),
    ],
)
def test_what_is_no_moment_is_refused_with_the_way_out(own: Process, words: tuple[str, ...]) -> None:
    err = klamm(own, *words, code=2 if words[0] != "acls" else 1)
    assert any(each in err for each in ("is not a time", "--limit")), err


def test_a_time_that_lies_ahead_is_refused(own: Process) -> None:
    assert "is in the future" in klamm(own, "export", "--at", "2999-01-01T00:00:00Z", code=1)
