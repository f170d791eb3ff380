"""Who may ask what: every route with every kind of caller, over TLS.

What changes properties or tokens, or starts in vain, is in tests/proof/e2e/test_callers.py.
"""

import json
from collections.abc import Mapping
from functools import cache
from types import MappingProxyType
from typing import Any, NamedTuple
from uuid import uuid4

import httpx
import pytest

from app.metrics.declared import OPERATIONS
from tests.gate.e2e.conftest import Guarded
from tests.klamm import ROOT, SUPER_USER, Json, acl, action, context

ALICE = "User:alice"


class Kind(NamedTuple):
    """A kind of caller: whose token it shows, and for whom it speaks."""

    name: str
    token: str | None
    principal: str


KINDS = ("none", "wrong", "expired", "decide", "patterns", "admin", "observe", "super", "jwt")

# One row an operation, one column a kind, in the order of KINDS.
_UNKNOWN = (401, 401, 401)
_DECISION = (*_UNKNOWN, 200, 403, 200, 403, 200, 200)
_RIGHT_ON_THE_CLUSTER = (*_UNKNOWN, 403, 403, 403, 403, 200, 403)
_FOR_ALL = (200,) * len(KINDS)
_FOR_NOBODY = (404,) * len(KINDS)
EXPECTED: Mapping[str, tuple[int, ...]] = MappingProxyType(
    {
        "authorize": _DECISION,
        "authorizedOperations": _DECISION,
        "authorizeByResourceType": _DECISION,
        "listGroups": _DECISION,
        "start": (*_UNKNOWN, 200, 200, 200, 403, 200, 200),
        "createAcls": _RIGHT_ON_THE_CLUSTER,
        "deleteAcls": _RIGHT_ON_THE_CLUSTER,
        "acls": _RIGHT_ON_THE_CLUSTER,
        "whoCan": _RIGHT_ON_THE_CLUSTER,
        "whatCan": _RIGHT_ON_THE_CLUSTER,
        "history": _RIGHT_ON_THE_CLUSTER,
        "alterConfigs": _RIGHT_ON_THE_CLUSTER,
        "explain": (*_UNKNOWN, 403, 403, 200, 403, 200, 403),
        "getAcl": _RIGHT_ON_THE_CLUSTER,
        "describeConfigs": _RIGHT_ON_THE_CLUSTER,
        "aclCount": (*_UNKNOWN, 403, 403, 403, 200, 200, 403),
        "metrics": (*_UNKNOWN, 403, 403, 403, 200, 200, 403),
        # 400: it says neither `after` nor `snapshot`.
        "watch": (*_UNKNOWN, 403, 403, 400, 403, 400, 403),
        "livez": _FOR_ALL,
        "readyz": _FOR_ALL,
        "readyzListener": _FOR_ALL,
        "startupz": _FOR_ALL,
        "index": _FOR_ALL,
        "openapi": _FOR_NOBODY,
        "docs": _FOR_NOBODY,
        "console": (303, 303, 303, 303, 303, 200, 303, 200, 303),
    }
)


@cache
def routes() -> dict[str, tuple[str, str]]:
    """Method and path by operation, of all that there are; the pages are in no document."""
    document = json.loads((ROOT / "openapi.json").read_text())
    documented = {
        operation["operationId"]: (method.upper(), path)
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    }
    pages = {"index": "/", "openapi": "/openapi.json", "docs": "/docs", "console": "/console"}
    return {**documented, **{name: ("GET", path) for name, path in pages.items()}}


def body_of(operation: str, principal: str) -> Json:
    bodies: dict[str, Json] = {
        "authorize": {"actions": [action("orders")]},
        "authorizedOperations": {"resources": [{"resource_type": "TOPIC", "resource_name": "orders"}]},
        "authorizeByResourceType": {"operation": "READ", "resource_type": "TOPIC"},
        "listGroups": {"groups": ["g"]},
        "createAcls": {"bindings": [acl("made-by-callers")]},
        "deleteAcls": {"filters": [{"resource_name": "made-by-callers"}]},
        "acls": {"filter": {}},
        "whoCan": {"resource": {"resource_type": "TOPIC", "resource_name": "orders"}},
        "whatCan": {"principal": ALICE},
        "history": {"actor": ALICE},
        "explain": {"actions": [action("orders")]},
        "alterConfigs": {"configs": [{"name": "audit.level", "value": None}]},
    }
    if operation == "start":
        return {"broker_id": 1, "endpoints": []}
    return {"context": context(principal), **bodies[operation]}


class World(NamedTuple):
    """The guarded service, and who asks it."""

    guarded: Guarded
    kinds: Mapping[str, Kind]
    acl_id: str

    def ask(
        self, kind: str, operation: str, body: Json | None = None, ending: str = "", acl_id: str | None = None
    ) -> httpx.Response:
        """`body`: what is sent to a route that takes one, instead of what this kind of caller may be answered."""
        token, principal = self.kinds[kind].token, self.kinds[kind].principal
        method, path = routes()[operation]
        path = path.replace("{id}", acl_id or self.acl_id).replace("{listener_name}", "CLIENT")
        headers = {} if token is None else {"authorization": f"Bearer {token}"}
        sent: dict[str, Any] = {"json": body or body_of(operation, principal)} if method == "POST" else {}
        return self.guarded.service.http.request(method, path + ending, headers=headers, **sent)

    def asserted(self, token: str, principal: str) -> int:
        """The status of a question that this token's caller asks for this principal."""
        headers = {"authorization": f"Bearer {token}"}
        body = body_of("authorize", principal)
        return self.guarded.service.http.post("/v1/authorize", json=body, headers=headers).status_code


@pytest.fixture
def world(guarded: Guarded) -> World:
    tokens, corp = guarded.tokens, guarded.corp
    kinds = {
        "none": Kind("none", None, ALICE),
        "wrong": Kind("wrong", "klamm_nonsense", ALICE),
        "expired": Kind("expired", corp.token(ends_in_s=-120), ALICE),
        "decide": Kind("decide", tokens["anyone"], ALICE),
        "patterns": Kind("patterns", tokens["orders"], ALICE),
        "admin": Kind("admin", tokens["platform"], "User:platform"),
        "observe": Kind("observe", tokens["prometheus"], ALICE),
        "super": Kind("super", tokens["root"], SUPER_USER),
        "jwt": Kind("jwt", corp.token(), ALICE),
    }
    made = guarded.service.http.post(
        "/v1/acls",
        json={"context": context(), "bindings": [acl("orders")]},
        headers={"authorization": f"Bearer {tokens['root']}"},
    )
    return World(guarded, kinds, made.json()["results"][0]["id"])


def test_every_operation_has_its_row() -> None:
    assert set(EXPECTED) == set(routes()) == set(OPERATIONS) - {"other"}
    assert {len(row) for row in EXPECTED.values()} == {len(KINDS)}


def test_each_route_with_each_kind_of_caller(world: World, subtests: pytest.Subtests) -> None:
    assert tuple(world.kinds) == KINDS
    for operation, expected in EXPECTED.items():
        with subtests.test(operation):
            found = {kind: world.ask(kind, operation).status_code for kind in KINDS}
            assert found == dict(zip(KINDS, expected, strict=True))


def test_a_refusal_for_want_of_credentials_tells_nothing(world: World) -> None:
    for operation in (each for each, row in EXPECTED.items() if row[:3] == _UNKNOWN):
        found = {(each.text, each.headers["www-authenticate"]) for each in map_kinds(world, operation)}
        assert len(found) == 1
        assert json.loads(found.pop()[0])["code"] == "SASL_AUTHENTICATION_FAILED"


def map_kinds(world: World, operation: str) -> list[httpx.Response]:
    return [world.ask(kind, operation) for kind in ("none", "wrong", "expired")]


def test_a_refusal_for_want_of_rights_is_the_same_whatever_was_asked(world: World) -> None:
    one, other = world.ask("admin", "getAcl"), world.ask("admin", "getAcl", acl_id=str(uuid4()))
    assert (one.status_code, one.text) == (other.status_code, other.text)
    context_ = context("User:platform")
    filters: list[Json] = [{}, {"resource_name": "orders"}, {"resource_name": "nowhere"}, {"principal": SUPER_USER}]
    texts = {world.ask("admin", "acls", {"context": context_, "filter": each}).text for each in filters}
    texts |= {world.ask("admin", "deleteAcls", {"context": context_, "filters": [each]}).text for each in filters}
    assert len(texts) == 1


def test_a_caller_can_not_speak_for_a_principal_outside_its_patterns(world: World, subtests: pytest.Subtests) -> None:
    for principal in (ALICE, SUPER_USER, "User:orders", "Group:orders-1", "User:*", "User:Orders-1"):
        with subtests.test(principal):
            assert world.asserted(world.guarded.tokens["orders"], principal) == 403


def test_a_caller_speaks_for_the_principals_of_its_patterns(world: World) -> None:
    assert world.asserted(world.guarded.tokens["orders"], "User:orders-1") == 200


def test_nobody_speaks_for_a_super_user_unless_it_is_his_right(world: World) -> None:
    assert world.asserted(world.guarded.tokens["anyone"], SUPER_USER) == 403
    assert world.asserted(world.guarded.corp.token(), SUPER_USER) == 403
    assert world.asserted(world.guarded.tokens["broker"], SUPER_USER) == 200
    assert world.asserted(world.guarded.tokens["platform"], SUPER_USER) == 403


def test_a_line_s_end_behind_a_path_is_no_way_in(world: World, subtests: pytest.Subtests) -> None:
    for ending in ("%0A", "%0D", "%00", "%0a%0a"):
        for operation, (method, _) in routes().items():
            with subtests.test(ending=ending, operation=operation):
                body = body_of(operation, SUPER_USER) if method == "POST" else None
                found = {world.ask(kind, operation, body, ending).status_code for kind in KINDS}
                assert found == {400}


def test_a_batch_is_refused_before_anything_of_it_is_answered(world: World) -> None:
    body = {"context": context(SUPER_USER), "actions": [action(f"t{at}") for at in range(1_000)]}
    answer = world.ask("decide", "authorize", body)
    assert answer.status_code == 403
    assert "results" not in answer.json()
