"""A replica over ASGI that knows callers, and what each of them shows."""

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import httpx

from app.rest.app import AppOptions, RestApp, create_rest_app
from app.rest.callers.authentication import Callers, Credentials
from app.rest.callers.roles import Caller, Role
from app.rest.callers.static_tokens import StaticTokens
from app.rest.callers.token_file import add_token
from app.rest.http.admission import Admission
from tests.past import FakePast
from tests.unit.rest.harness import Service, serving

CALLERS: Mapping[str, Caller] = {
    "sidecar": Caller("sidecar", Role.DECIDE, patterns=("User:orders-*",)),
    "anyone": Caller("anyone", Role.DECIDE, patterns=("User:*",)),
    "platform": Caller("platform", Role.ADMIN, "User:platform"),
    "broker": Caller("broker", Role.DECIDE, patterns=("User:*",), groups=("eng-*", "pii")),
    "lead": Caller("lead", Role.ADMIN, "User:platform", groups=("platform-*",)),
    "root": Caller("root", Role.ADMIN, "User:admin"),
    "prometheus": Caller("prometheus", Role.OBSERVE),
}
"""User:admin is a super user."""


@dataclass(slots=True)
class Guarded:
    """One replica, its callers' tokens, and who tells them apart."""

    service: Service
    app: RestApp
    client: httpx.AsyncClient
    callers: Callers
    admission: Admission
    tokens: dict[str, str]
    tokens_file: Path

    def at_once(self, authorization: str, body: object) -> object:
        """What the server's protocol is answered before it asks the application: the results, or None."""
        content = json.dumps(body).encode()
        headers = [
            (b"content-type", b"application/json"),
            (b"content-length", b"%d" % len(content)),
            (b"authorization", authorization.encode()),
        ]
        reply = self.app.answer(headers, content, ())
        return None if reply is None else json.loads(reply.partition(b"\r\n\r\n")[2] or reply)["results"]

    async def post(self, caller: str | None, path: str, body: object, **headers: str) -> httpx.Response:
        """POST a value as JSON, with this caller's token."""
        return await self.send("POST", caller, path, json.dumps(body).encode(), **headers)

    async def send(
        self, method: str, caller: str | None, path: str, content: bytes | None = None, **headers: str
    ) -> httpx.Response:
        """Ask anything; underscores in a header's name are hyphens."""
        shown = {} if caller is None else {"authorization": f"Bearer {self.tokens[caller]}"}
        more = {name.replace("_", "-"): value for name, value in headers.items()}
        typed = {} if content is None else {"content-type": "application/json"}
        return await self.client.request(method, path, content=content, headers={**typed, **shown, **more})


@asynccontextmanager
async def guarded(tmp_path: Path, around: AppOptions = AppOptions()) -> AsyncIterator[Guarded]:  # noqa: B008 - frozen
    """A replica that is ready, without ACLs, whose callers have a static token each."""
    path = tmp_path / "klamm.tokens"
    tokens = {name: add_token(path, name, CALLERS) for name in CALLERS}
    async with serving() as service:
        callers = Callers(
            Credentials(callers=CALLERS, tokens=StaticTokens(path, CALLERS, service.metrics)), service.metrics
        )
        admission = Admission(service.metrics)
        around = replace(around, callers=callers, admission=admission, past=FakePast(service.store))
        app = create_rest_app(service.authorizer, service.metrics, service.audit, around)
        transport = httpx.ASGITransport(app, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            yield Guarded(service, app, client, callers, admission, tokens, path)
