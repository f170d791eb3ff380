"""The socket that clients connect to: had at the start, or refused with a reason; and shared among workers."""

import asyncio
import ctypes
import logging
import socket
import ssl
import struct
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

from app.formats.command_errors import UsageError

_BACKLOG = 2048
_LONGEST_PATH = 107 if sys.platform == "linux" else 103
"""Bytes of a Unix socket's path, as the kernel's address has room for."""
_REST_S = 0.001
_TROUBLE_REST_S = 1.0
_LAST_CALL_S = 0.5
_CLOSING_S = 0.05
"""How long whoever is connecting as the door closes may take for it."""
_SO_ATTACH_FILTER = 26
_DROP_SYN = struct.pack("HBBI" * 4, 0x30, 0, 0, 13, 0x45, 0, 1, 0x02, 0x06, 0, 0, 0, 0x06, 0, 0, 0xFFFFFFFF)
"""For the kernel's packet filter: load the flags of the TCP header; if SYN is set, drop the packet; else take it."""
_FULL_RUN = 32
_MOST_AT_ONCE = 32

_log = logging.getLogger(__name__)


@contextmanager
def listening(host: str, port: int, uds: Path | None = None) -> Iterator[socket.socket]:
    """A socket that listens on host and port, or else on the Unix socket `uds`, whose file is removed in the end.

    Raises UsageError if the address is taken or can't be bound.
    """
    with _unix_socket(uds) if uds is not None else _tcp_socket(host, port) as listener:
        try:
            yield listener
        finally:
            if uds is not None:
                uds.unlink(missing_ok=True)


def address_of(listener: socket.socket, *, tls: bool = False) -> str:
    """Where clients reach it: http://127.0.0.1:8080, https with `tls`, or unix:PATH."""
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
        # At once: until then, another process that starts at the same time could bind the port as well.
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
        # The folder says who may come in; a sidecar's neighbour usually is another user.
        path.chmod(0o666)
        listener.listen(_BACKLOG)
    except OSError as error:
        listener.close()
        # A path that is too long is told without a number.
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


def turn_away(listener: socket.socket) -> None:
    """Have nobody new connect, while whoever is connected or about to be still can be taken.

    Who comes is not answered, so the client's system knocks again a second later, when the socket is gone and it is
    refused. To close at once would reset whoever comes between the last look and the close, which is not seen from
    here. Linux only; elsewhere, and for Unix sockets, it does nothing.
    """
    if sys.platform != "linux" or listener.family == socket.AF_UNIX:
        return
    program = ctypes.create_string_buffer(_DROP_SYN)
    fprog = struct.pack("HL", len(_DROP_SYN) // 8, ctypes.addressof(program))
    # Some sandboxes have no packet filter: then the door closes as it would without.
    with suppress(OSError):
        listener.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, fprog)


class Guest(asyncio.Protocol, ABC):
    """A connection as whoever answers on it knows it; it counts as one from the moment it is taken."""

    @abstractmethod
    def expect(self, give_up: Callable[[], object]) -> None:
        """Count, and have a deadline: the client is connected, but TLS does not stand yet. To give it up ends it."""

    @abstractmethod
    def stay_away(self) -> None:
        """Count no more, unless TLS has come to stand."""


class Door:
    """Takes connections from a socket.

    Some at a time, before the requests of those that are there: the event loop's own server takes one a turn, and in
    overload, where a turn takes 10 ms and more, whoever connects anew (Kubernetes' probes do) would wait for seconds.

    From a socket that is `shared` other processes take connections, too, and are left their share: who is awake when a
    burst comes would take all of it, and clients keep their connections. So a rest of a millisecond follows each one.
    Measured with 32 connections and two processes: at worst 18 on one of them, without the rest 32 in every second
    try. Where a queue stays full, or the rest has lasted longer as there is so much to do, more are taken at a time.
    INVARIANT: nobody owns a connection that is not accepted yet, so none is lost when a process ends.
    """

    def __init__(
        self,
        listener: socket.socket,
        protocol: Callable[[], Guest],
        tls: ssl.SSLContext | None = None,
        *,
        shared: bool,
    ) -> None:
        self._listener = listener
        self._protocol = protocol
        self._tls = tls
        self._shared = shared
        self._loop = asyncio.get_running_loop()
        self._resting: asyncio.TimerHandle | None = None
        self._rest_over_at = self._loop.time()
        self._overslept = 0
        self._taken_in_a_row = 0
        self._tasks: set[asyncio.Task[bool]] = set()

    def open(self) -> None:
        """Begin to take connections."""
        self._listener.settimeout(0)
        self._overslept = int((self._loop.time() - self._rest_over_at) / _REST_S)
        self._loop.add_reader(self._listener.fileno(), self._take)

    def close(self) -> None:
        """Take no more; those that wait are for the other processes."""
        if self._resting is not None:
            self._resting.cancel()
            self._resting = None
        self._loop.remove_reader(self._listener.fileno())

    async def leave(self) -> None:
        """Take no more, and let go of the socket; other processes have it, too, and take whoever comes."""
        self.close()
        self._listener.close()
        await self._let_in()

    async def last_call(self) -> None:
        """Take no more, but those that wait already, and let go of the socket.

        Whoever is connected before it is gone, and not taken, is cut off, with what it has sent.
        """
        self.close()
        if not self._shared:
            turn_away(self._listener)
        self._take_all()
        await asyncio.sleep(_CLOSING_S)
        self._take_all()
        self._listener.close()
        await self._let_in()

    async def _let_in(self) -> None:
        """Wait for those who are at the door; not for long."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=_LAST_CALL_S)
        for task in self._tasks:
            task.cancel()

    def _take_all(self) -> None:
        with suppress(OSError):
            while len(self._tasks) < _BACKLOG:
                self._hand_over(self._listener.accept()[0])

    def _take(self) -> None:
        rest_s = _REST_S if self._shared else 0.0
        try:
            for _ in range(self._share()):
                self._hand_over(self._listener.accept()[0])
                self._taken_in_a_row += 1
        except (BlockingIOError, InterruptedError, ConnectionAbortedError):
            self._taken_in_a_row = 0
        except OSError as error:
            # Out of descriptors or memory: others may have some, or there will be some in a while.
            _log.error("connection_not_taken", extra={"why": error.strerror})
            rest_s = _TROUBLE_REST_S
        if rest_s:
            self._loop.remove_reader(self._listener.fileno())
            self._rest_over_at = self._loop.time() + rest_s
            self._resting = self._loop.call_later(rest_s, self.open)

    def _share(self) -> int:
        if not self._shared:
            return _MOST_AT_ONCE
        return min(_MOST_AT_ONCE, 1 + self._overslept + self._taken_in_a_row // _FULL_RUN)

    def _hand_over(self, connection: socket.socket) -> None:
        connection.settimeout(0)
        guest = self._protocol()
        task = self._loop.create_task(self._serve(guest, connection))
        self._tasks.add(task)
        task.add_done_callback(partial(self._note, guest, connection))
        if self._tls is not None:
            guest.expect(task.cancel)

    async def _serve(self, guest: Guest, connection: socket.socket) -> bool:
        try:
            await self._loop.connect_accepted_socket(lambda: guest, connection, ssl=self._tls)
        except OSError:  # the client is gone already, or it and TLS do not get on with each other
            return False
        return True

    def _note(self, guest: Guest, connection: socket.socket, task: asyncio.Task[bool]) -> None:
        self._tasks.discard(task)
        if task.cancelled() or not task.result():
            guest.stay_away()
            connection.close()
