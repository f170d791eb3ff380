"""A server in this very process, which sends itself the signals."""

import asyncio
import gc
import os
import signal
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

import httpx
import pytest
from starlette.types import ASGIApp, Receive, Scope, Send

from app.cli.server import ServerOptions, serve
from app.process.siblings import Siblings
from app.process.sockets import address_of, listening
from app.rest.callers.certificates import server_context
from tests.certificates import Authority
from tests.klamm import until

LOOPBACK = "127.0.0.1"
FOR_EVER_S = 300.0


class _App:
    """Answers `ok` after a moment; tells what has happened to it."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        self.started = asyncio.Event()
        self.drained_s = 0.0

    def draining(self, others_serve: bool) -> None:  # noqa: FBT001 - as ServerOptions wants it
        self.seen.append("alone" if others_serve else "draining")
        self.drained_s -= asyncio.get_running_loop().time()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await receive()
            self.seen.append("start")
            await send({"type": "lifespan.startup.complete"})
            await receive()
            self.seen.append("stop")
            self.drained_s += asyncio.get_running_loop().time()
            await send({"type": "lifespan.shutdown.complete"})
            return
        self.started.set()
        await asyncio.sleep(0.05)
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
        await send({"type": "http.response.body", "body": b"ok"})
        self.seen.append("answered")


def _serve_until(
    signum: signal.Signals, app: _App, *, once: Callable[[str], Awaitable[None]] | None = None, drain_s: float = 0.0
) -> None:
    """Serves `app`, and sends the signal to this very process once `once` has been done (or at once)."""

    async def started() -> None:
        if once is not None:
            await once(address)
        os.kill(os.getpid(), signum)

    with listening(LOOPBACK, 0) as listener:
        address = address_of(listener)
        serve(app, listener, ServerOptions(once_started=started, drain_s=drain_s, draining=app.draining))


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_serving_and_not_the_process(signum: signal.Signals) -> None:
    app = _App()
    _serve_until(signum, app)
    assert app.seen == ["start", "draining", "stop"]


def test_what_is_under_way_is_answered_before_the_end() -> None:
    app, tasks = _App(), list[asyncio.Task[None]]()

    async def ask(address: str) -> None:
        async def one_request() -> None:
            async with httpx.AsyncClient(base_url=address, timeout=30) as client:
                await client.get("/")

        tasks.append(asyncio.create_task(one_request()))
        await app.started.wait()

    _serve_until(signal.SIGTERM, app, once=ask)
    assert app.seen == ["start", "draining", "answered", "stop"]


def test_neither_the_server_nor_its_version_is_told() -> None:
    headers = httpx.Headers()

    async def ask(address: str) -> None:
        async with httpx.AsyncClient(base_url=address, timeout=30) as client:
            headers.update((await client.get("/")).headers)

    _serve_until(signal.SIGTERM, _App(), once=ask)
    assert "server" not in headers
    assert "date" in headers


def test_each_second_is_called_while_serving() -> None:
    calls: list[int] = []

    def each_second() -> None:
        calls.append(1)
        if len(calls) == 2:
            os.kill(os.getpid(), signal.SIGTERM)

    with listening(LOOPBACK, 0) as listener:
        serve(_App(), listener, ServerOptions(each_second=each_second))
    assert len(calls) == 2


def test_an_application_that_does_not_start_ends_the_process() -> None:
    async def broken(scope: Scope, _receive: Receive, _send: Send) -> None:
        raise RuntimeError(f"planted into the {scope['type']}")

    app: ASGIApp = broken
    with listening(LOOPBACK, 0) as listener, pytest.raises(SystemExit) as ended:
        serve(app, listener, ServerOptions())
    assert ended.value.code == 3


def _terminate() -> None:
    os.kill(os.getpid(), signal.SIGTERM)


async def _answer_of(address: str, verify: ssl.SSLContext | bool = True) -> str:  # noqa: FBT001, FBT002 - as httpx names it
    async with httpx.AsyncClient(base_url=address, timeout=30, verify=verify) as client:
        return (await client.get("/")).text


@pytest.mark.parametrize("second", [signal.SIGTERM, signal.SIGINT])
def test_while_it_drains_everything_is_answered_until_a_second_signal(second: signal.Signals) -> None:
    app = _App()

    async def drain(address: str) -> None:
        _terminate()
        await until(lambda: "draining" in app.seen)
        # Longer than the server takes to look whether it is to end.
        for _ in range(5):
            assert await _answer_of(address) == "ok"

    _serve_until(second, app, once=drain, drain_s=FOR_EVER_S)
    assert app.seen == ["start", "draining", *["answered"] * 5, "stop"]


def test_the_drain_time_comes_to_its_end_by_itself() -> None:
    app = _App()
    _serve_until(signal.SIGTERM, app, drain_s=0.3)
    assert app.seen == ["start", "draining", "stop"]
    # A timer may come by a tick of its clock too early.
    assert app.drained_s >= 0.29


def test_ctrl_c_does_not_drain() -> None:
    app = _App()
    _serve_until(signal.SIGINT, app, drain_s=FOR_EVER_S)
    assert app.seen == ["start", "draining", "stop"]


@dataclass
class _Supervision:
    """Counts the SIGTERMs, and answers each as `answer` says."""

    answer: Callable[["_Supervision"], None]
    told: int = 0
    alone: bool = False
    drain: Callable[[], None] = field(default=lambda: None)
    end: Callable[[], None] = field(default=lambda: None)

    def on_orders(self, drain: Callable[[], None], end: Callable[[], None]) -> None:
        self.drain, self.end = drain, end

    def on_sigterm(self) -> None:
        self.told += 1
        self.answer(self)


def _serve_supervised(app: _App, supervision: _Supervision, once: Callable[[], Awaitable[None]]) -> None:
    with listening(LOOPBACK, 0) as listener:
        serve(
            app,
            listener,
            ServerOptions(
                once_started=once,
                drain_s=FOR_EVER_S,
                draining=app.draining,
                supervision=cast("Siblings", supervision),
            ),
        )


def test_under_supervision_sigterm_is_left_to_it() -> None:
    app, supervision = _App(), _Supervision(lambda _: None)

    async def once() -> None:
        for told in (1, 2):
            _terminate()
            await until(lambda told=told: supervision.told == told)  # type: ignore[misc]  # the default binds the loop's variable
        assert app.seen == ["start"]
        supervision.end()

    _serve_supervised(app, supervision, once)
    assert app.seen == ["start", "draining", "stop"]


def test_under_supervision_sigterm_says_nothing_more_once_it_drains() -> None:
    app, supervision = _App(), _Supervision(lambda it: it.drain())

    async def once() -> None:
        _terminate()
        await until(lambda: "draining" in app.seen)
        _terminate()
        supervision.drain()
        await asyncio.sleep(0.3)
        assert app.seen == ["start", "draining"]
        supervision.end()

    _serve_supervised(app, supervision, once)
    assert app.seen == ["start", "draining", "stop"]
    assert supervision.told == 1


def test_who_ends_alone_does_not_say_that_the_service_drains() -> None:
    app = _App()
    supervision = _Supervision(lambda it: it.end(), alone=True)

    async def once() -> None:
        _terminate()

    _serve_supervised(app, supervision, once)
    assert app.seen == ["start", "alone", "stop"]


@asynccontextmanager
async def _admission() -> AsyncIterator[None]:
    yield


@pytest.mark.parametrize("shared", [False, True])
def test_tls_is_spoken_on_a_listener_of_its_own_and_on_one_that_is_shared(tmp_path: Path, *, shared: bool) -> None:
    authority = Authority(tmp_path)
    files = authority.certify("server")
    app, said = _App(), list[str]()
    trust = ssl.create_default_context(cafile=authority.file)

    async def ask(address: str) -> None:
        with pytest.raises(httpx.TransportError):
            await _answer_of(address)
        said.append(await _answer_of(address.replace("http:", "https:"), trust))
        _terminate()

    with listening(LOOPBACK, 0) as listener:
        address = address_of(listener)
        serve(
            app,
            listener,
            ServerOptions(
                once_started=lambda: ask(address),
                admission=_admission() if shared else None,
                tls=lambda: server_context(files.certificate, files.key),
            ),
        )
    assert said == ["ok"]
    assert app.seen == ["start", "answered", "stop"]


def test_what_has_come_but_was_not_read_when_connections_are_closed_is_answered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("app.cli.server._TICKS_PER_SECOND", 1)
    app, streams = _App(), list[socket.socket]()
    ask = b"GET / HTTP/1.1\r\nHost: k\r\n\r\n"

    def each_second() -> None:
        if streams:
            if app.seen.count("answered") == len(streams):
                os.kill(os.getpid(), signal.SIGINT)
            return
        for _ in range(2):
            streams.append(socket.create_connection(listener.getsockname(), timeout=30))
            streams[-1].sendall(ask)

    def draining(_: bool) -> None:  # noqa: FBT001 - as ServerOptions wants it
        # The event loop does not look at connections again before it closes them.
        for stream in streams:
            assert stream.recv(65_536).endswith(b"ok")
        streams[0].sendall(ask)

    with listening(LOOPBACK, 0) as listener:
        serve(app, listener, ServerOptions(answer=lambda *_: None, each_second=each_second, draining=draining))
    with streams[0] as late, streams[1] as idle:
        reply = late.makefile("rb").read()
        assert reply.startswith(b"HTTP/1.1 200 ")
        assert b"connection: close\r\n" in reply
        assert idle.recv(1) == b""
    assert app.seen == ["start", *["answered"] * 3, "stop"]


def test_a_look_up_that_nobody_waits_for_any_more_is_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    async def give_up(_address: str) -> None:
        loop = asyncio.get_running_loop()
        asked = asyncio.ensure_future(
            # A look-up that fails without any network.
            loop.create_connection(asyncio.Protocol, "no.address.invalid", 1, flags=socket.AI_NUMERICHOST)
        )
        await asyncio.sleep(0)
        asked.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asked
        del asked
        with pytest.raises(socket.gaierror):
            await loop.create_connection(asyncio.Protocol, "no.address.invalid", 1, flags=socket.AI_NUMERICHOST)
        await asyncio.sleep(0.1)
        gc.collect()
        loop.call_soon(_fail)
        await asyncio.sleep(0)

    _serve_until(signal.SIGTERM, _App(), once=give_up)
    # What else nobody has heard of is told.
    assert [str(each.exc_info[1]) for each in caplog.records if each.name == "asyncio" and each.exc_info] == ["planted"]


def _fail() -> None:
    raise RuntimeError("planted")
