"""Every route, whatever is sent to it by whom: no step of the event loop over 20 ms of CPU.

The requests go through the server's own protocol, as bytes, in segments as they come from a socket.
"""

import asyncio
import json
import re
from collections import deque
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from uvicorn.config import Config
from uvicorn.server import ServerState

from app.console.routes import console_routes
from app.console.sessions import Seal, Session
from app.rest.app import ROUTES, AppOptions
from app.rest.http.connections import Connections
from app.rest.http.edge import Route
from app.rest.http.protocol import KlammProtocol
from app.rest.openapi import build_openapi
from app.rest.pages.routes import pages_routes
from tests.browser import KEY
from tests.gate.unit.rest.test_bad_input import BODIES
from tests.klamm import InProcess, acl, in_process
from tests.loop_steps import apart, measured_steps
from tests.odd_requests import bodies, forms, headers, queries
from tests.wires import Wire

MOST_S = 0.020
_TRIES = 8
_SEGMENT = 256 * 1024
"""What a loop reads of a socket at once."""
_SOON = 200
_PATIENCE = 60_000
ALL_ROUTES = [*ROUTES, *pages_routes(build_openapi, has_console=True), *console_routes(KEY)]
PARAMETERS = {"id:uuid": "00000000-0000-4000-8000-000000000000"}
"""Others are `x`."""


class Sent(NamedTuple):
    what: str
    target: str
    lines: list[str]
    body: bytes = b""


class SlowedWire(Wire):
    is_read = True

    def pause_reading(self) -> None:
        self.is_read = False

    def resume_reading(self) -> None:
        self.is_read = True


class Client:
    def __init__(self, it: InProcess) -> None:
        self._it = it
        self._config = Config(it.app, http="httptools", ws="none", log_config=None, access_log=False)
        self._config.load()

    async def ask(self, method: str, sent: Sent) -> bytes:
        """What is written for it. A stream is hung up on."""
        wire, state = SlowedWire(), ServerState()
        state.default_headers = []
        loop = asyncio.get_running_loop()
        shared = Connections(self._it.metrics)
        connection = KlammProtocol(self._config, state, {}, loop, answer=self._it.app.answer, shared=shared)
        connection.connection_made(wire)
        length = [f"Content-Length: {len(sent.body)}"] if sent.body else []
        head = [f"{method} {sent.target} HTTP/1.1", *sent.lines, *length, "", ""]
        data = "\r\n".join(head).encode("latin-1") + sent.body
        segments = deque(data[at : at + _SEGMENT] for at in range(0, len(data), _SEGMENT))
        for turn in range(_PATIENCE):
            if wire.closed or b"event-stream" in wire.written or b"x-ndjson" in wire.written:
                break
            if segments and wire.is_read:
                loop.call_soon(connection.data_received, segments.popleft())
            await asyncio.sleep(0 if turn < _SOON else 0.001)
        connection.connection_lost(None)
        await asyncio.sleep(0)
        return wire.written


@asynccontextmanager
async def client(folder: Path) -> AsyncIterator[tuple[Client, InProcess]]:
    around = AppOptions(console=console_routes(KEY), document=build_openapi)
    async with in_process(tokens_file=folder / "klamm.tokens", around=around) as it:
        await it.create(*(acl(f"t{at}") for at in range(30)))
        it.store.commit = apart(it.store.commit)  # type: ignore[method-assign]
        yield Client(it), it


def path_of(route: Route) -> str:
    return re.sub(r"{([^}]*)}", lambda found: PARAMETERS.get(found[1], "x"), route.path)


def method_of(route: Route) -> str:
    (method,) = route.methods
    return method


def is_page(route: Route) -> bool:
    return route.path.startswith("/console")


def requests(route: Route, lines: list[str], form_token: str, cookie: str) -> Iterator[Sent]:
    path, is_get = path_of(route), method_of(route) == "GET"
    typed = [*lines, f"Content-Type: application/{'x-www-form-urlencoded' if is_page(route) else 'json'}"]
    if is_get:
        for what, query in queries():
            yield Sent(f"query, {what}", f"{path}?{query}", lines)
    elif is_page(route):
        for most in (16_000, route.max_body_bytes):
            for what, body in forms(form_token, most):
                yield Sent(f"form of {most}, {what}", path, typed, body)
    else:
        for what, body in bodies(body_of(route), route.max_body_bytes):
            yield Sent(f"body, {what}", path, typed, body)
    plain = f"form_token={form_token}".encode() if is_page(route) else json.dumps(body_of(route)).encode()
    for what, line in headers(cookie):
        others = [each for each in typed if not each.lower().startswith(line.partition(":")[0] + ":")]
        yield Sent(f"header, {what}", path, [*others, line], b"" if is_get else plain)


def body_of(route: Route) -> dict[str, Any]:
    return BODIES.get(path_of(route), {})


async def longest_of(http: Client, method: str, sent: Sent) -> tuple[float, str]:
    """The least of some tries, each the longest step: what neighbours add to one is in none of the others."""
    least = float("inf"), ""
    for _ in range(_TRIES):
        with measured_steps() as steps:
            assert await http.ask(method, sent), sent.what
        least = min(least, (steps.longest_s, f"{sent.what}: {steps.longest}"))
        if least[0] < MOST_S / 2:
            break
    return least


def _param(at: int, route: Route) -> Any:  # noqa: ANN401 - pytest does not name it
    return pytest.param(at, id=f"{method_of(route)} {route.path}")


@pytest.mark.parametrize("sender", [None, "root"])
@pytest.mark.parametrize("at", [_param(at, route) for at, route in enumerate(ALL_ROUTES)])
async def test_no_request_holds_the_loop(tmp_path: Path, at: int, sender: str | None) -> None:
    route, seal = ALL_ROUTES[at], Seal(KEY)
    async with client(tmp_path) as (http, it):
        session = Session.new(None if sender is None else it.tokens[sender])
        lines = ["Host: localhost", "Connection: close", f"Cookie: klamm_session={seal.sealed(session)}"]
        if sender is not None and not is_page(route):
            lines.append(f"authorization: Bearer {it.tokens[sender]}")
        sent = requests(route, lines, seal.form_token(session), "klamm_session")
        worst = sorted([await longest_of(http, method_of(route), each) for each in sent], reverse=True)
        assert worst[0][0] < MOST_S, worst[:10]
