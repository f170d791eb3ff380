"""Many clients in a closed loop, each on a kept connection, in a process of their own: what they were answered.

Unlike those of `load.closed_loop`, they take any status, and they speak TLS.
"""

import multiprocessing
import select
import socket
import ssl
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import cycle
from multiprocessing.connection import Connection
from time import monotonic
from typing import NamedTuple

from tests.bench.load import connect, is_whole

_START_S = 120.0
_TICK_S = 0.05
_MAX_ANSWER = 65_536


class Clients(NamedTuple):
    """How many ask which port for what, in turn."""

    port: int
    messages: Sequence[bytes]
    connections: int
    authority: str | None = None
    """The file of the authority that signed the server's certificate; None: no TLS."""
    reconnects: bool = False
    """Whether each request is sent on a connection of its own."""


class Answered(NamedTuple):
    """How often each status came, and the longest wait for one, in seconds; 0 is the end of the connection."""

    statuses: Counter[int]
    longest_s: float


@contextmanager
def asking(clients: Clients) -> Iterator[list[Answered]]:
    """They ask for as long as the block lasts; afterwards the list holds what they were answered."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_run, args=(clients, theirs), daemon=True)
    process.start()
    answered: list[Answered] = []
    try:
        if not ours.poll(_START_S) or ours.recv() != "asking":
            raise RuntimeError("the clients could not connect")
        yield answered
        ours.send("stop")
        if not ours.poll(_START_S):
            raise RuntimeError("the clients did not stop")
        answered.append(ours.recv())
    finally:
        process.kill()
        process.join()


def _run(clients: Clients, pipe: Connection) -> None:
    loop = _Loop(clients)
    pipe.send("asking")
    while not pipe.poll():
        loop.turn()
    pipe.send(Answered(loop.statuses, loop.longest_s))


class _Loop:
    def __init__(self, clients: Clients) -> None:
        self.statuses = Counter[int]()
        self.longest_s = 0.0
        self._clients = clients
        self._next_message = cycle(clients.messages).__next__
        self._tls = None if clients.authority is None else ssl.create_default_context(cafile=clients.authority)
        self._ready = select.epoll()
        self._connections: dict[int, socket.socket] = {}
        self._asked_at: dict[int, float] = {}
        self._parts: dict[int, bytes] = {}
        """Answers that have not come to their end."""
        for _ in range(clients.connections):
            self._open()
            # Connections that ask nothing for two seconds are closed, and to connect a thousand with TLS takes longer.
            self.turn(0.0)

    def _open(self) -> None:
        connection = connect(self._clients.port, self._tls)
        self._connections[connection.fileno()] = connection
        self._ready.register(connection.fileno(), select.EPOLLIN)
        # Connections that have asked nothing are soon closed.
        self._ask(connection)
        connection.settimeout(0)

    def _ask(self, connection: socket.socket) -> None:
        self._asked_at[connection.fileno()] = monotonic()
        connection.sendall(self._next_message())

    def turn(self, wait_s: float = _TICK_S) -> None:
        """Takes the answers that have come, and asks again."""
        for file, _ in self._ready.poll(wait_s):
            connection = self._connections[file]
            try:
                some = connection.recv(_MAX_ANSWER)
            except (ssl.SSLWantReadError, BlockingIOError):
                # A session ticket.
                continue
            except OSError:
                some = b""
            answer = self._parts.pop(file, b"") + some
            if some and not is_whole(answer):
                self._parts[file] = answer
                continue
            self.statuses[int(answer[9:12]) if some else 0] += 1
            self.longest_s = max(self.longest_s, monotonic() - self._asked_at[file])
            if some and not self._clients.reconnects:
                self._ask(connection)
            else:
                del self._connections[file]
                connection.close()
                self._open()
