import asyncio
import os
import signal
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path

import httpx
import pytest
from starlette.types import ASGIApp, Receive, Scope, Send

from app.main import ListenError, address_of, create_app, listening, serve
from app.ops.settings import Settings

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


def test_a_replica_needs_a_database_url() -> None:
    with pytest.raises(ValueError, match="needs a database URL"):
        create_app(Settings())


def test_a_free_port_is_taken_and_told() -> None:
    with listening(LOOPBACK, 0) as listener:
        port = listener.getsockname()[1]
        assert address_of(listener) == f"http://127.0.0.1:{port}"
        socket.create_connection((LOOPBACK, port), timeout=5).close()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((LOOPBACK, port), timeout=5)


@pytest.mark.skipif(not socket.has_dualstack_ipv6(), reason="no IPv6 here")
def test_an_ipv6_address_is_told_as_a_url() -> None:
    with listening("::1", 0) as listener:
        assert address_of(listener) == f"http://[::1]:{listener.getsockname()[1]}"


def test_a_port_that_is_taken_is_named() -> None:
    with listening(LOOPBACK, 0) as listener:
        port = listener.getsockname()[1]
        with (
            pytest.raises(ListenError, match=rf"127.0.0.1 port {port} \(Address already in use\); .*--port"),
            listening(LOOPBACK, port),
        ):
            pass


def test_a_host_that_is_none_is_named() -> None:
    with pytest.raises(ListenError, match="can't serve on not a host port 0"), listening("not a host", 0):
        pass


def test_a_unix_socket_is_for_everybody_and_goes_in_the_end(tmp_path: Path) -> None:
    path = tmp_path / "klamm.sock"
    with listening(LOOPBACK, 0, path) as listener:
        assert address_of(listener) == f"unix:{path}"
        assert path.stat().st_mode & 0o777 == 0o666
    assert not path.exists()


def test_a_unix_socket_in_use_is_named(tmp_path: Path) -> None:
    path = tmp_path / "klamm.sock"
    with (
        listening(LOOPBACK, 0, path),
        pytest.raises(ListenError, match=r"another process serves on `.*`; .*--uds"),
        listening(LOOPBACK, 0, path),
    ):
        pass


def test_a_unix_socket_that_a_crash_left_behind_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "klamm.sock"
    with socket.socket(socket.AF_UNIX) as crashed:
        crashed.bind(str(path))
    with listening(LOOPBACK, 0, path):
        pass


def test_a_file_in_the_place_of_a_unix_socket_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("mine")
    with pytest.raises(ListenError, match=r"can't serve on `.*notes.txt`"), listening(LOOPBACK, 0, path):
        pass
    assert path.read_text() == "mine"


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
