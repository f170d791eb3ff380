"""Connections whose TLS does not stand, on a server in this very process: they count, and they end."""

import asyncio
import os
import signal
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import cast

import pytest
from starlette.types import Receive, Scope, Send

from app.cli.server import ServerOptions, serve
from app.metrics.declared import Metrics
from app.process import sockets
from app.process.siblings import Siblings
from app.process.sockets import listening
from app.rest.callers.certificates import server_context
from app.rest.http import bounds
from app.rest.http.connections import Connections
from tests.certificates import Authority, Certified
from tests.klamm import until

LOOPBACK = "127.0.0.1"
PATIENCE_S = 60
MOST = 8

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@asynccontextmanager
async def _admission() -> AsyncIterator[None]:
    yield


class Alone:
    """A worker that ends while others serve."""

    alone = True

    def on_orders(self, _drain: Callable[[], None], end: Callable[[], None]) -> None:
        self.end = end

    def on_sigterm(self) -> None:
        self.end()


async def app(scope: Scope, receive: Receive, send: Send) -> None:
    if scope["type"] == "lifespan":
        for word in ("startup", "shutdown"):
            await receive()
            await send({"type": f"lifespan.{word}.complete"})
        return
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"ok"})


class Server:
    """What it is served with, and what its clients see of it."""

    def __init__(self, folder: Path, *, shared: bool = False, alone: bool = False) -> None:
        authority = Authority(folder)
        self.files: Certified = authority.certify("server")
        self.trust = ssl.create_default_context(cafile=authority.file)
        self.metrics = Metrics()
        self.connections = Connections(self.metrics, MOST)
        self.shared, self.alone = shared, alone
        self.keeps = False
        """Whether clients are left as they are at the end."""
        self.faults: list[BaseException] = []
        self.made: list[asyncio.StreamWriter] = []

    def run(self, once: Callable[[], Awaitable[None]]) -> None:
        async def started() -> None:
            try:
                await asyncio.wait_for(once(), PATIENCE_S)
            except BaseException as fault:  # noqa: BLE001 - told below, by the test
                self.faults.append(fault)
            if not self.keeps:
                for writer in self.made:
                    writer.close()
            os.kill(os.getpid(), signal.SIGTERM)

        with listening(LOOPBACK, 0) as listener:
            self.port = listener.getsockname()[1]
            serve(
                app,
                listener,
                ServerOptions(
                    once_started=started,
                    connections=self.connections,
                    admission=_admission() if self.shared else None,
                    supervision=cast("Siblings", Alone()) if self.alone else None,
                    tls=lambda: server_context(self.files.certificate, self.files.key),
                ),
            )
        for fault in self.faults:
            raise fault

    async def silent(self) -> Streams:
        reader, writer = await asyncio.open_connection(LOOPBACK, self.port)
        self.made.append(writer)
        return reader, writer

    async def answer(self) -> bytes:
        reader, writer = await asyncio.open_connection(LOOPBACK, self.port, ssl=self.trust, server_hostname=LOOPBACK)
        writer.write(b"GET / HTTP/1.1\r\nHost: k\r\nConnection: close\r\n\r\n")
        said = await reader.read()
        writer.close()
        return said


async def hung_up(streams: Streams) -> bool:
    with suppress(ConnectionResetError):
        return await streams[0].read(1) == b""
    return True


@pytest.fixture
def long_handshakes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "TLS_TIMEOUT_S", 300.0)


@pytest.mark.usefixtures("long_handshakes")
@pytest.mark.parametrize("shared", [False, True])
def test_handshakes_that_never_end_make_room_for_whoever_comes(tmp_path: Path, *, shared: bool) -> None:
    server = Server(tmp_path, shared=shared)

    async def flood() -> None:
        made: list[Streams] = []
        for n in range(5 * MOST):
            made.append(await server.silent())
            await until(lambda n=n: server.metrics.connections_refused == max(0, n + 1 - MOST))  # type: ignore[misc]  # bound at once
        assert await asyncio.gather(*map(hung_up, made[: 4 * MOST])) == [True] * 4 * MOST
        await until(lambda: server.metrics.connections == MOST)
        for _ in range(MOST):
            assert (await server.answer()).endswith(b"ok")
        for writer in server.made:
            writer.close()
        await until(lambda: server.metrics.connections == 0)

    server.run(flood)


def test_a_handshake_has_a_deadline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "TLS_TIMEOUT_S", 0.01)
    server = Server(tmp_path)

    async def wait() -> None:
        silent, drips = await server.silent(), await server.silent()
        drips[1].write(b"\x16\x03\x01")
        assert await hung_up(silent)
        assert await hung_up(drips)
        await until(lambda: server.metrics.connections == 0)

    server.run(wait)


@pytest.mark.usefixtures("long_handshakes")
def test_what_is_no_handshake_leaves_no_connection_behind(tmp_path: Path) -> None:
    server = Server(tmp_path)

    async def trash() -> None:
        for trash in (b"GET / HTTP/1.1\r\n\r\n", b"\0" * 100, b""):
            streams = await server.silent()
            await until(lambda: server.metrics.connections == 1)
            streams[1].write(trash)
            streams[1].write_eof()
            await streams[0].read()
            await until(lambda: server.metrics.connections == 0)

    server.run(trash)


@pytest.mark.usefixtures("long_handshakes")
def test_a_handshake_that_stands_is_one_connection(tmp_path: Path) -> None:
    server = Server(tmp_path)
    counts: list[int] = []

    async def ask() -> None:
        reader, writer = await asyncio.open_connection(
            LOOPBACK, server.port, ssl=server.trust, server_hostname=LOOPBACK
        )
        for _ in range(3):
            writer.write(b"GET / HTTP/1.1\r\nHost: k\r\n\r\n")
            assert (await reader.readuntil(b"ok")).startswith(b"HTTP/1.1 200")
            counts.append(server.metrics.connections)
        writer.close()
        await until(lambda: server.metrics.connections == 0)

    server.run(ask)
    assert counts == [1, 1, 1]


@pytest.mark.usefixtures("long_handshakes")
@pytest.mark.parametrize("alone", [False, True])
def test_the_end_waits_for_who_is_shaking_hands_and_not_for_the_silent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, alone: bool
) -> None:
    monkeypatch.setattr("app.cli.server._HOOKS_TIMEOUT_S", PATIENCE_S)
    server = Server(tmp_path, shared=True, alone=alone)
    server.keeps = True
    answers: list[bytes] = []
    waits = asyncio.wait

    async def wait_longer(tasks: set[asyncio.Task[bool]], timeout: float) -> object:  # noqa: ASYNC109 - as asyncio names it
        # The handshake takes place once the socket is closed.
        asking = asyncio.create_task(shake())
        got = await waits([asking], timeout=PATIENCE_S)
        await waits(tasks, timeout=min(timeout, 0.05))
        return got

    async def shake() -> None:
        transport, writer = late[0]
        await writer.start_tls(server.trust, server_hostname=LOOPBACK)
        writer.write(b"GET / HTTP/1.1\r\nHost: k\r\n\r\n")
        answers.append(await transport.readuntil(b"ok"))
        writer.close()

    async def end() -> None:
        late.append(await server.silent())
        silent.append(socket.create_connection((LOOPBACK, server.port)))
        await until(lambda: server.metrics.connections == 2)
        monkeypatch.setattr(sockets, "asyncio", _Patched(asyncio, wait_longer))

    late: list[Streams] = []
    silent: list[socket.socket] = []
    server.run(end)
    assert answers[0].startswith(b"HTTP/1.1 200")
    assert b"connection: close" in answers[0]
    with silent[0] as one:
        one.settimeout(PATIENCE_S)
        with suppress(ConnectionResetError):
            assert one.recv(1) == b""


class _Patched:
    """A module, but for one function of it."""

    def __init__(self, module: object, wait: object) -> None:
        self._module = module
        self.wait = wait

    def __getattr__(self, name: str) -> object:
        return getattr(self._module, name)
