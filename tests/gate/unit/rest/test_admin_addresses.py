"""A host-scoped right of an admin caller is a bound: what counts is the socket's address, whatever a request says."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import httpx
import pytest

from app.core.kafka.codes import CLUSTER_NAME
from app.rest.callers.authentication import Credentials
from app.rest.callers.roles import Caller, Role
from app.rest.callers.static_tokens import StaticTokens
from tests.gate.unit.rest.test_bad_input import BODIES
from tests.klamm import READ_ORDERS, InProcess, acl, in_process

OFFICE, ELSEWHERE = "10.1.1.1", "10.2.2.2"
RIGHTS = ("ALTER", "ALTER_CONFIGS")
ASKED = (
    *("/v1/acls", "/v1/acls/delete", "/v1/acls/search", "/v1/configs", "/v1/explain", "/v1/who-can", "/v1/what-can"),
    "/v1/history",
)
READ = ("/v1/acls/count", "/v1/configs")


@asynccontextmanager
async def at_work(folder: Path, *, may_assert_address: bool) -> AsyncIterator[InProcess]:
    """`platform` has its rights at the office only."""
    async with in_process(tokens_file=folder / "klamm.tokens") as it:
        credentials = it.callers._credentials
        assert credentials is not None
        callers = {**credentials.callers}
        callers["platform"] = replace(callers["platform"], may_assert_address=may_assert_address)
        it.callers._credentials = Credentials(
            callers=callers, tokens=StaticTokens(folder / "klamm.tokens", callers, it.metrics)
        )
        await it.create(
            *(acl(CLUSTER_NAME, "User:platform", right, host=OFFICE, resource_type="CLUSTER") for right in RIGHTS)
        )
        yield it


async def ask(it: InProcess, method: str, path: str, named: str, socket: str) -> int:
    """The status for `platform`, which names one address and comes from another."""
    transport = httpx.ASGITransport(it.app, raise_app_exceptions=False, client=(socket, 7))
    headers = {"authorization": f"Bearer {it.tokens['platform']}", "content-type": "application/json"}
    body = {**BODIES.get(path, {}), "context": {"principal": "User:platform", "client_address": named}}
    if path == "/v1/explain":
        body["about"] = {"principal": "User:alice", "client_address": ELSEWHERE}
    content = json.dumps(body).encode() if method == "POST" else None
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        return (await client.request(method, path, content=content, headers=headers)).status_code


CALLS = [*(("POST", path) for path in ASKED), *(("GET", path) for path in READ)]


@pytest.mark.parametrize(("method", "path"), CALLS)
async def test_the_address_is_the_socket_s(tmp_path: Path, method: str, path: str) -> None:
    async with at_work(tmp_path, may_assert_address=False) as it:
        assert await ask(it, method, path, named=OFFICE, socket=ELSEWHERE) == 403
        assert await ask(it, method, path, named=ELSEWHERE, socket=OFFICE) == 200
        assert await ask(it, method, path, named=OFFICE, socket="::ffff:" + OFFICE) == 200


@pytest.mark.parametrize("path", ASKED)
async def test_who_speaks_for_clients_names_their_address_if_it_may(tmp_path: Path, path: str) -> None:
    async with at_work(tmp_path, may_assert_address=True) as it:
        assert await ask(it, "POST", path, named=OFFICE, socket=ELSEWHERE) == 200
        assert await ask(it, "POST", path, named=ELSEWHERE, socket=OFFICE) == 403


@pytest.mark.parametrize("path", ASKED)
async def test_what_is_no_address_is_refused_all_the_same(tmp_path: Path, path: str) -> None:
    async with at_work(tmp_path, may_assert_address=False) as it:
        assert await ask(it, "POST", path, named="office", socket=OFFICE) == 400


async def test_its_decisions_are_for_its_socket_too_and_never_made_without_a_look_at_it(tmp_path: Path) -> None:
    async with at_work(tmp_path, may_assert_address=False) as it:
        await it.create(acl("orders", "User:platform", host=OFFICE))
        body = {"context": {"principal": "User:platform", "client_address": OFFICE}, "actions": [READ_ORDERS]}
        assert it.at_once(f"Bearer {it.tokens['platform']}", body) is None
        reply = await it.send("/v1/authorize", body, "platform")
        assert reply.json()["results"] == ["DENIED"]
        assert it.at_once(f"Bearer {it.tokens['platform']}", body) is None


def test_only_an_admin_caller_can_have_the_right() -> None:
    for role in Role:
        caller = Caller("x", role, "User:x" if role is Role.ADMIN else None)
        assert caller.acts_from_its_socket is (role is Role.ADMIN)
