import asyncio
import os
import signal
from collections.abc import Awaitable, Callable

import httpx
import pytest
from pydantic import SecretStr
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.main import create_app, serve
from app.ops.settings import Settings
from app.ops.sockets import address_of, listening

LOOPBACK = "127.0.0.1"


class _App:
    """Answers `ok` after a moment; tells what has happened to it."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        self.started = asyncio.Event()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await receive()
            self.seen.append("start")
            await send({"type": "lifespan.startup.complete"})
            await receive()
            self.seen.append("stop")
            await send({"type": "lifespan.shutdown.complete"})
            return
        self.started.set()
        await asyncio.sleep(0.05)
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
        await send({"type": "http.response.body", "body": b"ok"})
        self.seen.append("answered")


async def test_an_impatient_end_leaves_no_trace() -> None:
    """A second Ctrl-C cancels the lifespan instead of telling it the end; uvicorn would log what comes of it."""
    replica = create_app(Settings(database_url=SecretStr("postgresql://klamm@127.0.0.1:1/klamm")))
    started = asyncio.Event()

    async def receive() -> Message:
        if started.is_set():
            await asyncio.Event().wait()
        return {"type": "lifespan.startup"}

    async def send(message: Message) -> None:
        assert message["type"] == "lifespan.startup.complete"
        started.set()

    life = asyncio.create_task(replica({"type": "lifespan"}, receive, send))
    await started.wait()
    await asyncio.sleep(0)
    life.cancel()
    await life
    await replica._authorizer.close()
    await asyncio.to_thread(replica._audit.close)


def test_a_replica_needs_a_database_url() -> None:
    with pytest.raises(ValueError, match="needs a database URL"):
        create_app(Settings())


def _serve_until(signum: signal.Signals, app: _App, *, once: Callable[[str], Awaitable[None]] | None = None) -> None:
    """Serves `app`, and sends the signal to this very process once `once` has been done (or at once)."""

    async def started() -> None:
        if once is not None:
            await once(address)
        os.kill(os.getpid(), signum)

    with listening(LOOPBACK, 0) as listener:
        address = address_of(listener)
        serve(app, listener, once_started=started)


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_serving_and_not_the_process(signum: signal.Signals) -> None:
    app = _App()
    _serve_until(signum, app)
    assert app.seen == ["start", "stop"]


def test_what_is_under_way_is_answered_before_the_end() -> None:
    app, tasks = _App(), list[asyncio.Task[None]]()

    async def ask(address: str) -> None:
        async def one_request() -> None:
            async with httpx.AsyncClient(base_url=address, timeout=30) as client:
                await client.get("/")

        tasks.append(asyncio.create_task(one_request()))
        await app.started.wait()

    _serve_until(signal.SIGTERM, app, once=ask)
    assert app.seen == ["start", "answered", "stop"]


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
        serve(_App(), listener, each_second=each_second)
    assert len(calls) == 2


def test_an_application_that_does_not_start_ends_the_process() -> None:
    async def broken(scope: Scope, _receive: Receive, _send: Send) -> None:
        raise RuntimeError(f"planted into the {scope['type']}")

    app: ASGIApp = broken
    with listening(LOOPBACK, 0) as listener, pytest.raises(SystemExit) as ended:
        serve(app, listener)
    assert ended.value.code == 3
