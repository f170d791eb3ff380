"""`klamm undo` against a real service: the ACLs, their terms and the properties are those of before."""

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from app.client.http.replies import ServiceError
from app.client.plan import apply
from app.client.plan.command import read_state
from app.client.undo import command as undo
from app.core.kafka.bindings import rfc3339
from app.formats.command_errors import UsageError
from tests.client_runs import Run, run
from tests.klamm import SUPER_USER, Json, Process, acl, action, context, replica, wait_until
from tests.postgres import Postgres


def store_time() -> datetime:
    return datetime.fromtimestamp(time.time(), UTC)


NEXT_YEAR = rfc3339(store_time().replace(microsecond=0) + timedelta(days=365))


@pytest.fixture(scope="module")
def own(postgres: Postgres) -> Iterator[Process]:
    with replica(postgres.new_store()) as running:
        yield running.ready()


@pytest.fixture
def company(own: Process) -> Process:
    own.delete({})
    set_properties(own, **{"super.users": None, "audit.level": None})
    own.create(
        acl("orders", owner="orders team", expires_at=NEXT_YEAR),
        acl("orders", "User:*", "WRITE", permission_type="DENY"),
        acl("pay", "User:bob", pattern_type="PREFIXED", host="10.0.0.0/8", owner="pay team"),
    )
    return own


def set_properties(service: Process, **values: str | None) -> str:
    configs = [{"name": name, "value": value} for name, value in values.items()]
    return str(service.post("/v1/configs", {"context": context(), "configs": configs})["token"])


def everything(service: Process) -> Any:  # noqa: ANN401 - JSON
    """All but the UUIDs: an ACL that is created again is another one."""
    acls = [sorted((name, value) for name, value in each.items() if name != "id") for each in service.acls()]
    return sorted(acls, key=str), service.http.get("/v1/configs").json()["configs"]


def last_change(service: Process) -> Json:
    (change,) = service.post("/v1/history", {"context": context(), "limit": 1})["changes"]
    return dict(change)


def klamm(service: Process, *words: str) -> Run:
    return run(undo, [*words, "--klamm", service.url, "--as", SUPER_USER])


def undone(service: Process, tokens: str, *words: str) -> str:
    done = klamm(service, tokens, "--yes", *words)
    assert done.code == 0
    return done.text


def test_each_kind_of_change_is_taken_back_to_the_letter(company: Process) -> None:
    before = everything(company)
    changes: list[Callable[[], Json]] = [
        lambda: company.create(acl("orders", "User:new", owner="x"), acl("new", permission_type="DENY")),
        lambda: company.delete({}),
        lambda: company.create(acl("orders", owner="others", expires_at=None), acl("pay", "User:carol")),
        lambda: company.create(acl("pay", "User:bob", pattern_type="PREFIXED", host="10.0.0.0/8", owner=None)),
    ]
    for change in changes:
        token = change()["token"]
        assert everything(company) != before
        text = undone(company, token)
        assert everything(company) == before, text
        assert "Undoes" in text
    text = undone(company, set_properties(company, **{"super.users": f"{SUPER_USER};User:eve", "audit.level": "INFO"}))
    assert "Undone: " in text
    assert '= super.users: its start-up value instead of "User:admin;User:eve"' in text
    assert everything(company) == before


def test_an_undo_can_be_undone_and_says_what_it_was(company: Process) -> None:
    token = company.delete({"principal": "User:bob"})["token"]
    deleted = everything(company)
    undone(company, token)
    newest = last_change(company)
    assert newest["comment"] == f"undo of {token}"
    undone(company, newest["token"], "--comment", "OPS-9")
    assert everything(company) == deleted
    assert "Nothing to do." in undone(company, newest["token"])
    assert last_change(company)["comment"] == "OPS-9"


def test_of_a_range_what_was_changed_again_stays(company: Process) -> None:
    first = company.create(acl("a", "User:one"), acl("b", "User:one"))["token"]
    set_properties(company, **{"super.users": f"{SUPER_USER};User:eve"})
    company.delete({"resource_name": "orders"})
    last = company.create(acl("b", "User:one", owner="second thoughts"), acl("c", "User:one"))["token"]
    company.create(acl("b", "User:one", owner="later"), comment="OPS-later")
    company.create(acl("d", "User:one"))
    company.create(acl("orders", owner="mine now"))
    done = klamm(company, f"{first}..{last}", "--yes", "--output", "json").json
    assert {each["acl"]["resource_name"] for each in done["changed_since"]} == {"b", "orders"}
    assert [each["name"] for each in done["properties"]] == ["super.users"]
    owners = {(each["resource_name"], each["principal"]): each["owner"] for each in company.acls()}
    assert owners == {
        ("b", "User:one"): "later",
        ("d", "User:one"): None,
        ("orders", "User:alice"): "mine now",
        ("orders", "User:*"): None,
        ("pay", "User:bob"): "pay team",
    }
    assert company.authorize("User:eve", action("zzz")) == ["DENIED"]
    assert "OPS-later" in undone(company, f"{first}..{last}")


def test_a_property_that_was_set_again_stays(company: Process) -> None:
    first = set_properties(company, **{"super.users": f"{SUPER_USER};User:eve"})
    set_properties(company, **{"super.users": f"{SUPER_USER};User:late"})
    text = undone(company, first)
    assert "Changed again since then, and left as it is (1)" in text
    assert company.authorize("User:late", action("zzz")) == ["ALLOWED"]


def test_of_two_undos_at_once_one_wins_and_the_other_says_what_to_do(company: Process) -> None:
    before = everything(company)
    first = set_properties(company, **{"super.users": f"{SUPER_USER};User:eve"})
    company.create(acl("late", "User:one"))

    def undo_it(number: int) -> Run | ServiceError:
        try:
            return klamm(company, first, "--yes", "--comment", f"undo {number}")
        except ServiceError as refused:
            return refused

    state, both = threading.Barrier(2), read_state
    with pytest.MonkeyPatch.context() as patch, ThreadPoolExecutor(2) as threads:
        patch.setattr("app.client.undo.command.read_state", lambda service: (both(service), state.wait(60))[0])
        won, lost = sorted(threads.map(undo_it, range(2)), key=lambda each: isinstance(each, ServiceError))
    assert isinstance(won, Run), won
    assert "Undone: " in won.text
    assert isinstance(lost, ServiceError), lost
    assert lost.code == "INVALID_UPDATE_VERSION"
    assert str(lost) == (
        "somebody else has changed the ACLs or the configuration since the plan, so nothing more was done; no ACL "
        "had to be changed; not restored: super.users; run the same command again for the rest"
    )
    assert "Nothing to do." in undone(company, first)
    company.delete({"resource_name": "late"})
    assert everything(company) == before


def test_what_has_ended_meanwhile_is_not_made_again(company: Process) -> None:
    soon = store_time().replace(microsecond=0) + timedelta(seconds=10)
    company.create(acl("brief", "User:dan", expires_at=rfc3339(soon)))
    token = company.delete({"principal": "User:dan"}, {"principal": "User:bob"})["token"]
    wait_until(lambda: store_time() > soon, "the end passes")
    text = undone(company, token)
    assert "Would have ended by now, and is not created again (1)\n  ALLOW User:dan READ on TOPIC brief" in text
    assert {each["principal"] for each in company.acls()} == {"User:alice", "User:*", "User:bob"}


def test_a_plan_of_it_can_be_reviewed(company: Process, tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    before = everything(company)
    token = company.create(*(acl(f"t{each}") for each in range(5)))["token"]
    text = klamm(company, token, "--save", str(path)).text
    assert "Access lost:\n  User:alice: READ, DESCRIBE on TOPIC t0" in text
    assert f"klamm apply --plan {path} --max-delete-percent 84" in text
    words = ["--plan", str(path), "--yes", "--klamm", company.url, "--as", SUPER_USER, "--max-delete-percent", "84"]
    assert run(apply, words).code == 0
    assert everything(company) == before
    token = set_properties(company, **{"audit.level": "INFO"})
    with pytest.raises(UsageError, match="exists already"):
        klamm(company, token, "--save", str(path))
    with pytest.raises(UsageError, match="no properties"):
        klamm(company, token, "--save", str(path), "--force")
    with pytest.raises(UsageError, match="name the file with --save"):
        klamm(company, token, "--force", "--yes")


def test_a_range_goes_over_several_epochs(postgres: Postgres) -> None:
    dsn = postgres.new_store()
    with replica(dsn) as first, replica(dsn) as second:
        first.ready().create(acl("kept"))
        before = everything(first)
        begun = first.create(acl("a"))["token"]
        # The first write of another process begins an epoch.
        last = second.ready().create(acl("b"))["token"]
        epoch, _, offset = begun.partition(":")
        assert not last.startswith(epoch)
        with pytest.raises(UsageError, match=f"wrong order; write the older token first: {begun}..{last}"):
            klamm(second, f"{last}..{begun}", "--yes")
        with pytest.raises(ServiceError, match="not part of the store's history") as refused:
            klamm(second, f"{epoch}:{int(offset) + 1}", "--yes")
        assert refused.value.code == "TOKEN_EPOCH_MISMATCH"
        assert "Undoes 2 changes" in undone(second, f"{begun}..{last}")
        assert everything(second) == before


def test_what_is_no_change_of_now_is_refused_with_the_way_out(company: Process) -> None:
    token = company.create(acl("z"))["token"]
    epoch, _, offset = token.partition(":")
    other = f"00000000-0000-4000-8000-000000000000:{offset}"
    before = everything(company)
    for tokens, kind, words in (
        ("yesterday", UsageError, "klamm log shows"),
        (f"{token}..", UsageError, "neither TOKEN nor"),
        (f"{token}..{epoch}:1", UsageError, f"wrong order; write the older token first: {epoch}:1..{token}"),
        (f"{epoch}:0", UsageError, "empty store"),
        (f"{other}..{token}", ServiceError, "not part of the store's history"),
        (other, ServiceError, "not part of the store's history"),
        (f"{epoch}:999999999", ServiceError, "there is no change"),
    ):
        with pytest.raises(kind, match=words):
            klamm(company, tokens, "--yes")
    with pytest.raises(UsageError, match="no terminal"):
        klamm(company, token)
    assert everything(company) == before
