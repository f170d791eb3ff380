"""`context.groups`: who may assert them, wherever a context is taken, and what answers then."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import httpx
import pytest

from app.core.groups import MAX_GROUP_NAME, MAX_GROUPS
from app.core.kafka.errors import ClusterAuthorizationException
from app.metrics.declared import Metrics
from app.rest.bodies.fields import AuthorizableRequestContext
from app.rest.callers.authentication import Callers, Credentials
from app.rest.callers.jwt_tokens import JwtVerifier, VerifiedToken
from app.rest.callers.rate_limits import RateLimit
from app.rest.callers.roles import DECIDERS, Caller, Role, TokenRefusedError, read, speak
from app.rest.errors import InvalidFieldsException
from tests.bodies import BODIES, JSON_TYPE, pointers, refusal
from tests.klamm import ADMIN, ALICE, READ_ORDERS, InProcess, acl, in_process

ANYBODY = Caller("anybody", Role.OPEN)
SCOPE = {"type": "http", "client": ("10.9.9.9", 7)}
IN_CONTEXT = [path for path, body in BODIES.items() if "context" in body]


def claim(*groups: str, principal: str = "User:alice") -> AuthorizableRequestContext:
    return AuthorizableRequestContext(principal, "10.1.2.3", groups=groups)


def principals(caller: Caller, *groups: str, principal: str = "User:alice") -> tuple[str, ...] | None:
    found = speak(caller, claim(*groups, principal=principal), SCOPE).groups
    return None if found is None else found.principals


def broker(*groups: str, **more: Any) -> Caller:  # noqa: ANN401 - fields of a caller
    return Caller("broker", Role.DECIDE, patterns=("User:*",), groups=groups, **more)


def test_a_caller_asserts_what_its_patterns_name(subtests: pytest.Subtests) -> None:
    for patterns, group, allowed in [
        (("eng-*",), "eng-data", True),
        (("eng-*",), "eng-", True),
        (("eng-*",), "eng", False),
        (("eng-*",), "Eng-data", False),
        (("eng-*",), "pii", False),
        (("pii",), "pii", True),
        (("pii",), "pii-more", False),
        (("pii", "x*"), "xy", True),
        (("*",), "anything", True),
        (("eng-*",), "*", False),
        (("eng-*",), "eng-*", True),
        ((), "pii", False),
        ((), "", False),
    ]:
        with subtests.test(patterns=patterns, group=group, allowed=allowed):
            assert broker(*patterns).may_assert(group) is allowed


def test_groups_are_asserted_all_or_none_and_the_refusal_tells_of_none() -> None:
    assert principals(broker("eng-*"), "eng-b", "eng-a") == ("Group:eng-a", "Group:eng-b")
    assert principals(broker("eng-*")) is None
    texts = set()
    for groups in (("eng-a", "pii"), ("pii",), ("eng-a", "eng-a", "pii")):
        with pytest.raises(ClusterAuthorizationException) as refused:
            principals(broker("eng-*"), *groups)
        texts.add(refused.value.message)
    assert texts == {"the caller `broker` may not assert the groups of this context"}


def test_who_may_not_speak_for_the_principal_hears_of_that_first() -> None:
    caller = Caller("sidecar", Role.DECIDE, patterns=("User:orders",))
    with pytest.raises(ClusterAuthorizationException, match="for the principal"):
        principals(caller, "eng-a")


@pytest.mark.parametrize(
    "caller",
    [
        Caller("sidecar", Role.DECIDE, patterns=("User:*",)),
        Caller("follower", Role.FOLLOW, patterns=("User:*",), may_assert_super=True),
        Caller("platform", Role.ADMIN, "User:alice"),
    ],
    ids=lambda caller: caller.role.value,
)
def test_no_role_brings_groups_with_it(caller: Caller) -> None:
    with pytest.raises(ClusterAuthorizationException, match="assert the groups"):
        principals(caller, "eng-a")
    assert principals(replace(caller, groups=("eng-*",)), "eng-a") == ("Group:eng-a",)


def test_without_callers_anybody_asserts_any_group() -> None:
    assert principals(ANYBODY, "x") == ("Group:x",)


def test_a_group_that_comes_twice_is_refused_where_it_comes_again() -> None:
    with pytest.raises(InvalidFieldsException) as refused:
        principals(ANYBODY, "a", "b", "a", "b", "b")
    assert [each.pointer for each in refused.value.errors] == [f"/context/groups/{at}" for at in (2, 3, 4)]


# What a JWT says


def test_a_claim_gives_the_right_to_its_groups_and_to_no_others() -> None:
    caller = broker("eng-*", groups_claim="teams")
    proven = caller.proven_by({"teams": ["pii", "eng-x"], "groups": ["root"]})
    assert principals(proven, "pii", "eng-a") == ("Group:eng-a", "Group:pii")
    for group in ("root", "pi", "pii*"):
        with pytest.raises(ClusterAuthorizationException):
            principals(proven, group)
    with pytest.raises(ClusterAuthorizationException):
        principals(caller, "pii")


def test_a_star_in_a_claim_is_a_group_called_so() -> None:
    proven = broker(groups_claim="teams").proven_by({"teams": ["*", "eng-*"]})
    assert proven.may_assert("*")
    assert not proven.may_assert("eng-a")


def test_a_token_without_the_claim_proves_no_group_and_one_text_is_one_group() -> None:
    caller = broker(groups_claim="teams")
    assert caller.proven_by({"groups": ["pii"]}) is caller
    assert caller.proven_by({"teams": []}).proven_groups == frozenset()
    assert caller.proven_by({"teams": "a b"}).proven_groups == {"a b"}
    assert broker().proven_by({"teams": ["pii"], "groups": ["pii"]}).proven_groups == frozenset()


def test_a_claim_names_as_many_groups_as_a_context_to_the_letter_each_once() -> None:
    caller = broker(groups_claim="teams")
    most = [f"g{at}" for at in range(MAX_GROUPS)]
    assert caller.proven_by({"teams": most * 2}).proven_groups == set(most)
    odd = ["p\u0456i", "\u202eiip", "PII", " pii", "x" * MAX_GROUP_NAME, "Group:pii", "User:admin"]
    proven = caller.proven_by({"teams": odd})
    assert all(map(proven.may_assert, odd))
    assert not any(map(proven.may_assert, ("pii", "iip", "admin")))


def test_a_claim_that_names_no_groups_refuses_the_token(subtests: pytest.Subtests) -> None:
    for value in [
        *(None, 7, True, {"pii": True}, {"groups": ["pii"]}, ["pii", 7], ["pii", None], [["pii"]], ["pii", ""], ""),
        *("x" * (MAX_GROUP_NAME + 1), ["a\0"], ["\ud800"], [f"g{at}" for at in range(MAX_GROUPS + 1)]),
    ]:
        with subtests.test(value=value):
            with pytest.raises(TokenRefusedError) as refused:
                broker(groups_claim="teams").proven_by({"teams": value})
            assert refused.value.reason == "jwt_groups"


def test_the_limit_of_a_caller_counts_all_of_its_tokens() -> None:
    caller = broker(groups_claim="teams", limit=RateLimit(1))
    assert caller.proven_by({"teams": ["a"]}).limit is caller.limit


def test_an_admin_reads_with_the_groups_that_its_token_names() -> None:
    caller = Caller("platform", Role.ADMIN, "User:platform", groups=("eng-*",), groups_claim="teams")
    reader = cast("Any", read(caller.proven_by({"teams": ["platform"]}), SCOPE))
    assert reader.groups.principals == ("Group:platform",)
    assert cast("Any", read(caller, SCOPE)).groups is None


def test_an_admin_acts_with_the_groups_of_its_token_whether_it_names_them_or_not() -> None:
    admin = Caller("platform", Role.ADMIN, "User:platform", groups=("eng-*",), groups_claim="teams")
    caller = admin.proven_by({"teams": ["fired", "platform"]})
    for named in ((), ("fired",), ("platform", "fired")):
        assert principals(caller, *named, principal="User:platform") == ("Group:fired", "Group:platform")
    both = principals(caller, "eng-a", "fired", principal="User:platform")
    assert both == ("Group:eng-a", "Group:fired", "Group:platform")
    with pytest.raises(ClusterAuthorizationException, match="assert the groups"):
        principals(caller, "pii", principal="User:platform")
    with pytest.raises(InvalidFieldsException, match="201 groups"):
        principals(caller, *(f"eng-{at}" for at in range(MAX_GROUPS - 1)), principal="User:platform")
    assert len(principals(caller, *(f"eng-{at}" for at in range(MAX_GROUPS - 2)), principal="User:platform") or ()) == (
        MAX_GROUPS
    )


def test_who_speaks_for_others_says_itself_which_of_them_are_in_the_groups_of_its_token() -> None:
    for role in (Role.DECIDE, Role.FOLLOW):
        caller = Caller("gateway", role, patterns=("User:*",), groups_claim="teams").proven_by({"teams": ["pii"]})
        assert principals(caller) is None
        assert principals(caller, "pii") == ("Group:pii",)


class Tokens:
    """Believes every token: its text is the group that it names."""

    generation = 0

    async def verify(self, token: str) -> VerifiedToken:
        return VerifiedToken("corp", "orders", 2e12, {"teams": [token.partition(".")[0]]})

    def open(self) -> None:
        pass

    async def close(self) -> None:
        pass


async def test_what_one_token_proves_is_not_remembered_for_another() -> None:
    caller = broker(groups_claim="teams")
    credentials = Credentials(
        callers={"broker": caller}, jwts=cast("JwtVerifier", Tokens()), subjects={("corp", "orders"): caller}
    )
    callers = Callers(credentials, Metrics())
    for _ in range(3):
        for team in ("a", "b"):
            shown = [(b"authorization", f"Bearer {team}.x.y".encode())]
            found = await callers.admitted("authorize", DECIDERS, shown, ())
            remembered = callers.known(dict(shown), ())
            for each in (found, remembered):
                assert each is not None
                assert each.proven_groups == {team}


# Over the routes


@asynccontextmanager
async def granted(tmp_path: Path) -> AsyncIterator[InProcess]:
    async with in_process(tokens_file=tmp_path / "klamm.tokens") as it:
        await it.create(
            acl("orders", "Group:eng-data"),
            acl("secret", "Group:pii"),
            acl("orders", "Group:eng-fired", permission_type="DENY"),
        )
        yield it


def body(*groups: str, principal: str = "User:alice", name: str = "orders") -> dict[str, Any]:
    context = {"principal": principal, "client_address": "10.1.2.3", "groups": list(groups)}
    return {"context": context, "actions": [{**READ_ORDERS, "resource_name": name}]}


async def test_the_way_straight_from_the_socket_answers_as_the_route_does(tmp_path: Path) -> None:
    async with granted(tmp_path) as it:
        shown = f"Bearer {it.tokens['broker']}"
        await it.send("/v1/authorize", body(), "broker")
        for groups, expected in (
            ((), "DENIED"),
            (("eng-data",), "ALLOWED"),
            ((), "DENIED"),
            (("eng-data", "eng-fired"), "DENIED"),
            (("eng-data", "pii"), "ALLOWED"),
            (("eng-other",), "DENIED"),
            (("pii",), "DENIED"),
        ):
            for _ in range(3):
                assert it.at_once(shown, body(*groups)) == [expected]
                reply = await it.send("/v1/authorize", body(*groups), "broker")
                assert reply.json()["results"] == [expected]
        for group in ("root", "en", "pii2"):
            assert it.at_once(shown, body(group)) is None
            assert (await it.send("/v1/authorize", body(group), "broker")).status_code == 403


async def test_callers_without_the_right_are_refused_on_every_route(tmp_path: Path) -> None:
    async with granted(tmp_path) as it:
        for path in IN_CONTEXT:
            for caller, principal in (("root", "User:admin"), ("platform", "User:platform")):
                asked = {**BODIES[path], "context": {**body("eng-data", principal=principal)["context"]}}
                reply = await it.send(path, asked, caller)
                assert "may not assert" in refusal(reply, 403, "CLUSTER_AUTHORIZATION_FAILED")["detail"], path


async def test_a_right_on_the_cluster_may_come_through_a_group(tmp_path: Path) -> None:
    async with in_process(tokens_file=tmp_path / "klamm.tokens") as it:
        await it.create(acl("kafka-cluster", "Group:platform-leads", "ALTER", resource_type="CLUSTER"))
        bindings = {"bindings": BODIES["/v1/acls"]["bindings"]}
        for groups, status in ((["platform-leads"], 200), (["platform-x"], 403), ([], 403), (None, 403)):
            context = {"principal": "User:platform", "client_address": "10.1.2.3", "groups": groups}
            assert (await it.send("/v1/acls", {"context": context, **bindings}, "lead")).status_code == status
            search = {"context": context, "filter": {}}
            assert (await it.send("/v1/acls/search", search, "lead")).status_code == status


async def ask(service: InProcess, path: str, body: object) -> Any:  # noqa: ANN401 - JSON
    reply = await service.send(path, body)
    assert reply.status_code == 200, reply.text
    return reply.json()


async def test_each_decision_call_counts_groups() -> None:
    async with in_process() as service:
        await service.create(
            acl("orders", "Group:a"),
            acl("orders", "Group:b", "WRITE"),
            acl("orders", "Group:c", "WRITE", permission_type="DENY"),
            acl("g1", "Group:a", "DESCRIBE", resource_type="GROUP"),
        )
        for groups, operations, shown, by_type in (
            ([], [], [], "DENIED"),
            (["a"], ["READ", "DESCRIBE"], ["g1"], "DENIED"),
            (["a", "b"], ["READ", "WRITE", "DESCRIBE"], ["g1"], "ALLOWED"),
            (["a", "b", "c"], ["READ", "DESCRIBE"], ["g1"], "DENIED"),
            (["c", "b"], ["DESCRIBE"], [], "DENIED"),
        ):
            context = {**ALICE, "groups": groups}
            told = await ask(
                service,
                "/v1/authorized-operations",
                {"context": context, "resources": [{"resource_type": "TOPIC", "resource_name": "orders"}]},
            )
            assert told["results"][0]["operations"] == operations
            visible = await ask(service, "/v1/list-groups", {"context": context, "groups": ["g1", "g2"]})
            assert visible["groups"] == shown
            asked = {"context": context, "operation": "WRITE", "resource_type": "TOPIC"}
            assert (await ask(service, "/v1/authorize-by-resource-type", asked))["result"] == by_type
            explained = await ask(service, "/v1/explain", {"context": context, "actions": [READ_ORDERS]})
            assert explained["results"][0]["result"] == ("ALLOWED" if "a" in groups else "DENIED")


async def test_who_sees_no_acls_of_others_is_told_of_the_groups_that_its_context_names() -> None:
    async with in_process() as service:
        await service.create(*(acl("orders", f"Group:{each}") for each in "ab"))
        about = {**ALICE, "groups": ["a"]}
        for context, status, named in (
            ({**ALICE, "groups": ["a"]}, 200, ["Group:a"]),
            ({**ALICE, "groups": ["a", "c"]}, 200, ["Group:a"]),
            ({**ALICE, "groups": ["b"]}, 403, None),
            (ALICE, 403, None),
            (ADMIN, 200, ["Group:a"]),
        ):
            reply = await service.send("/v1/explain", {"context": context, "about": about, "actions": [READ_ORDERS]})
            assert reply.status_code == status, reply.text
            if named is not None:
                matching = reply.json()["results"][0]["matching_acls"]
                assert [each["principal"] for each in matching] == named
        (alone,) = (await ask(service, "/v1/explain", {"context": ALICE, "actions": [READ_ORDERS]}))["results"]
        assert (alone["result"], alone["near_misses"]) == ("DENIED", [])


async def test_who_and_what_tell_of_groups() -> None:
    async with in_process() as service:
        await service.create(
            acl("orders", "User:alice"),
            acl("orders", "Group:a", "WRITE"),
            acl("orders", "Group:b", "WRITE", permission_type="DENY"),
            acl("orders-", "Group:b", pattern_type="PREFIXED"),
            acl("orders-pii", "Group:c", permission_type="DENY"),
        )
        asked: dict[str, Any] = {"context": ADMIN, "principal": "User:alice"}
        told = await ask(service, "/v1/what-can", {**asked, "groups": ["a", "b", "c"]})
        assert [(each["resource_name"], each["operations"], each["denied"]) for each in told["rows"]] == [
            ("orders", ["READ", "DESCRIBE"], ["WRITE"]),
            ("orders-", ["READ", "DESCRIBE"], []),
        ]
        assert [each["principal"] for each in told["rows"][0]["acls"]] == ["Group:b", "Group:a", "User:alice"]
        assert [each["principal"] for each in told["rows"][1]["cut_out"]] == ["Group:c"]
        told = await ask(service, "/v1/what-can", asked)
        assert [each["resource_name"] for each in told["rows"]] == ["orders"]
        told = await ask(
            service,
            "/v1/who-can",
            {"context": ADMIN, "resource": {"resource_type": "TOPIC", "resource_name": "orders"}},
        )
        assert [each["principal"] for each in told["rows"]] == ["Group:a", "Group:b", "User:alice"]


async def test_a_page_of_what_goes_on_where_the_one_before_ended() -> None:
    async with in_process() as service:
        await service.create(*(acl(f"t{name}", f"Group:{group}") for group in range(20) for name in range(5)))
        rows, cursor = list[str](), None
        groups = [str(each) for each in range(0, 20, 2)]
        while True:
            asked = {"context": ADMIN, "principal": "User:x", "groups": groups, "limit": 2, "cursor": cursor}
            page = await ask(service, "/v1/what-can", asked)
            rows += [each["resource_name"] for each in page["rows"]]
            assert all(each["acl_count"] == len(groups) for each in page["rows"])
            cursor = page["next_cursor"]
            if cursor is None:
                break
        assert rows == [f"t{name}" for name in range(5)]


async def test_a_super_user_of_that_type_is_none_by_a_group() -> None:
    async with in_process() as service:
        await service.configure("super.users", "User:admin;Group:ops")
        assert await service.authorize({**ALICE, "groups": ["ops", "admin"]}, READ_ORDERS) == ["DENIED"]


BAD: dict[str, tuple[object, str]] = {
    "one too many": ([f"g{at}" for at in range(MAX_GROUPS + 1)], ""),
    "an empty one": (["a", ""], "/1"),
    "one too long": (["x" * (MAX_GROUP_NAME + 1)], "/0"),
    "one twice": (["a", "b", "a"], "/2"),
    "a NUL": (["a", "b\0"], "/1"),
    "half a pair": (["a\ud800"], "/0"),
    "a number": (["a", 7], "/1"),
    "null within": ([None], "/0"),
    "a list within": ([["a"]], "/0"),
    "a text": ("a,b", ""),
    "an object": ({"a": True}, ""),
    "true": (True, ""),
}


async def test_bad_groups_are_refused_naming_the_field(subtests: pytest.Subtests, service: InProcess) -> None:
    for path in IN_CONTEXT:
        for what, (groups, place) in BAD.items():
            with subtests.test(path=path, what=what):
                asked = {**BODIES[path], "context": {**BODIES[path]["context"], "groups": groups}}
                reply = await service.client.post(path, content=json.dumps(asked).encode(), headers=JSON_TYPE)
                problem = refusal(reply, 400, "INVALID_REQUEST")
                assert pointers(problem) == {f"/context/groups{place}"}
                assert "Expected `" not in problem["detail"]


async def test_good_groups_are_taken(subtests: pytest.Subtests, service: InProcess) -> None:
    for path in IN_CONTEXT:
        for groups in [None, [], ["é 😀:*,|"], [f"g{at}" for at in range(MAX_GROUPS)], ["x" * MAX_GROUP_NAME]]:
            with subtests.test(path=path, groups=groups):
                asked = {**BODIES[path], "context": {**ADMIN, "groups": groups}}
                reply: httpx.Response = await service.send(path, asked)
                assert reply.status_code == 200, reply.text
