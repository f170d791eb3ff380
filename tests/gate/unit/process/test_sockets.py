"""The address to serve on, and how workers share it."""

import asyncio
import socket
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from app.formats.command_errors import UsageError
from app.process.sockets import AcceptedProtocol, Acceptor, address_of, listening
from tests.virtual_time import freeze, in_virtual_time

LOOPBACK = "127.0.0.1"


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
            pytest.raises(UsageError, match=rf"127.0.0.1 port {port} \(Address already in use\); .*--port"),
            listening(LOOPBACK, port),
        ):
            pass


def test_a_host_that_is_none_is_named() -> None:
    with pytest.raises(UsageError, match="can't serve on not a host port 0"), listening("not a host", 0):
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
        pytest.raises(UsageError, match=r"another process serves on `.*`; .*--uds"),
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
    with pytest.raises(UsageError, match=r"can't serve on `.*notes.txt`"), listening(LOOPBACK, 0, path):
        pass
    assert path.read_text() == "mine"


def test_a_unix_socket_that_can_not_be_is_told_with_how_it_could(tmp_path: Path) -> None:
    for path, why in ((tmp_path / ("x" * 150), "path too long"), (tmp_path / "no" / "folder", "No such file")):
        with pytest.raises(UsageError) as told, listening(LOOPBACK, 0, path):
            pass
        assert why in str(told.value)
        assert "Errno" not in str(told.value)
        assert "choose another with --uds (KLAMM_UDS), of 107 bytes at most" in str(told.value)


class _Greeting(AcceptedProtocol):
    """Says which acceptor has accepted the connection."""

    def __init__(self, name: bytes) -> None:
        self._name = name

    def handshake_began(self, cancel: Callable[[], object]) -> None:
        """There is no TLS."""

    def handshake_failed(self) -> None:
        """The same."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        transport.write(self._name)


async def _greetings(clients: list[socket.socket]) -> list[bytes]:
    async def one(client: socket.socket) -> bytes:
        reader, writer = await asyncio.open_connection(sock=client)
        said = await asyncio.wait_for(reader.read(1), 30)
        writer.close()
        return said

    return [*await asyncio.gather(*map(one, clients))]


def _queued(listener: socket.socket, count: int) -> list[socket.socket]:
    """Clients that stand in the queue, however long it took them."""
    return [socket.create_connection(listener.getsockname(), 30) for _ in range(count)]


@in_virtual_time
async def test_two_acceptors_of_one_socket_share_a_burst() -> None:
    with listening(LOOPBACK, 0) as listener, listener.dup() as same:
        acceptors = [
            Acceptor(each, partial(_Greeting, name), shared=True) for each, name in ((listener, b"a"), (same, b"b"))
        ]
        burst = _queued(listener, 32)
        for acceptor in acceptors:
            acceptor.start()
        said = await _greetings(burst)
        assert min(said.count(b"a"), said.count(b"b")) >= 8
        acceptors[0].stop()
        assert await _greetings(_queued(listener, 8)) == [b"b"] * 8
        acceptors[1].stop()


async def test_a_full_queue_is_accepted_ever_faster() -> None:
    with listening(LOOPBACK, 0) as listener:
        clients = [socket.create_connection(listener.getsockname()) for _ in range(500)]
        acceptor = Acceptor(listener, lambda: _Greeting(b"a"), shared=True)
        acceptor.start()
        loop = asyncio.get_running_loop()
        for client in clients:
            client.settimeout(0)
            assert await asyncio.wait_for(loop.sock_recv(client, 1), 30) == b"a"
            client.close()
        acceptor.stop()


@pytest.mark.parametrize("shared", [False, True])
async def test_an_acceptor_without_descriptors_tries_again(
    shared: bool,  # noqa: FBT001 - a parameter of the test
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr("app.process.sockets._ERROR_PAUSE_S", 0.01)
    with listening(LOOPBACK, 0) as listener:
        accept = socket.socket.accept
        faults = [OSError(24, "Too many open files"), OSError(24, "Too many open files")]

        def failing(self: socket.socket) -> tuple[socket.socket, object]:
            if faults:
                raise faults.pop()
            return accept(self)

        monkeypatch.setattr(socket.socket, "accept", failing)
        acceptor = Acceptor(listener, lambda: _Greeting(b"a"), shared=shared)
        acceptor.start()
        assert await _greetings(_queued(listener, 1)) == [b"a"]
        acceptor.stop()
    assert caplog.messages == ["connection_not_taken"] * 2


@pytest.mark.parametrize("shared", [False, True])
@in_virtual_time
async def test_long_turns_keep_no_new_connection_waiting(
    shared: bool,  # noqa: FBT001 - a parameter of the test
) -> None:
    turns, come, all_come = 0, 0, asyncio.Event()
    loop = asyncio.get_running_loop()

    def busy() -> None:
        nonlocal turns
        turns += 1
        freeze(0.02)
        if not all_come.is_set():
            loop.call_soon(busy)

    def take() -> _Greeting:
        nonlocal come
        come += 1
        if come == len(clients):
            all_come.set()
        return _Greeting(b"a")

    with listening(LOOPBACK, 0) as listener:
        clients = [socket.create_connection(listener.getsockname()) for _ in range(100)]
        acceptor = Acceptor(listener, take, shared=shared)
        acceptor.start()
        loop.call_soon(busy)
        await asyncio.wait_for(all_come.wait(), 30)
        acceptor.stop()
        for client in clients:
            client.close()
    # One a turn would be a hundred turns.
    assert turns < 60


async def test_connections_in_the_queue_are_accepted_before_the_socket_closes() -> None:
    with listening(LOOPBACK, 0) as listener:
        acceptor = Acceptor(listener, lambda: _Greeting(b"a"), shared=False)
        acceptor.start()
        clients = [socket.create_connection(listener.getsockname()) for _ in range(50)]
        address = listener.getsockname()
        await acceptor.close(accept_queued=True)
        for client in clients:
            client.settimeout(0)
            assert await asyncio.wait_for(asyncio.get_running_loop().sock_recv(client, 1), 30) == b"a"
            client.close()
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(address)


async def test_a_worker_that_ends_alone_leaves_the_queue_to_the_others() -> None:
    with listening(LOOPBACK, 0) as listener:
        other = listener.dup()
        acceptor = Acceptor(listener, lambda: _Greeting(b"a"), shared=True)
        acceptor.start()
        client = socket.create_connection(other.getsockname())
        await acceptor.close(accept_queued=False)
        remaining = Acceptor(other, lambda: _Greeting(b"b"), shared=True)
        remaining.start()
        with client:
            client.settimeout(0)
            assert await asyncio.wait_for(asyncio.get_running_loop().sock_recv(client, 1), 30) == b"b"
        await remaining.close(accept_queued=True)
