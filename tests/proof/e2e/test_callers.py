"""Who may ask what: every route with every kind of caller, on a real service."""

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple
from uuid import uuid4

import httpx
import pytest

from app.metrics.declared import OPERATIONS
from app.rest.callers.token_file import add_token, retire_tokens
from tests.klamm import LIMIT_S, ROOT, SUPER_USER, Json, Process, acl, action, context, over_socket
from tests.planted import hear, plant
from tests.postgres import Postgres
from tests.proof.e2e.callers import STATIC, Corp, write_configuration
from tests.surroundings import without_ours

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
        "console": _FOR_NOBODY,
    }
)


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


@dataclass
class World:
    """A service that knows callers."""

    service: Process
    kinds: Mapping[str, Kind]
    tokens: Mapping[str, str]
    corp: Corp
    acl_id: str

    def ask(self, kind: str, operation: str, body: Json | None = None, acl_id: str | None = None) -> httpx.Response:
        token, principal = self.kinds[kind].token, self.kinds[kind].principal
        method, path = routes()[operation]
        path = path.replace("{id}", acl_id or self.acl_id).replace("{listener_name}", "CLIENT")
        headers = {} if token is None else {"authorization": f"Bearer {token}"}
        sent: dict[str, Any] = {"json": body or body_of(operation, principal)} if method == "POST" else {}
        return self.service.http.request(method, path, headers=headers, **sent)

    def asserted(self, token: str, principal: str) -> int:
        headers = {"authorization": f"Bearer {token}"}
        return self.service.http.post(
            "/v1/authorize", json=body_of("authorize", principal), headers=headers
        ).status_code


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory, postgres: Postgres) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("callers")
    corp = Corp()
    tokens = write_configuration(folder, corp)
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
    with over_socket(settings={"KLAMM_DATABASE_URL": postgres.new_store()}, folder=folder) as service:
        service.ready()
        made = service.http.post(
            "/v1/acls",
            json={"context": context(), "bindings": [acl("orders")]},
            headers={"authorization": f"Bearer {tokens['root']}"},
        )
        yield World(service, kinds, tokens, corp, made.json()["results"][0]["id"])


def test_every_operation_has_its_row() -> None:
    assert set(EXPECTED) == set(routes()) == set(OPERATIONS) - {"other"}
    assert {len(row) for row in EXPECTED.values()} == {len(KINDS)}


@pytest.mark.parametrize("operation", EXPECTED)
def test_each_route_with_each_kind_of_caller(world: World, operation: str) -> None:
    assert tuple(world.kinds) == KINDS
    found = {kind: world.ask(kind, operation).status_code for kind in KINDS}
    assert found == dict(zip(KINDS, EXPECTED[operation], strict=True))


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


@pytest.mark.parametrize("principal", [ALICE, SUPER_USER, "User:orders", "Group:orders-1", "User:*", "User:Orders-1"])
def test_a_caller_can_not_speak_for_a_principal_outside_its_patterns(world: World, principal: str) -> None:
    assert world.asserted(world.tokens["orders"], principal) == 403


def test_a_caller_speaks_for_the_principals_of_its_patterns(world: World) -> None:
    assert world.asserted(world.tokens["orders"], "User:orders-1") == 200


def test_nobody_speaks_for_a_super_user_unless_it_is_his_right(world: World) -> None:
    assert world.asserted(world.tokens["anyone"], SUPER_USER) == 403
    assert world.asserted(world.corp.token(), SUPER_USER) == 403
    assert world.asserted(world.tokens["broker"], SUPER_USER) == 200
    assert world.asserted(world.tokens["platform"], SUPER_USER) == 403


def test_one_made_a_super_user_can_not_be_spoken_for_from_then_on(world: World) -> None:
    headers = {"authorization": f"Bearer {world.tokens['root']}"}
    change = {"context": context(), "configs": [{"name": "super.users", "value": f"{SUPER_USER};User:risen"}]}
    assert world.asserted(world.tokens["anyone"], "User:risen") == 200
    answer = world.service.http.post("/v1/configs", json=change, headers=headers)
    assert answer.json()["results"][0]["code"] == "NONE"
    assert world.asserted(world.tokens["anyone"], "User:risen") == 403
    change["configs"] = [{"name": "super.users", "value": None}]
    assert world.service.http.post("/v1/configs", json=change, headers=headers).status_code == 200
    assert world.asserted(world.tokens["anyone"], "User:risen") == 200


def test_before_the_store_is_loaded_super_users_can_not_be_spoken_for_either(tmp_path: Path) -> None:
    corp = Corp()
    tokens = write_configuration(tmp_path, corp)
    nowhere = {"KLAMM_DATABASE_URL": "postgresql://klamm@127.0.0.1:9/klamm"}
    with over_socket(settings=nowhere, folder=tmp_path) as service:
        cold = World(service, {}, tokens, corp, "")
        assert cold.asserted(tokens["anyone"], ALICE) == 503
        assert cold.asserted(tokens["anyone"], SUPER_USER) == 403
        assert cold.asserted(tokens["orders"], SUPER_USER) == 403
        assert cold.asserted(tokens["orders"], ALICE) == 403
        assert cold.asserted(tokens["broker"], SUPER_USER) == 200
        assert cold.asserted("klamm_nonsense", SUPER_USER) == 401


@pytest.mark.parametrize("ending", ["%0A", "%0D", "%00", "%0a%0a"])
def test_a_line_s_end_behind_a_path_is_no_way_in(world: World, ending: str) -> None:
    for operation, (method, path) in routes().items():
        for kind in KINDS:
            token, principal = world.kinds[kind].token, SUPER_USER
            headers = {} if token is None else {"authorization": f"Bearer {token}"}
            sent: dict[str, Any] = {"json": body_of(operation, principal)} if method == "POST" else {}
            filled = path.replace("{id}", world.acl_id).replace("{listener_name}", "CLIENT")
            assert world.service.http.request(method, filled + ending, headers=headers, **sent).status_code == 400


def test_a_batch_is_refused_before_anything_of_it_is_answered(world: World) -> None:
    body = {"context": context(SUPER_USER), "actions": [action(f"t{at}") for at in range(1_000)]}
    answer = world.ask("decide", "authorize", body)
    assert answer.status_code == 403
    assert "results" not in answer.json()


def test_tokens_rotate_without_a_failed_request(world: World, tmp_path: Path, migrated_database_url: str) -> None:
    folder = Path(tmp_path)
    tokens = dict(write_configuration(folder, world.corp))
    with over_socket(settings={"KLAMM_DATABASE_URL": migrated_database_url}, folder=folder) as service:
        it = World(service.ready(), {}, tokens, world.corp, "")
        for _ in range(20):
            new = plant(add_token(folder / "klamm.tokens", "orders", STATIC))
            # The very first request with it, and the old one's meanwhile.
            assert it.asserted(new, "User:orders-1") == 200
            assert it.asserted(tokens["orders"], "User:orders-1") == 200
            retire_tokens(folder / "klamm.tokens", "orders", STATIC)
            for _ in range(20):
                assert it.asserted(new, "User:orders-1") == 200
            tokens["orders"] = new


@pytest.mark.parametrize("host", ["0.0.0.0", "::"])  # noqa: S104 - that this is refused is what is shown
def test_strangers_are_not_let_in_without_callers(tmp_path: Path, host: str) -> None:
    klamm = Path(sys.executable).with_name("klamm")
    clean = without_ours()
    command = [str(klamm), "serve", "--host", host, "--port", "0"]
    found = subprocess.run(
        command, cwd=tmp_path, env=clean, capture_output=True, text=True, timeout=LIMIT_S, check=False
    )
    hear(f"{found.stdout}\n{found.stderr}")
    assert found.returncode == 2
    assert "callers" in found.stderr
    assert "127.0.0.1" in found.stderr
    assert not (tmp_path / ".klamm").exists()
