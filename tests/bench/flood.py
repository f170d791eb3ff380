"""Open-loop load beyond what a server can do: requests at fixed times, and what became of each of them.

In a process of its own (`flooding`): what is sent does not depend on what is answered. There are so many connections
that one is idle whenever a request is due, unless the server neither answers nor refuses in time.
"""

import multiprocessing
import resource
import select
import socket
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import ExitStack, contextmanager
from itertools import cycle
from typing import NamedTuple

from tests.bench.load import ask, connect
from tests.bench.processes import RunQueue, go_first
from tests.bench.report import percentile

_REFUSED = 429
_DRAIN_S = 30.0


class Flood(NamedTuple):
    """What to send to which port of which process, how often, and for how long."""

    port: int
    pid: int
    messages: Sequence[bytes]
    per_second: float
    seconds: float
    connections: int = 512


class Outcome(NamedTuple):
    """One request; times in seconds."""

    status: int
    has_retry_after: bool
    latency: float
    """From when it was due."""
    served: float
    """From when it was sent, the server's waits for a core taken off."""
    answered: float
    """Since the flood began."""


class Result(NamedTuple):
    """What became of all requests."""

    outcomes: list[Outcome]
    seconds: float
    unanswered: int
    """Requests whose connection ended instead."""
    refused_before: int = 0
    """Of those that opened the connections."""

    def of(self, status: int) -> list[Outcome]:
        """Those that were answered so."""
        return [each for each in self.outcomes if each.status == status]

    @property
    def goodput(self) -> float:
        """Requests a second that were answered with 200 while the flood lasted."""
        return sum(each.answered <= self.seconds for each in self.of(200)) / self.seconds

    def refusal_ms(self, share: float) -> float:
        """Milliseconds from due to refusal, for so large a share."""
        return percentile([each.latency * 1_000 for each in self.of(_REFUSED)] or [0.0], share)

    def refusal_served_ms(self, share: float) -> float:
        """Milliseconds that the server is answerable for, of the same."""
        return percentile([each.served * 1_000 for each in self.of(_REFUSED)] or [0.0], share)


@contextmanager
def flooding(flood: Flood) -> Iterator[Future[Result]]:
    """The flood goes on in another process; its result is there when it has ended."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn"), initializer=go_first) as pool:
        yield pool.submit(run, flood)


def run(flood: Flood) -> Result:
    """Send by the plan. Raises TimeoutError if answers stay away."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 65_536) if hard > 0 else 65_536, hard))
    with ExitStack() as stack, select.epoll() as ready, RunQueue(flood.pid) as queue:
        connections = [stack.enter_context(connect(flood.port)) for _ in range(flood.connections)]
        refused = 0
        for each in connections:
            # Waits at the door would be counted to the first requests, and a connection that has asked nothing yet is
            # soon closed.
            refused += b"OVERLOADED" in ask(each, flood.messages[0])[1]
            ready.register(each.fileno(), select.EPOLLIN)
        return _Sender(flood, connections, ready, queue).run()._replace(refused_before=refused)


class _Sender:
    def __init__(self, flood: Flood, connections: list[socket.socket], ready: select.epoll, queue: RunQueue) -> None:
        self._flood = flood
        self._idle = connections
        self._by_file = {each.fileno(): each for each in connections}
        self._ready = ready
        self._queue = queue
        self._under_way: dict[int, tuple[float, float, float]] = {}
        self._got: dict[int, bytes] = {}
        self._outcomes: list[Outcome] = []
        self._unanswered = 0
        self._began = time.monotonic()

    def run(self) -> Result:
        flood, messages = self._flood, cycle(self._flood.messages)
        due, end = self._began, self._began + flood.seconds
        while due < end or self._under_way:
            now = time.monotonic()
            while due <= now and due < end and self._idle:
                connection = self._idle.pop(0)
                self._under_way[connection.fileno()] = due, time.monotonic(), self._queue.waited_s()
                connection.sendall(next(messages))
                due += 1 / flood.per_second
            if now > end + _DRAIN_S:
                raise TimeoutError(f"{len(self._under_way)} requests are not answered within {_DRAIN_S:g} s")
            pause = max(0.0, due - time.monotonic()) if due < end and self._idle else 1.0
            for file, _ in self._ready.poll(pause):
                self._take(file)
        return Result(self._outcomes, flood.seconds, self._unanswered)

    def _take(self, file: int) -> None:
        connection = self._by_file[file]
        some = connection.recv(262_144)
        got = self._got.pop(file, b"") + some
        head, end, body = got.partition(b"\r\n\r\n")
        lower = head.lower()
        length = int(lower.partition(b"content-length: ")[2].partition(b"\r\n")[0] or 0)
        if some and (not end or len(body) < length):
            self._got[file] = got
            return
        now = time.monotonic()
        if not some:
            self._unanswered += file in self._under_way
            self._under_way.pop(file, None)
            self._replace(connection)
            return
        due, sent, waited = self._under_way.pop(file, (now, now, 0.0))
        served = max(0.0, now - sent - (self._queue.waited_s() - waited))
        retry = b"\r\nretry-after: 1" in lower
        self._outcomes.append(Outcome(int(head[9:12]), retry, now - due, served, now - self._began))
        if b"\r\nconnection: close" in lower:
            self._replace(connection)
        else:
            self._idle.append(connection)

    def _replace(self, connection: socket.socket) -> None:
        """Have a new connection for one that the server ends."""
        self._ready.unregister(connection)
        del self._by_file[connection.fileno()]
        if connection in self._idle:
            self._idle.remove(connection)
        connection.close()
        new = connect(self._flood.port)
        self._by_file[new.fileno()] = new
        self._ready.register(new, select.EPOLLIN)
        self._idle.append(new)
