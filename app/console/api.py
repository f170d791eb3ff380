"""The service's REST API, called in process: each call passes its route's edge like a call from outside."""

import asyncio
from collections.abc import Awaitable, Mapping
from typing import Any, TypeVar

import httpx
import msgspec
from starlette.types import ASGIApp, Receive, Scope, Send

from app.rest.http.admission import PlaceHolder
from app.rest.http.arguments import HOLDER
from app.rest.http.services import SERVICES, Services

_OK = 200
_TIMEOUT_S = 30.0
_LOOPBACK = "127.0.0.1"
PATIENCE_S = 2.0
"""How long a page waits for data from the store that it can be shown without."""


T = TypeVar("T")


class ApiRefusedError(Exception):
    """The API has refused a call: `detail` is its text for people, `code` Kafka's name of the error."""

    def __init__(self, status: int, code: str, detail: str) -> None:
        super().__init__(detail)
        self.status = status
        self.code = code
        self.detail = detail


async def if_in_time(asked: Awaitable[T]) -> T | None:
    """The answer; None if it is refused, or does not come in time, as the page is shown without it."""
    try:
        async with asyncio.timeout(PATIENCE_S):
            return await asked
    except (ApiRefusedError, TimeoutError):
        return None


class Api:
    """Speaks for one visitor: with its token or certificate, from its address, and never with more."""

    def __init__(self, services: Services, scope: Scope, token: str | None, at_least: str | None = None) -> None:
        self.principal: str | None = None
        self._scope = scope
        self._at_least = at_least
        host = dict(scope["headers"]).get(b"host", b"").decode("latin-1")
        self._headers = {"host": host, **({} if token is None else {"authorization": f"Bearer {token}"})}
        client = scope.get("client") or (_LOOPBACK, 0)
        self._transport = httpx.ASGITransport(_with_services(scope["router"], services, scope), client=tuple(client))

    async def get(self, path: str, **parameters: str) -> Any:  # noqa: ANN401 - JSON
        """Raises ApiRefusedError."""
        if self._at_least is not None:
            parameters["at_least"] = self._at_least
        return _json(await self.ask("GET", path, parameters=parameters))

    async def post(self, path: str, body: Mapping[str, object]) -> Any:  # noqa: ANN401 - JSON
        """Asks for the visitor's principal. Raises ApiRefusedError."""
        whole: dict[str, object] = {"context": {"principal": self.principal, "client_address": _LOOPBACK}, **body}
        if self._at_least is not None:
            whole.setdefault("at_least", self._at_least)
        return _json(await self.ask("POST", path, body=whole))

    async def ask(
        self, method: str, path: str, *, body: object = None, parameters: Mapping[str, str] | None = None
    ) -> httpx.Response:
        request = httpx.Request(
            method, f"http://klamm{path}", json=body, params=parameters or None, headers=self._headers
        )
        async with asyncio.timeout(_TIMEOUT_S):
            reply = await self._transport.handle_async_request(request)
            await reply.aread()
        return reply

    def scope_of(self, path: str, query: bytes, headers: Mapping[bytes, bytes]) -> Scope:
        """For a route that streams, which is entered without a client."""
        own = [(name.encode(), value.encode()) for name, value in self._headers.items()]
        return {**self._scope, "path": path, "query_string": query, "headers": [*own, *headers.items()]}


def _with_services(router: ASGIApp, services: Services, around: Scope) -> ASGIApp:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        scope[SERVICES] = services
        scope["klamm.names"] = around.get("klamm.names", ())
        scope[HOLDER] = around.setdefault(HOLDER, PlaceHolder())
        await router(scope, receive, send)

    return app


def _json(reply: httpx.Response) -> Any:  # noqa: ANN401 - JSON
    body = msgspec.json.decode(reply.content)
    if reply.status_code != _OK:
        errors = body.get("errors") or ()
        details = "; ".join(str(each["detail"]) for each in errors) or str(body.get("detail"))
        raise ApiRefusedError(reply.status_code, str(body.get("code")), details)
    return body
