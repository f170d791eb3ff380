"""All workers of a service as their supervisor knows them, what they say together, and whose turn it is to load."""

import asyncio
import logging
import subprocess
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

import msgspec

from app.metrics.workers import Family, ServiceMetrics, WorkerFacts
from app.process.channel import Channel, NoAnswerError
from app.process.siblings import Sibling, WorkerReadiness

ANSWER_TIMEOUT_S = 0.5
"""How long a worker may take to answer for a page or a probe."""

_log = logging.getLogger(__name__)


@dataclass(slots=True, eq=False)
class Worker:
    """One worker through all of its lives."""

    number: int
    process: subprocess.Popen[bytes] | None = None
    channel: Channel | None = None
    """None until the process has reported, and once it has ended."""
    restarts: int = 0
    needed: bool = True
    """Whether clients come to it, or will before it has loaded. False from its end until it is admitted again."""
    listening: bool = False
    """Whether it may take connections."""
    leaving: bool = False
    """Whether it takes no more, and is about to end."""
    ready: bool = False


class Roster:
    def __init__(self, count: int) -> None:
        self._workers = [Worker(number) for number in range(1, count + 1)]
        self._metrics = ServiceMetrics()

    def __iter__(self) -> Iterator[Worker]:
        return iter(self._workers)

    def signal(self, number: int) -> None:
        for worker in self._workers:
            if worker.process is not None:
                worker.process.send_signal(number)  # which does nothing to one that has ended

    def tell(self, subject: str) -> None:
        for worker in self._workers:
            if worker.channel is not None:
                worker.channel.tell(subject)

    def retire(self, worker: Worker) -> None:
        worker.channel = None
        worker.needed = worker.listening = False
        self._metrics.retire(worker.number)

    def admit(self) -> None:
        for worker in self._workers:
            others = any(each.listening for each in self._workers if each is not worker)
            if worker.channel is None or worker.listening or worker.leaving:
                continue
            if worker.restarts == 0 or worker.ready or not others:
                worker.needed = worker.listening = True
                worker.channel.tell("listen")

    async def page(self) -> str:
        up = await asyncio.gather(*map(self._note_metrics, self._workers))
        facts = [
            WorkerFacts(worker.number, answered, worker.restarts)
            for worker, answered in zip(self._workers, up, strict=True)
        ]
        return self._metrics.render(facts).decode()

    async def _note_metrics(self, worker: Worker) -> bool:
        channel = worker.channel
        if channel is None:
            return False
        try:
            found = await channel.ask("families", timeout_s=ANSWER_TIMEOUT_S)
        except NoAnswerError:
            return False
        if worker.channel is not channel:  # it has ended meanwhile, and what it counted is in the sums
            return False
        self._metrics.note(worker.number, msgspec.convert(found, list[Family]))
        return True

    async def siblings_of(self, asking: Worker, listener: str | None) -> object:
        others = [worker for worker in self._workers if worker is not asking]
        readiness = await asyncio.gather(*(self._readiness_of(worker, listener) for worker in others))
        found = [Sibling(worker.number, worker.needed, each) for worker, each in zip(others, readiness, strict=True)]
        return msgspec.to_builtins(found)

    async def _readiness_of(self, worker: Worker, listener: str | None) -> WorkerReadiness | None:
        if worker.channel is None or not worker.needed:
            return None
        try:
            found = await worker.channel.ask("readiness", listener, timeout_s=ANSWER_TIMEOUT_S)
        except NoAnswerError:
            return None
        return msgspec.convert(found, WorkerReadiness)


class LoadTurns:
    """Lets one worker load at a time, in the order of asking. One that takes longer than `longest_s` holds up nobody.

    A worker has a turn, waits for one, or neither; `end` gives up either.
    """

    def __init__(self, longest_s: float) -> None:
        self._longest_s = longest_s
        self._holder: int | None = None
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()
        self._limit: asyncio.TimerHandle | None = None

    async def take(self, worker: int) -> None:
        if self._holder is None:
            self._begin(worker)
            return
        granted: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((worker, granted))
        await granted

    def end(self, worker: int) -> None:
        for entry in [entry for entry in self._waiting if entry[0] == worker]:
            self._waiting.remove(entry)
            entry[1].cancel()
        if self._holder == worker:
            self._next()

    def _begin(self, worker: int) -> None:
        self._holder = worker
        self._limit = asyncio.get_running_loop().call_later(self._longest_s, self._overdue, worker)

    def _overdue(self, worker: int) -> None:
        _log.warning("load_takes_long", extra={"worker": worker, "longer_than_s": self._longest_s})
        self._next()

    def _next(self) -> None:
        if self._limit is not None:
            self._limit.cancel()
        self._holder = self._limit = None
        while self._waiting:
            worker, granted = self._waiting.popleft()
            if not granted.done():
                self._begin(worker)
                granted.set_result(None)
                return
