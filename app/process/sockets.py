"""The socket that clients connect to, and how one or several processes accept connections from it."""

import asyncio
import fcntl
import logging
import socket
import ssl
import sys
import termios
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

from app.formats.command_errors import UsageError

_BACKLOG = 2048
_LONGEST_PATH = 107 if sys.platform == "linux" else 103
"""Bytes of a Unix socket's path."""
_PAUSE_S = 0.001
_ERROR_PAUSE_S = 1.0
_HANDSHAKES_TIMEOUT_S = 0.5
"""How long handshakes may go on after the socket is closed."""
_MAX_ACCEPTS = 32
"""In one turn of the event loop."""
_STREAK = 32
_SIOCOUTQNSD = 0x894B
"""linux/sockios.h"""

_log = logging.getLogger(__name__)


@contextmanager
def listening(host: str, port: int, uds: Path | None = None) -> Iterator[socket.socket]:
    """A socket that listens on host and port, or on the Unix socket `uds`, whose file is removed at the end.

    Raises UsageError.
    """
    with _unix_socket(uds) if uds is not None else _tcp_socket(host, port) as listener:
        try:
            yield listener
        finally:
            if uds is not None:
                uds.unlink(missing_ok=True)


def address_of(listener: socket.socket, *, tls: bool = False) -> str:
    """The URL for clients: http://127.0.0.1:8080, https with `tls`, or unix:PATH."""
    if listener.family == socket.AF_UNIX:
        return f"unix:{listener.getsockname()}"
    host, port = listener.getsockname()[:2]
    scheme = "https" if tls else "http"
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"


def _tcp_socket(host: str, port: int) -> socket.socket:
    listener = None
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        listener = socket.socket(family, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        # Now, not later: until it listens, another process could bind the same port.
        listener.listen(_BACKLOG)
    except OSError as error:
        if listener is not None:
            listener.close()
        raise UsageError(
            f"can't serve on {host} port {port} ({error.strerror}); "
            "choose another with --host and --port (KLAMM_HOST, KLAMM_PORT)"
        ) from None
    return listener


def _unix_socket(path: Path) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        if path.is_socket():
            _refuse_if_served(path)
            path.unlink()
        listener.bind(str(path))
        # The folder's mode decides who may connect; the other containers of a pod often run as other users.
        path.chmod(0o666)
        listener.listen(_BACKLOG)
    except OSError as error:
        listener.close()
        # The error for a path that is too long has no strerror.
        raise UsageError(
            f"can't serve on `{path}` ({error.strerror or error}); choose another with --uds (KLAMM_UDS), "
            f"of {_LONGEST_PATH} bytes at most, in a folder that this user may write to"
        ) from None
    except UsageError:
        listener.close()
        raise
    return listener


def _refuse_if_served(path: Path) -> None:
    with suppress(ConnectionRefusedError), socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.connect(str(path))
        raise UsageError(f"another process serves on `{path}`; choose another with --uds (KLAMM_UDS)")


def queued_bytes(transport: asyncio.BaseTransport, queue: int) -> int:
    """How many bytes of the connection the kernel holds: received and not read yet, `termios.FIONREAD`, or sent and not
    acknowledged by the client, `termios.TIOCOUTQ`.
    """
    connection = transport.get_extra_info("socket")
    if connection is None or transport.is_closing():
        return 0
    return int.from_bytes(fcntl.ioctl(connection.fileno(), queue, bytes(4)), sys.byteorder)


def unsent_bytes(transport: asyncio.BaseTransport) -> int:
    """How many bytes the kernel holds that the client does not take; what is on its way to the client does not count.

    Where the kernel does not tell the two apart (other systems than Linux, Unix sockets), both.
    """
    connection = transport.get_extra_info("socket")
    is_tcp = connection is not None and connection.family != socket.AF_UNIX
    return queued_bytes(transport, _SIOCOUTQNSD if is_tcp and sys.platform == "linux" else termios.TIOCOUTQ)


class AcceptedProtocol(asyncio.Protocol, ABC):
    """The protocol of an accepted connection, which counts as one from before its TLS handshake."""

    @abstractmethod
    def handshake_began(self, cancel: Callable[[], object]) -> None: ...

    @abstractmethod
    def handshake_failed(self) -> None: ...


class Acceptor:
    """Accepts connections from a socket.

    It accepts several in a turn of the event loop, before the requests of existing connections: the loop's own server
    accepts one a turn, so under overload, when a turn takes 10 ms or more, new clients (Kubernetes' probes) would wait
    for seconds.

    If the socket is `shared` with other processes, the acceptor pauses for a millisecond after each connection:
    otherwise the first process to wake up accepts a whole burst, and clients keep their connections. Measured with 32
    connections and two processes: at most 18 for one of them, without the pause all 32 in every second try. It accepts
    more at a time while the queue stays full, or if the pause was longer because the process is busy.
    INVARIANT: a connection that is not accepted belongs to no process, so none is lost when one of several ends.
    """

    def __init__(
        self,
        listener: socket.socket,
        protocol: Callable[[], AcceptedProtocol],
        tls: ssl.SSLContext | None = None,
        *,
        shared: bool,
    ) -> None:
        self._listener = listener
        self._protocol = protocol
        self._tls = tls
        self._shared = shared
        self._loop = asyncio.get_running_loop()
        self._paused: asyncio.TimerHandle | None = None
        self._pause_ends_at = self._loop.time()
        self._missed_pauses = 0
        self._accepted_in_a_row = 0
        self._tasks: set[asyncio.Task[bool]] = set()

    def start(self) -> None:
        self._listener.settimeout(0)
        self._missed_pauses = int((self._loop.time() - self._pause_ends_at) / _PAUSE_S)
        self._loop.add_reader(self._listener.fileno(), self._accept)

    def stop(self) -> None:
        if self._paused is not None:
            self._paused.cancel()
            self._paused = None
        self._loop.remove_reader(self._listener.fileno())

    async def close(self, *, accept_queued: bool) -> None:
        """Close the socket, and wait a short time for handshakes under way.

        With `accept_queued`, all connections in the kernel's queue are accepted first; otherwise they are left to the
        other processes. A client that connects between the last accept and the close is reset, and has to try again:
        clients that follow /readyz have gone elsewhere by then.
        """
        self.stop()
        if accept_queued:
            with suppress(OSError):
                while len(self._tasks) < _BACKLOG:
                    self._serve(self._listener.accept()[0])
        self._listener.close()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=_HANDSHAKES_TIMEOUT_S)
        for task in self._tasks:
            task.cancel()

    def _accept(self) -> None:
        pause_s = _PAUSE_S if self._shared else 0.0
        try:
            for _ in range(self._accepts_per_turn()):
                self._serve(self._listener.accept()[0])
                self._accepted_in_a_row += 1
        except (BlockingIOError, InterruptedError, ConnectionAbortedError):
            self._accepted_in_a_row = 0
        except OSError as error:
            # Out of descriptors or memory: another process, or a later try, may have some.
            _log.error("connection_not_taken", extra={"why": error.strerror})
            pause_s = _ERROR_PAUSE_S
        if pause_s:
            self._loop.remove_reader(self._listener.fileno())
            self._pause_ends_at = self._loop.time() + pause_s
            self._paused = self._loop.call_later(pause_s, self.start)

    def _accepts_per_turn(self) -> int:
        if not self._shared:
            return _MAX_ACCEPTS
        return min(_MAX_ACCEPTS, 1 + self._missed_pauses + self._accepted_in_a_row // _STREAK)

    def _serve(self, connection: socket.socket) -> None:
        connection.settimeout(0)
        protocol = self._protocol()
        task = self._loop.create_task(self._connect(protocol, connection))
        self._tasks.add(task)
        task.add_done_callback(partial(self._finish, protocol, connection))
        if self._tls is not None:
            protocol.handshake_began(task.cancel)

    async def _connect(self, protocol: AcceptedProtocol, connection: socket.socket) -> bool:
        try:
            await self._loop.connect_accepted_socket(lambda: protocol, connection, ssl=self._tls)
        except OSError:  # the client has gone, or its handshake failed
            return False
        return True

    def _finish(self, protocol: AcceptedProtocol, connection: socket.socket, task: asyncio.Task[bool]) -> None:
        self._tasks.discard(task)
        if task.cancelled() or not task.result():
            protocol.handshake_failed()
            connection.close()
