"""What one command has written is undone by the one argument that it printed, and others' changes stay."""

import json
import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from app.client.http.replies import ServiceError
from app.client.http.service import Service as Client
from app.client.plan import apply
from app.client.undo import command as undo
from tests.client_runs import Run, run
from tests.klamm import SUPER_USER, Json, Process, acl, context, replica, wait_until
from tests.postgres import Postgres

BOB = "User:bob"
BOB_MAY = acl("kafka-cluster", BOB, "ALTER", resource_type="CLUSTER")
WHOLE = ("--prune", "--max-delete-percent", "100", "--yes")
RANGE = re.compile(r"klamm undo (\S+\.\.\S+)")


@pytest.fixture(scope="module")
def own(postgres: Postgres) -> Iterator[Process]:
    with replica(postgres.new_store()) as running:
        yield running.ready()


@pytest.fixture
def company(own: Process) -> Process:
    own.delete({})
    own.create(BOB_MAY, acl("old", owner="orders team"))
    return own


@pytest.fixture
def file(tmp_path: Path) -> str:
    """The ACLs of the company with one more and one less."""
    path = tmp_path / "acls.jsonl"
    path.write_text("".join(json.dumps(each) + "\n" for each in (BOB_MAY, acl("new", "User:mallory", "ALL"))))
    return str(path)


def everything(service: Process) -> Any:  # noqa: ANN401 - JSON
    """All but the UUIDs: an ACL that is created again is another one."""
    return sorted(str(sorted((name, value) for name, value in each.items() if name != "id")) for each in service.acls())


def by_bob(service: Process, *bindings: Json) -> str:
    return str(service.post("/v1/acls", {"context": context(BOB), "bindings": list(bindings)})["token"])


def applied(service: Process, *words: str) -> Run:
    return run(apply, [*words, *WHOLE, "--klamm", service.url, "--as", SUPER_USER])


def undone(service: Process, tokens: str, *words: str) -> Run:
    return run(undo, [tokens, "--yes", *words, "--klamm", service.url, "--as", SUPER_USER])


def range_in(text: str) -> str:
    (found,) = RANGE.findall(text)
    return str(found)


def test_apply_prints_the_one_argument_that_undoes_all_of_it(company: Process, file: str) -> None:
    before = everything(company)
    text = applied(company, file).text
    assert "Token" not in text
    after = everything(company)
    assert after != before
    last = undone(company, range_in(text)).text
    assert everything(company) == before
    undone(company, range_in(last))
    assert everything(company) == after


def test_programs_read_the_same_argument_and_no_single_token(company: Process, file: str) -> None:
    before = everything(company)
    done = applied(company, file, "--output", "json").json
    assert "token" not in done
    back = undone(company, done["transactions"], "--output", "json").json
    assert everything(company) == before
    assert "token" not in back
    assert (back["created"], back["deleted"], back["by_others"]) == (1, 1, [])
    nothing = undone(company, done["transactions"], "--output", "json").json
    assert nothing["transactions"] is None


def test_apply_that_a_writer_stopped_tells_what_undoes_its_half(
    company: Process, file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, really = everything(company), Client.delete_acls

    def after_bob(client: Client, *words: Any, **named: Any) -> Any:  # noqa: ANN401 - whatever it takes
        by_bob(company, acl("bobs", BOB))
        return really(client, *words, **named)

    monkeypatch.setattr(Client, "delete_acls", after_bob)
    with pytest.raises(ServiceError) as stopped:
        applied(company, file)
    monkeypatch.undo()
    assert "1 of 1 ACLs created and 0 of 1 deleted" in str(stopped.value)
    undone(company, range_in(str(stopped.value)))
    company.delete({"resource_name": "bobs"})
    assert everything(company) == before


def test_of_a_range_with_changes_of_others_only_those_named_are_undone(company: Process, file: str) -> None:
    before = everything(company)
    first = company.create(acl("a", "User:one"), acl("b", "User:one"))["token"]
    by_bob(company, acl("bobs", BOB), acl("b", "User:one", owner="bob"))
    last = applied(company, file, "--output", "json").json["transactions"].partition("..")[2]
    tokens = f"{first}..{last}"
    after = everything(company)
    with pytest.raises(ServiceError) as refused:
        undone(company, tokens)
    assert str(refused.value) == (
        "the changes are by User:admin (7 changes), User:bob (2 changes); nothing was undone: say whose changes to "
        "undo with --actor PRINCIPAL, which may be repeated"
    )
    with pytest.raises(ServiceError, match="none of the changes is by the --actor given"):
        undone(company, tokens, "--actor", "User:nobody")
    assert everything(company) == after
    # The file has neither of what bob wrote, so apply removed it: his own ACL is there again, as he left it.
    text = undone(company, tokens, "--actor", SUPER_USER).text
    assert "Changes by others among them, and left as they are (2)" in text
    assert {each["resource_name"] for each in company.acls()} == {"kafka-cluster", "old", "bobs"}
    company.delete({"resource_name": "bobs"})
    assert everything(company) == before


def test_what_others_changed_within_the_range_is_left_as_it_is(company: Process) -> None:
    first = company.create(acl("a", "User:one"), acl("b", "User:one"))["token"]
    by_bob(company, acl("b", "User:one", owner="bob"))
    last = company.create(acl("c", "User:one"))["token"]
    done = undone(company, f"{first}..{last}", "--actor", SUPER_USER, "--output", "json").json
    assert [each["acl"]["resource_name"] for each in done["changed_since"]] == ["b"]
    assert {(each["resource_name"], each["owner"]) for each in company.acls() if each["principal"] == "User:one"} == {
        ("b", "bob")
    }
    undone(company, f"{first}..{last}", "--actor", BOB)
    assert {each["owner"] for each in company.acls() if each["resource_name"] == "b"} == {None}


def test_everybody_named_is_undone(company: Process) -> None:
    before = everything(company)
    first = company.create(acl("a", "User:one"))["token"]
    last = by_bob(company, acl("a", "User:one", owner="bob"), acl("bobs", BOB))
    undone(company, f"{first}..{last}", "--actor", SUPER_USER, "--actor", BOB)
    assert everything(company) == before


def test_beside_a_busy_writer_apply_is_undone_and_nothing_of_the_writer(company: Process, file: str) -> None:
    """Each time the writer comes between, apply stops; what was written is undone by what was printed."""
    before, stop = everything(company), threading.Event()
    written: list[str] = []

    def write() -> None:
        while not stop.wait(0.2):
            name = f"bob-{len(written)}"
            by_bob(company, acl(name, "User:busy"))
            written.append(name)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for _ in range(10):
            try:
                text = applied(company, file, "--prune-principal", "User:alice").text
            except ServiceError as stopped:
                text = str(stopped)
            for tokens in RANGE.findall(text):
                _undone_beside_the_writer(company, tokens)
    finally:
        stop.set()
        writer.join()
    assert [each for each in company.acls() if each["principal"] == "User:mallory"] == []
    assert len([each for each in company.acls() if each["principal"] == "User:busy"]) == len(written)
    company.delete({"principal": "User:busy"})
    assert everything(company) == before


def _undone_beside_the_writer(company: Process, tokens: str) -> None:
    """The writer may stop each try, and may share the last transaction."""

    def is_undone() -> bool:
        try:
            return "Nothing to do." in undone(company, tokens, "--actor", SUPER_USER).text
        except ServiceError as stopped:
            if "somebody else has changed" in str(stopped) or "change faster" in str(stopped):
                return False
            raise

    wait_until(is_undone, "the undo is done beside the writer")
