"""The ACL calls of a service as values; listings of one offset."""

from collections.abc import Iterable
from typing import Any
from uuid import UUID

import pytest

from app.client.http import service as service_module
from app.client.http.access import Access
from app.client.http.replies import Refusal, ServiceError
from app.client.http.service import Service, TooFastError
from app.core.kafka.bindings import AclBinding, NewAcl, StandardAcl
from app.core.kafka.codes import AclOperation, AclPermissionType, PatternType, ResourceType
from app.core.kafka.filters import AclBindingFilter
from tests.scripted_server import Answer, ScriptedServer, problem, reply

FIELDS = {
    "resource_type": "TOPIC",
    "resource_name": "orders",
    "pattern_type": "LITERAL",
    "principal": "User:CN=a, O=b",
    "host": "*",
    "operation": "READ",
    "permission_type": "ALLOW",
}
BINDING = AclBinding(
    ResourceType.TOPIC,
    "orders",
    PatternType.LITERAL,
    "User:CN=a, O=b",
    "*",
    AclOperation.READ,
    AclPermissionType.ALLOW,
)
OK = {"error_code": 0, "code": "NONE", "error_message": None}
REFUSED = {"error_code": 42, "code": "INVALID_REQUEST", "error_message": "not so"}


def acl(number: int, **more: str) -> dict[str, Any]:
    return {"id": str(UUID(int=number)), **FIELDS, **more}


def page(token: str, *numbers: int, following: str | None = None) -> Answer:
    return reply(acls=[acl(number) for number in numbers], next_cursor=following, token=token)


def at(server: ScriptedServer) -> Service:
    return Service(Access(server.url, "User:admin", timeout_s=20.0))


def test_created_acls_come_back_with_their_ids_and_refusals() -> None:
    results = [
        {**OK, "id": str(UUID(int=7)), "created": True},
        {**OK, "id": str(UUID(int=8)), "created": False},
        {**REFUSED, "id": None, "created": False},
    ]
    with ScriptedServer(reply(results=results, token="e:3")) as server, at(server) as service:
        found, token = service.create_acls([NewAcl(BINDING)] * 3, if_unchanged_since="e:2")
    assert token == "e:3"
    assert [(each.id and each.id.int, each.created) for each in found] == [(7, True), (8, False), (None, False)]
    assert found[2].refusal == Refusal("INVALID_REQUEST", 42, "not so")
    assert server.seen[0].body["bindings"] == [FIELDS] * 3
    assert server.seen[0].body["if_unchanged_since"] == "e:2"
    assert 0 < server.seen[0].body["timeout_ms"] < 20_000


def test_deleted_acls_come_back_by_filter() -> None:
    results = [
        {**OK, "matches": [{**OK, **acl(7)}]},
        {**REFUSED, "matches": []},
        {**OK, "matches": [{**OK, **acl(8)}, {**REFUSED, **acl(9)}]},
    ]
    with ScriptedServer(reply(results=results, token="e:3")) as server, at(server) as service:
        found, token = service.delete_acls([AclBindingFilter()] * 3)
    assert token == "e:3"
    assert found[0].matches == (StandardAcl(UUID(int=7), BINDING),)
    assert [each.refusal is None for each in found] == [True, False, False]
    assert [len(each.matches) for each in found] == [1, 0, 1]
    assert "if_unchanged_since" not in server.seen[0].body


def test_a_listing_has_every_page() -> None:
    script = (page("e:1", 1, 2, following="c1"), page("e:1", 3), page("e:1", 1, following="x"))
    with ScriptedServer(*script) as server, at(server) as service:
        listing = service.acls(AclBindingFilter(principal="User:a"), limit=2)
    assert [each.id.int for each in listing.acls] == [1, 2, 3]
    assert listing.token == "e:1"
    assert [each.body.get("cursor") for each in server.seen] == [None, "c1", "c1"]
    assert [each.body["limit"] for each in server.seen] == [2, 2, 1]
    assert server.seen[0].body["filter"]["principal"] == "User:a"


def asked(server: ScriptedServer) -> list[tuple[Any, Any]]:
    """The cursor and the moment of each call."""
    return [(each.body.get("cursor"), each.body.get("at")) for each in server.seen]


def test_a_listing_goes_on_at_its_first_token_if_the_acls_change_meanwhile() -> None:
    first, moved = page("e:1", 1, following="c1"), page("e:2", 9)
    past = page("e:1", 1, following="c1"), page("e:1", following="c2"), page("e:1", 3)
    with ScriptedServer(first, moved, *past) as server, at(server) as service:
        listing = service.acls(AclBindingFilter())
        assert asked(server) == [(None, None), ("c1", None), (None, "e:1"), ("c1", "e:1"), ("c2", "e:1")]
    assert [each.id.int for each in listing.acls] == [1, 3]
    assert listing.token == "e:1"


def test_only_the_page_that_may_be_newer_is_asked_for_again() -> None:
    script = page("e:1", 1, following="c1"), page("e:1", 2, 9), page("e:2", 1), page("e:1", 2)
    with ScriptedServer(*script) as server, at(server) as service:
        listing = service.acls(AclBindingFilter())
        assert asked(server) == [(None, None), ("c1", None), ("c1", None), ("c1", "e:1")]
    assert [each.id.int for each in listing.acls] == [1, 2]


def test_a_listing_of_a_state_that_was_read_before_is_of_that_state() -> None:
    with ScriptedServer(page("e:2", 9), page("e:1", 1)) as server, at(server) as service:
        listing = service.acls(AclBindingFilter(), token="e:1")
        assert asked(server) == [(None, None), (None, "e:1")]
    assert ([each.id.int for each in listing.acls], listing.token) == ([1], "e:1")
    with ScriptedServer(page("e:2", 9), GONE) as server, at(server) as service:
        with pytest.raises(TooFastError, match=r"it can't list them as they were \(OFFSET_OUT_OF_RANGE: it is gone\)"):
            service.acls(AclBindingFilter(), token="e:1")
        assert len(server.seen) == 2


GONE = problem(410, "OFFSET_OUT_OF_RANGE", "it is gone")


@pytest.mark.parametrize(
    "refusal",
    [
        GONE,
        # A service of a version without `at`, a caller that a follower's upstream does not trust, a lost epoch.
        problem(400, "INVALID_REQUEST", "there is no such field"),
        problem(403, "CLUSTER_AUTHORIZATION_FAILED", "not you"),
        problem(409, "TOKEN_EPOCH_MISMATCH", "lost"),
    ],
)
def test_a_listing_begins_anew_where_the_past_can_not_be_told(refusal: Answer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service_module, "_PAUSE_S", 0.0)
    moved = page("e:1", 1, following="c1"), page("e:2", 9), refusal
    still = page("e:2", 1, following="c1"), page("e:2", 3), page("e:2", 1)
    with ScriptedServer(*moved, *still) as server, at(server) as service:
        listing = service.acls(AclBindingFilter())
    assert [each.id.int for each in listing.acls] == [1, 3]
    assert listing.token == "e:2"


def test_pages_of_another_state_than_asked_for_are_no_listing() -> None:
    first, moved = page("e:1", 1, following="c1"), page("e:2", 9)
    for past in ((page("e:2", 1),), (page("e:1", 1, following="c1"), page("e:2", 1))):
        with (
            ScriptedServer(first, moved, *past) as server,
            at(server) as service,
            pytest.raises(ServiceError, match="another state than was asked for"),
        ):
            service.acls(AclBindingFilter())


def test_a_time_of_the_past_is_the_token_of_its_state_from_the_second_page_on() -> None:
    with ScriptedServer(page("e:1", 1, following="c1"), page("e:1", 2)) as server, at(server) as service:
        listing = service.acls(AclBindingFilter(), at="2026-11-27T00:00:00Z")
        assert asked(server) == [(None, "2026-11-27T00:00:00Z"), ("c1", "e:1")]
    assert listing.token == "e:1"


def rows(token: str, *numbers: int, following: str | None = None) -> Answer:
    return reply(rows=list(numbers), next_cursor=following, token=token, super_users=["User:root"])


def test_rows_of_all_pages_are_of_one_token() -> None:
    moved = (rows("e:1", 1, following="c1"), rows("e:2", 9))
    past = (rows("e:1", 1, following="c2"), rows("e:1", following="c3"), rows("e:1", 2))
    with ScriptedServer(*moved, *past) as server, at(server) as service:
        whole = service.all_rows("/v1/who-can", {"host": "10.1.2.3"})
    assert whole == {"rows": [1, 2], "next_cursor": None, "token": "e:1", "super_users": ["User:root"]}
    assert [each.body.get("cursor") for each in server.seen] == [None, "c1", None, "c2", "c3"]
    assert {(each.body["limit"], each.body["host"]) for each in server.seen} == {(1_000, "10.1.2.3")}


def test_a_listing_of_what_never_stands_still_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service_module, "_PAUSE_S", 0.0)
    monkeypatch.setattr(service_module, "_LONGEST_PAUSE_S", 0.0)
    changing = [answer for number in range(50) for answer in (page(f"e:{number}", 1, following="c"), page("e:x"), GONE)]
    with ScriptedServer(*changing) as server, at(server) as service, pytest.raises(TooFastError, match="change faster"):
        service.acls(AclBindingFilter())
    assert len(server.seen) < len(changing)


def test_words_from_the_future_become_unknown() -> None:
    newer = reply(acls=[acl(1, operation="TELEPORT", resource_type="DRAGON")], next_cursor=None, token="e:1")
    with ScriptedServer(newer) as server, at(server) as service:
        binding = service.acls(AclBindingFilter()).acls[0].binding
    assert (binding.operation, binding.resource_type) == (AclOperation.UNKNOWN, ResourceType.UNKNOWN)


def test_a_listing_that_no_klamm_gives_is_told_as_such(subtests: pytest.Subtests) -> None:
    cases: Iterable[dict[str, object]] = [
        {},
        {"acls": {}, "token": "t"},
        {"acls": [1], "token": "t"},
        {"acls": [{}], "token": "t"},
        {"acls": [{**acl(1), "id": "x"}], "token": "t"},
        {"acls": [{**acl(1), "host": None}], "token": "t"},
        {"acls": []},
    ]
    for strange in cases:
        with (
            subtests.test(strange=strange),
            ScriptedServer(reply(**strange)) as server,
            at(server) as service,
            pytest.raises(ServiceError, match="not from Klamm"),
        ):
            service.acls(AclBindingFilter())


def test_fewer_results_than_entries_are_no_success() -> None:
    with ScriptedServer(reply(results=[], token="t")) as server, at(server) as service:
        with pytest.raises(ServiceError, match="0 results for 1 entries"):
            service.create_acls([NewAcl(BINDING)])
        with pytest.raises(ServiceError, match="0 results for 1 entries"):
            service.delete_acls([AclBindingFilter()])


def test_the_service_hears_how_much_time_an_update_has() -> None:
    with ScriptedServer(reply(results=[], token="t")) as server, at(server) as service:
        assert service.timeout_s > 10.0
        service.create_acls([])
        service.create_acls([], timeout_s=10.0)
    usual, short = (each.body["timeout_ms"] for each in server.seen[:2])
    assert (usual, short) == (18_000, 9_000)
