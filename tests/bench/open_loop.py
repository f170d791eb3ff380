"""Open-loop load: requests at fixed times, whatever the server does, and for each how long it was answered after that.

A separate process on the second core sends them. What was no fault of the server is written down with each request: how
late it was sent, and how long server and sender stood ready without a core meanwhile.
"""

import multiprocessing
import select
import socket
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack, contextmanager
from itertools import cycle
from typing import NamedTuple

from tests.bench.load import ask, connect, take_answer
from tests.bench.processes import RunQueue, Served, go_before_all
from tests.bench.report import percentile

_CONNECTIONS = 64
_DRAIN_S = 30.0


class Sample(NamedTuple):
    """One request; all in seconds, the times on the clock of `time.monotonic`."""

    due: float
    sent: float
    answered: float
    without_core: float
    """How long the server's loop, or the sender, waited for a core between `sent` and `answered`."""
    epoch: str
    """Of the answer's token."""

    @property
    def latency(self) -> float:
        """From when it was due: a sender that is held up hides nothing."""
        return self.answered - self.due

    @property
    def served(self) -> float:
        """What the server itself is answerable for: from when it was sent, waits for a core taken off."""
        return max(0.0, self.answered - self.sent - self.without_core)


class Plan(NamedTuple):
    """What to send, how often, and for how long."""

    messages: Sequence[bytes]
    per_second: float
    seconds: float
    settle_s: float | None = None
    """If given: end already when the answers have been of another epoch than the first one's for so long."""


class Summary(NamedTuple):
    """Milliseconds."""

    p50: float
    p99: float
    most: float
    served_p99: float
    served_most: float
    late_p99: float
    """How late the sender itself was."""

    @staticmethod
    def of(samples: Sequence[Sample]) -> "Summary":
        latency = [each.latency * 1_000 for each in samples]
        served = [each.served * 1_000 for each in samples]
        middle, high = percentile(latency, 0.5), percentile(latency, 0.99)
        late = [(each.sent - each.due) * 1_000 for each in samples]
        return Summary(middle, high, max(latency), percentile(served, 0.99), max(served), percentile(late, 0.99))


@contextmanager
def sender() -> Iterator[ProcessPoolExecutor]:
    """A process in which `open_loop` can be run beside this one."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn"), initializer=go_before_all) as pool:
        yield pool


def open_loop(server: Served, plan: Plan) -> list[Sample]:
    """Sends by the plan and returns once all is answered. Raises TimeoutError if answers stay away."""
    with ExitStack() as stack:
        idle = [stack.enter_context(connect(server.port)) for _ in range(_CONNECTIONS)]
        for connection in idle:
            # It isn't accepted yet: that would be counted to the first requests.
            ask(connection, plan.messages[0])
        queues = [stack.enter_context(RunQueue(pid)) for pid in (server.pid, None)]
        return list(_samples(plan, idle, queues))


def _samples(plan: Plan, idle: list[socket.socket], queues: Sequence[RunQueue]) -> Iterator[Sample]:
    messages = cycle(plan.messages)
    under_way: dict[socket.socket, tuple[float, float, float]] = {}
    began = due = time.monotonic()
    end, first_epoch = began + plan.seconds, None
    while due < end or under_way:
        now = time.monotonic()
        while due <= now and due < end and idle:
            connection = idle.pop()
            under_way[connection] = due, time.monotonic(), _waited(queues)
            connection.sendall(next(messages))
            due += 1 / plan.per_second
        if now > end + _DRAIN_S:
            raise TimeoutError(f"{len(under_way)} requests are not answered within {_DRAIN_S:g} s")
        ready, _, _ = select.select(list(under_way), [], [], max(0.0, due - now) if idle and due < end else _DRAIN_S)
        for connection in ready:
            sample = _taken(connection, under_way.pop(connection), queues)
            idle.append(connection)
            yield sample
            first_epoch = first_epoch or sample.epoch
            if plan.settle_s is not None and sample.epoch != first_epoch:
                end, first_epoch = min(end, sample.answered + plan.settle_s), sample.epoch


def _taken(connection: socket.socket, request: tuple[float, float, float], queues: Sequence[RunQueue]) -> Sample:
    body = take_answer(connection)
    answered = time.monotonic()
    due, sent, waited = request
    epoch = body.partition(b'"token":"')[2].partition(b":")[0].decode()
    return Sample(due, sent, answered, _waited(queues) - waited, epoch)


def _waited(queues: Sequence[RunQueue]) -> float:
    return sum(queue.waited_s() for queue in queues)
