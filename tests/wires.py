"""A connection without a socket, for tests of the protocol: what it is sent, and what it writes."""

import asyncio
import re
import socket
from collections.abc import Iterable, Sequence

from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.config import Config
from uvicorn.server import ServerState

from app.rest.http.connections import Connections
from app.rest.http.protocol import KlammProtocol

LINE = b"POST /v1/authorize HTTP/1.1"
HOST = b"Host: localhost"
TYPE = b"Content-Type: application/json"
HEAD = b"\r\n".join((LINE, HOST, TYPE, b"Content-Length: 5", b"", b""))
CHUNKED = b"\r\n".join((LINE, HOST, TYPE, b"Transfer-Encoding: chunked", b"", b""))
PROBE = b"GET /readyz?x HTTP/1.1\r\nHost: k\r\n\r\n"


class Wire(asyncio.Transport):
    """What the protocol has written, and whether it has hung up."""

    def __init__(self, connection: socket.socket | None = None) -> None:
        """With a socket, what its peer has sent is what nobody has read yet."""
        super().__init__()
        self.connection = connection
        self.written = b""
        self.writes = 0
        self.closed = False
        """As the client sees it."""
        self.gone = False
        self.backlog = 0
        self.aborted = False
        self.peercert: dict[str, object] | None = None

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self.gone:
            raise RuntimeError("the handler is closed")  # as uvloop's transports
        self.written += bytes(data)
        self.writes += 1

    def is_closing(self) -> bool:
        return self.gone

    def close(self) -> None:
        self.closed = True
        self.gone = True

    def pause_reading(self) -> None:
        """The test doesn't flood."""

    def resume_reading(self) -> None:
        """The same."""

    def get_extra_info(self, name: str, default: object = None) -> object:
        return {"peercert": self.peercert, "socket": self.connection}.get(name, default)

    def get_write_buffer_size(self) -> int:
        return self.backlog

    def abort(self) -> None:
        self.closed = self.gone = True
        self.aborted = True

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        # The client sees the end; what it still sends is read and thrown away.
        self.closed = True


async def slow_way(scope: Scope, receive: Receive, send: Send) -> None:
    """Says what it was asked, so that nothing can be told apart from the plain answer but on purpose."""
    body = b""
    more = True
    while more:
        message = await receive()
        body += message.get("body", b"")
        more = message.get("more_body", False)
    scope["klamm.known"] = True
    reply = plain_reply(scope["headers"], body)
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(reply))]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": reply})


def plain_reply(headers: Iterable[tuple[bytes, bytes]], body: bytes) -> bytes:
    return b"%r %r" % (list(headers), body)


def answer(
    headers: Iterable[tuple[bytes, bytes]], body: bytes, _names: Sequence[str], _target: bytes = b""
) -> bytes | None:
    if body.startswith(b"slow"):
        return None
    reply = plain_reply(headers, body)
    return b"content-length: %d\r\n\r\n%b" % (len(reply), reply)


def connected(
    app: ASGIApp = slow_way, shared: Connections | None = None, wire: Wire | None = None
) -> tuple[KlammProtocol, Wire]:
    connection = unconnected(app, shared)
    wire = wire or Wire()
    connection.connection_made(wire)
    return connection, wire


def unconnected(app: ASGIApp = slow_way, shared: Connections | None = None) -> KlammProtocol:
    config = Config(app, http="httptools", ws="none", log_config=None, access_log=False, timeout_keep_alive=75)
    config.load()
    state = ServerState()
    state.default_headers = [(b"date", b"now")]
    return KlammProtocol(config, state, {}, asyncio.get_running_loop(), answer=answer, shared=shared or Connections())


async def turns() -> None:
    """Let everything come to rest."""
    for _ in range(10):
        await asyncio.sleep(0)


def request(body: bytes, *more: bytes, line: bytes = LINE, end: bytes = b"\r\n") -> bytes:
    return end.join((line, HOST, TYPE, *more, b"Content-Length: %d" % len(body), b"", b"")) + body


class Clock:
    """Stands still until it is told."""

    def __init__(self) -> None:
        self.now = 1_000.0
        self.elsewhere = 0.0
        """Time of the core that others had."""

    def __call__(self) -> float:
        return self.now

    def on_core(self) -> float:
        return self.now - self.elsewhere


def later(clock: Clock, shared: Connections, seconds: float) -> None:
    """So long, and a sweep."""
    clock.now += seconds
    shared._sweep(asyncio.get_running_loop())


def statuses(wire: Wire) -> list[int]:
    return [int(status) for status in re.findall(rb"HTTP/1\.1 (\d{3}) [A-Z]", wire.written)]


async def unread(scope: Scope, _: Receive, send: Send) -> None:
    """Answers without looking at the body."""
    headers = [(b"content-length", b"2")]
    await send(
        {"type": "http.response.start", "status": 200 if scope["path"] == "/readyz" else 404, "headers": headers}
    )
    await send({"type": "http.response.body", "body": b"no"})
