"""Which changes belong to transactions, and which came after them, as a service pages them."""

from typing import Any
from uuid import UUID

import pytest

from app.client.http.access import Access
from app.client.http.replies import ServiceError
from app.client.http.service import Service
from app.client.undo import command
from app.client.undo.transactions import changed_since, changes_of
from app.core.kafka.bindings import NO_TERMS, AclBinding, NewAcl
from app.core.token import Token
from app.formats.acl_bodies import acl_body
from app.formats.command_errors import UsageError
from tests.client_runs import run
from tests.scripted_server import Answer, ScriptedServer, problem, reply
from tests.updates import topic

EPOCH = UUID(int=7)


def at(offset: int) -> Token:
    return Token(EPOCH, offset)


def change(offset: int, upto: int, acl: AclBinding) -> dict[str, object]:
    return {
        "token": str(at(offset)),
        "transaction": str(at(upto)),
        "recorded_at": "2026-11-23T10:00:00Z",
        "change": "CREATED",
        "actor": "User:admin",
        "comment": None,
        "acl": {"id": str(UUID(int=offset)), **acl_body(NewAcl(acl, *NO_TERMS))},
        "prior": None,
        "config": None,
    }


def config(offset: int) -> dict[str, object]:
    values = {"name": "super.users", "value": "User:a", "prior_value": None}
    more = {"change": "CONFIGURED", "acl": None, "config": values}
    return {**change(offset, offset, topic("a")), **more}


def page(*changes: object, more: bool = False, known: int = 0, shows: bool = True) -> Answer:
    return reply(
        changes=list(changes),
        next_cursor="more" if more else None,
        shows_configs=shows,
        known_since={"token": str(at(known)), "recorded_at": "2026-11-20T10:00:00Z" if known else None},
        token=str(at(9)),
    )


def read(first: int, last: int, *script: Answer) -> tuple[list[str], list[Any]]:
    with ScriptedServer(*script) as server, Service(Access(server.url, "User:admin", timeout_s=5.0)) as service:
        changes, upto, _ = changes_of(service, at(first), at(last))
        assert upto == at(last + 1)
        return [str(each["token"]).rpartition(":")[2] for each in changes], [seen.body for seen in server.seen]


def test_a_transaction_is_taken_whole_whichever_of_its_tokens_is_named() -> None:
    of_it = [change(each, 5, topic(str(each))) for each in (5, 4, 3)]
    offsets, asked = read(4, 4, page(of_it[1]), page(*of_it[:2], more=True), page(of_it[2], change(2, 2, topic("2"))))
    assert offsets == ["5", "4", "3"]
    assert [(each.get("since"), each["until"]) for each in asked] == [
        (str(at(3)), str(at(4))),
        (None, str(at(5))),
        (None, str(at(5))),
    ]
    assert asked[2]["cursor"] == "more"


def test_a_range_has_the_transactions_of_both_ends() -> None:
    every = [change(6, 6, topic("6")), change(5, 5, topic("5")), change(4, 4, topic("4")), change(3, 4, topic("3"))]
    offsets, _ = read(4, 5, page(every[1] | {"transaction": str(at(6))}), page(every[2]), page(*every), page())
    assert offsets == ["6", "5", "4", "3"]


def test_a_range_goes_over_the_epochs_of_one_history() -> None:
    first, last = Token(EPOCH, 3), Token(UUID(int=8), 5)
    newer = change(5, 5, topic("5")) | {"token": str(last), "transaction": str(last)}
    older = [change(4, 4, topic("4")), change(3, 3, topic("3")), change(2, 2, topic("2"))]
    script = page(newer), page(older[1]), page(newer, *older)
    with ScriptedServer(*script) as server, Service(Access(server.url, "User:admin", timeout_s=5.0)) as service:
        changes, upto, _ = changes_of(service, first, last)
    assert [each["token"] for each in changes] == [str(last), str(at(4)), str(at(3))]
    assert upto == last
    # Only the service knows which of two epochs came first, and whether both tokens are of its history.
    with (
        ScriptedServer(page(older[1]), page(newer)) as server,
        Service(Access(server.url, "User:admin", timeout_s=5.0)) as service,
        pytest.raises(UsageError, match=f"wrong order; write the older token first: {first}..{last}"),
    ):
        changes_of(service, last, first)


@pytest.mark.parametrize("code", ["TOKEN_EPOCH_MISMATCH", "TOKEN_EPOCH_INVALID"])
def test_a_lost_change_is_told_as_that(code: str) -> None:
    with pytest.raises(ServiceError, match=f"the change `{at(5)}` is not part of the store's history") as refused:
        read(5, 5, problem(409, code, "another epoch"))
    assert (refused.value.code, refused.value.status) == (code, 409)


def test_what_is_not_wholly_kept_is_not_undone() -> None:
    newer = change(6, 6, topic("6"))
    for script in (
        [page(known=6)],
        [page(newer), page(newer | {"token": str(at(5))}, known=5)],
        [page(known=5, shows=False)],
    ):
        with pytest.raises(ServiceError) as refused:
            read(5, 5, *script)
        assert "older than the records that are kept" in str(refused.value)


@pytest.mark.parametrize(("shows", "words"), [(False, "needs DescribeConfigs"), (True, "no change")])
def test_what_is_not_shown_is_not_taken_for_nothing(shows: bool, words: str) -> None:  # noqa: FBT001 - a parameter
    with pytest.raises(ServiceError, match=words):
        read(5, 5, page(shows=shows))


def test_of_a_few_acls_the_last_change_is_looked_up_by_itself() -> None:
    one, other = topic("one"), topic("other")
    with (
        ScriptedServer(page(change(8000, 8000, one)), page()) as server,
        Service(Access(server.url, "User:admin", timeout_s=5.0)) as service,
    ):
        found = changed_since(service, {one: None, other: None}, at(5), at(9000))
        assert [(subject, each["token"]) for subject, each in found.items()] == [(one, str(at(8000)))]
        assert [each.body["filter"]["resource_name"] for each in server.seen] == ["one", "other"]
        with pytest.raises(ServiceError, match="too many to search"):
            changed_since(service, {"super.users": None}, at(5), at(2_000_000))


def test_of_many_changes_the_last_of_each_counts() -> None:
    one = topic("one")
    later = page(change(9, 9, topic("x")), change(8, 8, one), change(7, 7, one), config(6))
    with ScriptedServer(later) as server, Service(Access(server.url, "User:admin", timeout_s=5.0)) as service:
        found = changed_since(service, {one: None, "super.users": None}, at(5), at(9))
    assert {subject: each["token"] for subject, each in found.items()} == {one: str(at(8)), "super.users": str(at(6))}


def configs(offset: int, value: str | None) -> Answer:
    entry = {"name": "super.users", "value": value, "source": "STORE" if value else "STARTUP"}
    return reply(configs=[entry], token=str(at(offset)))


def undone(last: Answer) -> str:
    acls = reply(acls=[], next_cursor=None, token=str(at(5)))
    script = [configs(5, "User:a"), acls, page(config(5)), page(config(5)), page()]
    with ScriptedServer(*script, last) as server, pytest.raises(ServiceError) as stopped:
        run(command, [str(at(5)), "--yes", "--klamm", server.url, "--as", "User:admin"])
    assert server.seen[-1].body["configs"] == [{"name": "super.users", "value": None}]
    assert server.seen[-1].body["if_unchanged_since"] == str(at(5))
    return str(stopped.value)


def test_properties_are_left_alone_if_anything_has_changed() -> None:
    ok = {"error_code": 0, "code": "NONE", "error_message": None}
    for last, why in (
        (problem(412, "INVALID_UPDATE_VERSION", "the store stands elsewhere"), "somebody else has changed the ACLs"),
        (
            reply(results=[ok | {"code": "INVALID_CONFIG", "error_code": 40}], token=""),
            "refused to change `super.users` (INVALID_CONFIG",
        ),
        (problem(403, "CLUSTER_AUTHORIZATION_FAILED", "needs ALTER_CONFIGS"), "CLUSTER_AUTHORIZATION"),
    ):
        refused = undone(last)
        assert why in refused
        assert refused.endswith("not restored: super.users; run the same command again for the rest")
