"""All workers of a service as their supervisor knows them, and their joint answers."""

import asyncio
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass

import msgspec

from app.metrics.workers import Family, ServiceMetrics, WorkerFacts
from app.process.channel import Channel, NoAnswerError
from app.process.ended_sessions import EndedSessions
from app.process.siblings import Sibling, WorkerReadiness

ANSWER_TIMEOUT_S = 0.5
"""How long a worker may take to answer for a page or a probe."""


@dataclass(slots=True, eq=False)
class Worker:
    """One worker through all its restarts."""

    number: int
    process: subprocess.Popen[bytes] | None = None
    channel: Channel | None = None
    """None until the process has reported, and once it has ended."""
    restarts: int = 0
    needed: bool = True
    """Whether clients reach it, or will before it has loaded. False from its end until it is admitted again."""
    listening: bool = False
    """Whether it may take connections."""
    leaving: bool = False
    """Whether it takes no more connections, and is about to end."""
    ready: bool = False


class Roster:
    def __init__(self, count: int) -> None:
        self._workers = [Worker(number) for number in range(1, count + 1)]
        self._metrics = ServiceMetrics()
        self._ended_sessions = EndedSessions()

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

    async def end_session(self, asking: Worker, session_id: str) -> None:
        """Returns when all other workers know of it, or do not answer."""
        self._ended_sessions.add(session_id, time.time())
        channels = [each.channel for each in self._workers if each is not asking and each.channel is not None]
        asked = (each.ask("session_ended", session_id, timeout_s=ANSWER_TIMEOUT_S) for each in channels)
        await asyncio.gather(*asked, return_exceptions=True)

    def tell_ended_sessions(self, worker: Worker) -> None:
        if worker.channel is not None and self._ended_sessions.has_any:
            worker.channel.tell("sessions_ended", self._ended_sessions.to_list())

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
        if worker.channel is not channel:  # it has ended meanwhile, and its counts are in the sums
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
