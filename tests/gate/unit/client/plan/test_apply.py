"""A plan carried out: what is called in which order, guarded by what, and what is said when it stops."""

from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from app.client.http import service as service_module
from app.client.http.access import Access
from app.client.http.replies import ServiceError
from app.client.http.service import Service
from app.client.plan import apply
from app.client.plan.apply import Done, carry_out
from app.client.plan.planning import Plan, Prune, make_plan
from app.core.kafka.bindings import AclBinding
from app.core.kafka.codes import AclOperation, AclPermissionType, PatternType, ResourceType
from app.core.mutations import MAX_RECORDS_PER_USER_OP
from app.core.token import Token
from app.formats.acl_bodies import acl_body, binding_body
from tests.scripted_server import Answer, ScriptedServer, hang_up, problem, reply
from tests.updates import termless, wanted

ALLOW, DENY = AclPermissionType.ALLOW, AclPermissionType.DENY
OK = {"error_code": 0, "code": "NONE", "error_message": None}
REFUSED = {"error_code": 42, "code": "INVALID_REQUEST", "error_message": "not so"}
ID = str(UUID(int=7))
EPOCH = UUID(int=8)


def at(offset: int) -> str:
    return str(Token(EPOCH, offset))


def acl(name: str, permission: AclPermissionType = ALLOW) -> AclBinding:
    return AclBinding(ResourceType.TOPIC, name, PatternType.LITERAL, "User:a", "*", AclOperation.READ, permission)


PLAN = make_plan(
    wanted({acl("a"), acl("b"), acl("z", DENY)}),
    termless({acl("c", DENY), acl("d"), acl("e")}),
    at(1),
    Prune(wanted=True),
)


def created(token: str, outcomes: str) -> Answer:
    """One result a sign: + is created, - is refused."""
    results = [
        {**OK, "id": ID, "created": True} if each == "+" else {**REFUSED, "id": None, "created": False}
        for each in outcomes
    ]
    return reply(results=results, token=token)


def deleted(token: str, *names: str | None) -> Answer:
    """One result a name; None: the filter met nothing."""
    matches = [[] if name is None else [{**OK, "id": ID, **binding_body(acl(name))}] for name in names]
    return reply(results=[{**OK, "matches": each} for each in matches], token=token)


def names_sent(server: ScriptedServer) -> list[tuple[str, list[str], Any]]:
    """By call: its path, the names in order, and its guard."""
    return [
        (
            seen.path,
            [each["resource_name"] for each in seen.body.get("bindings") or seen.body["filters"]],
            seen.body.get("if_unchanged_since"),
        )
        for seen in server.seen
    ]


def carried_out(server: ScriptedServer, plan: Plan = PLAN) -> tuple[Done, list[str]]:
    told: list[str] = []
    with Service(Access(server.url, "User:admin", timeout_s=5.0)) as service:
        return carry_out(service, plan, lambda done: told.append(str(done))), told


def stopped(server: ScriptedServer, plan: Plan = PLAN) -> ServiceError:
    with pytest.raises(ServiceError) as stop:
        carried_out(server, plan)
    return stop.value


def test_denies_come_first_and_go_last_each_call_guarded_by_the_one_before() -> None:
    script = created(at(4), "+++"), deleted(at(7), "d", "e", "c")
    with ScriptedServer(*script) as server:
        done, told = carried_out(server)
        assert names_sent(server) == [("/v1/acls", ["z", "a", "b"], at(1)), ("/v1/acls/delete", ["d", "e", "c"], at(4))]
    assert (done.created, done.deleted, done.token) == (3, 3, at(7))
    assert done.transactions == f"{at(4)}..{at(7)}"
    assert told == []
    for filter_ in server.seen[1].body["filters"]:
        assert set(filter_) == set(binding_body(acl("a")))
        assert None not in filter_.values()


def test_long_plans_are_cut_into_calls_by_count_and_by_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = make_plan(wanted(acl(str(number)) for number in range(5)), {}, at(1), Prune())
    monkeypatch.setattr(apply, "MAX_RECORDS_PER_USER_OP", 2)
    with ScriptedServer(created(at(3), "++"), created(at(5), "++"), created(at(6), "+")) as server:
        _, told = carried_out(server, plan)
        assert [(names, guard) for _, names, guard in names_sent(server)] == [
            (["0", "1"], at(1)),
            (["2", "3"], at(3)),
            (["4"], at(5)),
        ]
    assert told == [f"{count} of 5 ACLs created and 0 of 0 deleted" for count in (2, 4, 5)]
    monkeypatch.setattr(apply, "MAX_RECORDS_PER_USER_OP", 10)
    monkeypatch.setattr(service_module, "MAX_CALL_BYTES", 10)
    with ScriptedServer(*[created(at(number), "+") for number in range(2, 7)]) as server:
        carried_out(server, plan)
        assert [names for _, names, _ in names_sent(server)] == [["0"], ["1"], ["2"], ["3"], ["4"]]


def test_no_call_is_larger_than_the_service_takes() -> None:
    long = "n" * 30_000
    plan = make_plan(wanted(acl(f"{number}{long}") for number in range(500)), {}, at(1), Prune())
    sizes = [
        sum(len(str(acl_body(each))) for each in some)
        for some in service_module.batches(plan.create, MAX_RECORDS_PER_USER_OP, None)
    ]
    assert len(sizes) == 3
    assert max(sizes) < 7 * 1024 * 1024


def test_a_foreign_change_stops_it_and_says_how_far_it_came() -> None:
    foreign = problem(412, "INVALID_UPDATE_VERSION", "it has changed")
    with ScriptedServer(created(at(4), "+++"), foreign) as server:
        error = stopped(server)
    assert str(error) == (
        "somebody else has changed the ACLs or the configuration since the plan, so nothing more was done; "
        "3 of 3 ACLs created and 0 of 3 deleted; plan again to see what is left, or undo what was done: "
        f"klamm undo {at(4)}..{at(4)}"
    )
    assert error.code == "INVALID_UPDATE_VERSION"


def test_another_epoch_is_a_foreign_change() -> None:
    with ScriptedServer(problem(409, "TOKEN_EPOCH_MISMATCH", "another epoch")) as server:
        text = str(stopped(server))
    assert "somebody else has changed" in text
    assert text.endswith("plan again to see what is left")


def test_a_refused_item_is_named_and_nothing_is_deleted_after_it() -> None:
    with ScriptedServer(created(at(3), "+-+")) as server:
        text = str(stopped(server))
        assert len(server.seen) == 1
    assert "refused to create 1 ACL: ALLOW User:a from * READ on TOPIC LITERAL a (INVALID_REQUEST: not so)" in text
    assert "2 of 3 ACLs created and 0 of 3 deleted" in text


def test_an_acl_that_was_to_go_and_was_not_there_is_named() -> None:
    with ScriptedServer(created(at(4), "+++"), deleted(at(6), "d", None, "c")) as server:
        text = str(stopped(server))
    assert "refused to delete 1 ACL: ALLOW User:a from * READ on TOPIC LITERAL e (there is no such ACL)" in text
    assert "2 of 3 deleted" in text


def test_a_call_that_wrote_nothing_is_not_in_the_range() -> None:
    later = str(Token(UUID(int=9), 1))
    # The first write of another process begins an epoch, and the state keeps its offset.
    with ScriptedServer(created(later, "---")) as server:
        assert "undo" not in str(stopped(server))
    plan = make_plan(wanted({acl("a")}), termless({acl("d")}), at(1), Prune(wanted=True))
    with ScriptedServer(created(at(1), "+"), deleted(at(2), "d")) as server:
        done, _ = carried_out(server, plan)
    assert done.transactions == f"{at(2)}..{at(2)}"


def test_a_reply_without_a_token_is_told_with_how_far_it_came() -> None:
    with ScriptedServer(created(at(4), "+++"), deleted("none", "d", "e", "c")) as server:
        text = str(stopped(server))
    assert "3 of 3 ACLs created and 0 of 3 deleted" in text
    assert text.endswith(f"klamm undo {at(4)}..{at(4)}")


def test_an_unknown_outcome_is_told_as_such_and_nothing_more_is_sent() -> None:
    with ScriptedServer(created(at(4), "+++"), hang_up) as server:
        error = stopped(server)
        assert len(server.seen) == 2
    assert error.outcome_unknown
    assert "(under way: 3 ACLs to delete)" in str(error)
    assert "3 of 3 ACLs created and 0 of 3 deleted" in str(error)


def test_nothing_to_do_asks_nobody(tmp_path: Path) -> None:
    plan = make_plan(wanted({acl("a")}), termless({acl("a")}), at(1), Prune())
    with Service(Access(f"unix:{tmp_path}/nobody", "User:a")) as service:
        assert carry_out(service, plan, lambda _: None).transactions is None
