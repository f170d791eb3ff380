"""Every route, however its path is spelt, by every role, for every principal: no other way in than the plain path.

The requests go through the server's own protocol, as bytes: what a path means is decided there and in the router.
"""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from uvicorn.config import Config
from uvicorn.server import ServerState

from app.rest.http.connections import Connections
from app.rest.http.protocol import KlammProtocol
from app.rest.openapi import build_openapi
from tests.budgets import budget
from tests.callers import CALLERS
from tests.gate.unit.rest.test_bad_input import BODIES
from tests.klamm import InProcess, in_process
from tests.wires import Wire

PRINCIPALS = ("User:admin", "User:platform", "User:orders-1", "User:alice")
"""A super user; who the admin caller is; within the patterns of `sidecar`; outside of them."""
METHODS = ("POST", "GET", "PUT", "DELETE", "HEAD", "OPTIONS", "PATCH")
SENDERS = (None, *CALLERS)
_SOON = 100
NO_ACL = "00000000-0000-4000-8000-000000000000"


def spellings(path: str) -> Iterator[str]:
    """The path as somebody may write it who looks for a way around a check."""
    first, last = path[1], path[-1]
    cut = path.rindex("/")
    for ending in (
        "%0A",
        "%0D",
        "%00",
        "%0D%0A",
        "%7F",
        "%C2%85",
        "%20",
        "%09",
        "/",
        "//",
        "/.",
        "/..",
        ";x",
        ";",
        "%3B",
    ):
        yield path + ending
    for ending in (
        "%2F",
        "%3F",
        "%23",
        ".",
        "%E2%80%A8",
        "%EF%BB%BF",
        "%FF",
        "?",
        "?x=%0A",
        "#x",
        "%",
        "%0",
        "%zz",
        "\\",
    ):
        yield path + ending
    yield from ("%0A" + path, "/%0A" + path, "/" + path, "/." + path, "/x/.." + path, "/%2e" + path, "//" + path[1:])
    yield path[:cut] + "//" + path[cut + 1 :]
    yield path[:cut] + "%2F" + path[cut + 1 :]
    yield path[:cut] + "%0A" + path[cut:]
    yield path.upper()
    yield path.replace("v1", "V1").replace("readyz", "Readyz")
    yield f"/%{ord(first):02x}{path[2:]}"
    yield f"{path[:-1]}%{ord(last):02X}"
    yield f"/%25{ord(first):02x}{path[2:]}"
    yield "".join(f"%{byte:02x}" for byte in path.encode())
    yield f"http://klamm{path}"
    yield f"http://klamm{path}%0A"
    yield f"https://other:7{path}"
    yield f"//klamm{path}"


def routes() -> list[tuple[str, str]]:
    return [
        (method.upper(), path.replace("{id}", NO_ACL).replace("{listener_name}", "CLIENT"))
        for path, methods in build_openapi()["paths"].items()
        for method in methods
    ]


def body_for(path: str, principal: str) -> bytes:
    """What this route takes, in the name of this principal."""
    body: dict[str, Any] = dict(BODIES.get(path, {}))
    if "context" in body:
        body["context"] = {"principal": principal, "client_address": "10.1.2.3"}
    return json.dumps(body).encode()


class Client:
    """Sends bytes to one replica, each request on a connection of its own."""

    def __init__(self, it: InProcess) -> None:
        self._it = it
        self._config = Config(it.app, http="httptools", ws="none", log_config=None, access_log=False)
        self._config.load()

    async def ask(self, method: str, target: str, sender: str | None, body: bytes) -> tuple[int, bytes]:
        """The status and the body of the reply."""
        lines = [f"{method} {target} HTTP/1.1", "Host: klamm", "Connection: close"]
        if sender is not None:
            lines.append(f"Authorization: Bearer {self._it.tokens[sender]}")
        if body:
            lines += ["Content-Type: application/json", f"Content-Length: {len(body)}"]
        wire, state = Wire(), ServerState()
        state.default_headers = []
        connection = KlammProtocol(
            self._config,
            state,
            {},
            asyncio.get_running_loop(),
            answer=self._it.app.answer,
            prepared=self._it.app.prepared,
            shared=Connections(self._it.metrics),
        )
        connection.connection_made(wire)
        connection.data_received("\r\n".join((*lines, "", "")).encode() + body)
        for turn in range(10_000):
            if wire.closed:
                break
            await asyncio.sleep(0 if turn < _SOON else 0.001)
        connection.connection_lost(None)
        head, _, content = wire.written.partition(b"\r\n\r\n")
        status = re.match(rb"HTTP/1\.1 (\d{3}) ", head)
        assert status is not None, (method, target, wire.written)
        return int(status[1]), content


@asynccontextmanager
async def client(folder: Path) -> AsyncIterator[tuple[Client, InProcess]]:
    async with in_process(tokens_file=folder / "klamm.tokens") as it:
        yield Client(it), it


def state_of(it: InProcess) -> tuple[object, ...]:
    tables = it.store.tables
    return tables.last_offset, it.authorizer.image.config


@pytest.mark.parametrize(("method", "path"), routes()[:: budget("routes")])
async def test_no_spelling_of_a_path_lets_anybody_in(tmp_path: Path, method: str, path: str) -> None:
    async with client(tmp_path) as (http, it):
        has_body = method == "POST"
        for sender in SENDERS:
            for principal in PRINCIPALS if has_body else PRINCIPALS[:1]:
                body = body_for(path, principal) if has_body else b""
                may = (await http.ask(method, path, sender, body))[0] < 300
                before = state_of(it)
                for target in spellings(path):
                    status, reply = await http.ask(method, target, sender, body)
                    assert 200 <= status < 500, (sender, principal, target, reply)
                    assert may or status >= 400, (sender, principal, target, reply)
                assert may or state_of(it) == before, (sender, principal)


@pytest.mark.parametrize("path", sorted({path for _, path in routes()})[:: budget("routes")])
async def test_a_control_character_in_a_path_is_refused_before_any_route_is_looked_for(
    tmp_path: Path, path: str
) -> None:
    async with client(tmp_path) as (http, _):
        for character in (*range(0x20), 0x7F):
            for target in (f"{path}%{character:02x}", f"/%{character:02X}{path}"):
                for method in METHODS:
                    status, reply = await http.ask(method, target, "root", b"")
                    assert status == 400, (method, target)
                    assert b"control character" in reply or method == "HEAD", reply


@pytest.mark.parametrize("path", sorted({path for _, path in routes()})[:: budget("routes")])
async def test_no_method_is_a_way_around(tmp_path: Path, path: str) -> None:
    methods = {method for method, each in routes() if each == path}
    async with client(tmp_path) as (http, it):
        for method in METHODS:
            if method in methods:
                continue
            before = state_of(it)
            for sender in SENDERS:
                for target in (path, *spellings(path)):
                    status, reply = await http.ask(method, target, sender, body_for(path, "User:admin"))
                    assert 400 <= status < 500, (method, target, sender, reply)
            assert state_of(it) == before


async def test_the_absolute_form_is_the_plain_path(tmp_path: Path) -> None:
    """RFC 9112, 3.2.2: a server takes it, and it means the same to every check."""
    async with client(tmp_path) as (http, _):
        for principal, expected in (("User:orders-1", 200), ("User:alice", 403), ("User:admin", 403)):
            body = body_for("/v1/authorize", principal)
            for target in ("/v1/authorize", "http://klamm/v1/authorize", "/v1/%61uthorize", "/v1/authorize?"):
                assert (await http.ask("POST", target, "sidecar", body))[0] == expected, (principal, target)
