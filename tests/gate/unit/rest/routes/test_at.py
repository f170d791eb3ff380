"""`at`: the routes that take it answer as everything stood then, for those who may ask now."""

import json
from typing import Any

import httpx
import pytest

from app.core.kafka.filters import AclBindingFilter
from app.core.mutations import DeleteAcls
from app.core.token import Token
from app.rest.app import AppOptions, create_rest_app
from app.runtime.listing import CURSORS
from tests.klamm import ADMIN, ALICE, READ_ORDERS, InProcess, acl, in_process

ORDERS = {"resource_type": "TOPIC", "resource_name": "orders"}
ASKED: dict[str, dict[str, Any]] = {
    "/v1/acls/search": {"filter": {}},
    "/v1/explain": {"actions": [READ_ORDERS], "about": ALICE},
    "/v1/who-can": {"resource": ORDERS},
    "/v1/what-can": {"principal": "User:alice"},
    "/v1/authorized-operations": {"resources": [ORDERS]},
}


async def ask(service: InProcess, path: str, at: object, context: object = ADMIN) -> Any:  # noqa: ANN401 - JSON
    reply = await service.send(path, {"context": context, **ASKED[path], "at": at})
    assert reply.status_code == 200, reply.text
    return reply.json()


async def test_what_was_is_told_after_it_is_gone() -> None:
    async with in_process() as service:
        await service.create(acl("orders"))
        there = str(service.authorizer.image.token)
        service.store.commit([DeleteAcls([AclBindingFilter()], "User:test")])
        await service.configure("allow.everyone.if.no.acl.found", "true")
        for path in ASKED:
            assert (await ask(service, path, there))["token"] == there
        assert len((await ask(service, "/v1/acls/search", there))["acls"]) == 1
        (explained,) = (await ask(service, "/v1/explain", there))["results"]
        assert (explained["result"], explained["rule"]) == ("ALLOWED", "MatchingAcl")
        assert [each["principal"] for each in (await ask(service, "/v1/who-can", there))["rows"]] == ["User:alice"]
        assert len((await ask(service, "/v1/what-can", there))["rows"]) == 1
        (could,) = (await ask(service, "/v1/authorized-operations", there, ALICE))["results"]
        assert could["operations"] == ["READ", "DESCRIBE"]
        (explained,) = (await ask(service, "/v1/explain", None))["results"]
        assert (explained["result"], explained["rule"]) == ("ALLOWED", "DefaultAllow")


class _Upstream:
    """What a follower asks about the past; it keeps the bodies."""

    def __init__(self) -> None:
        self.bodies: list[dict[str, Any]] = []

    async def ask(self, _: str, body: bytes) -> bytes:
        self.bodies.append(json.loads(body))
        return b"{}"


async def test_a_follower_hands_on_all_but_the_time_that_is_its_own(service: InProcess) -> None:
    upstream = _Upstream()
    app = create_rest_app(service.authorizer, service.metrics, service.audit, AppOptions(past_elsewhere=upstream.ask))
    asked = {"filter": {"resource_name": "orders"}, "at": "2026-11-23T05:07:00Z", "limit": 7}
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost") as client:
        reply = await client.post("/v1/acls/search", json={"context": ADMIN, **asked, "timeout_ms": 60_000})
    assert reply.status_code == 200, reply.text
    assert upstream.bodies == [{"context": ADMIN, **asked}]


async def test_what_is_no_moment_is_refused_by_name(subtests: pytest.Subtests) -> None:
    for path, asked in ASKED.items():
        for at in ["yesterday", "", "2026-11-23", "2026-11-23T05:07:00", "2026-02-30T05:07:00Z", "a:1"]:
            with subtests.test(path=path, at=at):
                async with in_process() as service:
                    reply = await service.send(path, {"context": ADMIN, **asked, "at": at})
                    assert reply.status_code == 400, reply.text
                    assert "`at`" in reply.json()["detail"]


@pytest.mark.parametrize("path", sorted(ASKED.keys() - {"/v1/authorized-operations"}))
async def test_rights_are_those_of_now(path: str) -> None:
    async with in_process() as service:
        await service.create(acl("kafka-cluster", "User:eve", "DESCRIBE", resource_type="CLUSTER"))
        there = str(Token(service.store.epoch, service.store.tables.last_offset))
        eve = {"principal": "User:eve", "client_address": "10.1.2.3"}
        await ask(service, path, there, eve)
        service.store.commit([DeleteAcls([AclBindingFilter()], "User:test")])
        await service.configure("audit.level", "DEBUG")
        reply = await service.send(path, {"context": eve, **ASKED[path], "at": there})
        assert (reply.status_code, reply.json()["code"]) == (403, "CLUSTER_AUTHORIZATION_FAILED")


async def test_a_hundred_resources_are_answered_and_no_more() -> None:
    async with in_process() as service:
        await service.create(acl("ord", pattern_type="PREFIXED"))
        asked = {"context": ALICE, "at": str(service.authorizer.image.token)}
        reply = await service.send("/v1/authorized-operations", {**asked, "resources": [ORDERS] * 100})
        assert reply.json()["results"][99]["operations"] == ["READ", "DESCRIBE"]
        reply = await service.send("/v1/authorized-operations", {**asked, "resources": [ORDERS] * 101})
        assert (reply.status_code, "100 resources" in reply.json()["detail"]) == (400, True)


async def test_a_cursor_that_no_service_gave_is_refused() -> None:
    async with in_process() as service:
        await service.create(acl("orders"))
        cursor = CURSORS.encode((2, "a\0b", 0, "", "", 0, 0))
        body = {"context": ADMIN, "filter": {}, "at": str(service.authorizer.image.token), "cursor": cursor}
        reply = await service.send("/v1/acls/search", body)
        assert (reply.status_code, "`cursor`" in reply.json()["detail"]) == (400, True)


async def test_no_more_than_the_pool_has_are_asked_at_once() -> None:
    async with in_process() as service:
        await service.create(acl("orders"))
        before = service.metrics.admission_refused["past"]
        await ask(service, "/v1/explain", str(service.authorizer.image.token))
        assert service.metrics.admission_refused["past"] == before
        assert service.metrics.admission_requests["past"] == [0, 0]
