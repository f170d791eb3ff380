"""What the tests of rest talk to: the application over ASGI, its authorizer, its store and its audit lines."""

import json
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any

import httpx
from starlette.types import ASGIApp

from app.core.kafka.bindings import AclBinding
from app.core.kafka.codes import AclOperation, AclPermissionType, PatternType, ResourceType
from app.core.kafka.configs import AuthorizerConfig
from app.core.mutations import AlterConfigs, CreateAcls
from app.core.token import Token
from app.logs.audit import AuditLog
from app.metrics.declared import Metrics
from app.rest.app import AppOptions, create_rest_app
from app.runtime.authorizer import Authorizer
from app.runtime.options import RuntimeOptions
from tests.fakes import FakeStore
from tests.past import FakePast
from tests.updates import new

ADMIN = {"principal": "User:admin", "client_address": "127.0.0.1"}
ALICE = {"principal": "User:alice", "client_address": "10.1.2.3"}
READ_ORDERS = {"operation": "READ", "resource_type": "TOPIC", "resource_name": "orders"}


def allow(  # noqa: PLR0913 - the seven fields of an ACL, most of them left alone
    operation: str,
    name: str,
    *,
    principal: str = "User:alice",
    host: str = "*",
    type_: str = "TOPIC",
    pattern: str = "LITERAL",
    permission: str = "ALLOW",
) -> AclBinding:
    """An ACL, by its words."""
    return AclBinding(
        ResourceType[type_],
        name,
        PatternType[pattern],
        principal,
        host,
        AclOperation[operation],
        AclPermissionType[permission],
    )


@dataclass(slots=True)
class Service:
    """One replica and its client."""

    app: ASGIApp
    client: httpx.AsyncClient
    authorizer: Authorizer
    store: FakeStore
    metrics: Metrics
    audit: AuditLog
    lines: list[str]

    async def post(self, path: str, body: object, **headers: str) -> httpx.Response:
        """POST a value as JSON."""
        return await self.post_raw(path, json.dumps(body).encode(), **headers)

    async def post_raw(self, path: str, body: bytes, **headers: str) -> httpx.Response:
        """POST these bytes as JSON."""
        return await self.client.post(path, content=body, headers={"content-type": "application/json", **headers})

    async def authorize(self, *actions: object, context: object = ALICE, **more: object) -> Any:  # noqa: ANN401 - JSON
        """The decisions on these actions."""
        reply = await self.post("/v1/authorize", {"context": context, "actions": actions, **more})
        assert reply.status_code == 200, reply.text
        return reply.json()

    async def grant(self, bindings: Iterable[AclBinding]) -> None:
        """Put ACLs into the store and wait until the replica decides by them."""
        self.store.commit([CreateAcls(new(bindings), "User:test")])
        await self._caught_up()

    async def configure(self, name: str, value: str | None) -> None:
        """Change a property in the store and wait until it is in force."""
        self.store.commit([AlterConfigs([(name, value)], "User:test")])
        await self._caught_up()

    async def _caught_up(self) -> None:
        await self.authorizer.wait_for(str(Token(self.store.epoch, self.store.tables.last_offset)))

    def give_up_soon(self) -> None:
        """Wait shortly from now on for what does not come."""
        for each in (self.authorizer, self.authorizer.updates):
            each._options = replace(each._options, request_timeout_s=0.05)

    def audit_lines(self) -> list[str]:
        """Every audit line so far; nothing is logged after it."""
        self.audit.close()
        return "".join(self.lines).splitlines()


@asynccontextmanager
async def serving(
    *,
    reachable: bool = True,
    enabled: bool = True,
    startup: AuthorizerConfig | None = None,
    around: AppOptions = AppOptions(),  # noqa: B008 - it is frozen
    store: FakeStore | None = None,
) -> AsyncIterator[Service]:
    """A replica that follows a store of its own, and waits for it however slow the machine is."""
    store = store or FakeStore()
    store.unreachable = not reachable
    options = RuntimeOptions(enabled=enabled, request_timeout_s=60.0, poll_s=0.05, drain_timeout_s=0.2)
    config = startup or AuthorizerConfig(super_users=frozenset({"User:admin"}))
    metrics, lines = Metrics(), list[str]()
    authorizer = Authorizer(store, store.feed, config, options, metrics)
    authorizer.open()
    audit = AuditLog(lines.append, metrics, linger_s=0.001)
    audit.start()
    app = create_rest_app(authorizer, metrics, audit, replace(around, past=FakePast(store)))
    async with httpx.AsyncClient(
        transport=httpx.ASGITransport(app, raise_app_exceptions=False), base_url="http://localhost"
    ) as client:
        if reachable:
            await authorizer.readiness.wait_until_ready(["CLIENT"], 10)
        yield Service(app, client, authorizer, store, metrics, audit, lines)
    audit.close()
    await authorizer.close()
