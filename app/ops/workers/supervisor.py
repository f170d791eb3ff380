"""The process above the workers: it starts them, again if they end, and lets each of them speak for all."""

import asyncio
import logging
import signal
import socket
import subprocess
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from types import FrameType
from typing import Any

import msgspec

from app.ops.workers.channel import Channel, NoAnswerError
from app.ops.workers.restarts import IN_VAIN, Restarts
from app.ops.workers.service_metrics import Family, ServiceMetrics, WorkerFacts
from app.ops.workers.siblings import Sibling, WorkerReadiness
from app.ops.workers.turns import Turns

ANSWER_TIMEOUT_S = 0.5
"""What a worker may take to answer for a page or a probe."""
LOAD_TIMEOUT_S = 60.0
"""How long a load holds up the next one."""
DRAIN_TIMEOUT_S = 25.0
"""What workers get to end by themselves: 10 s for requests, 10 s for the store, 5 s for the audit log."""
_EXIT_TIMEOUT_S = 10.0
_KILLED_TIMEOUT_S = 5.0
_TICK_S = 1.0
_POLL_S = 0.02

Launch = Callable[[int], tuple[subprocess.Popen[bytes], socket.socket]]
"""Starts the worker with this number: its process, and the end of the channel to it. Raises OSError."""

_log = logging.getLogger(__name__)


class WorkersError(Exception):
    """There is no use in starting workers any more; the text is for the operator."""


@dataclass(slots=True, eq=False)
class _Worker:
    number: int
    process: subprocess.Popen[bytes] | None = None
    channel: Channel | None = None
    """None unless the worker is there and has reported."""
    restarts: int = 0
    needed: bool = True
    """Whether clients come to it, or will before it has loaded; not so from its end until it is let in again."""
    listening: bool = False
    """Whether it may take connections, and has not said that it takes no more."""
    leaving: bool = False
    """Whether it has said so: it is about to end."""
    ready: bool = False
    """Whether it has completed a load."""


class Supervisor:
    """Keeps `count` workers running. `each_second` is called on the event loop while they do.

    `once_serving` is run as a task when the first worker takes connections.
    """

    def __init__(
        self,
        count: int,
        launch: Launch,
        *,
        each_second: Callable[[], None] | None = None,
        once_serving: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        self._workers = [_Worker(number) for number in range(1, count + 1)]
        self._launch = launch
        self._each_second = each_second
        self._once_serving = once_serving
        self._serving: asyncio.Task[None] | None = None
        self._turns = Turns(LOAD_TIMEOUT_S)
        self._restarts = Restarts()
        self._metrics = ServiceMetrics()
        self._stopping = asyncio.Event()
        self._failure: str | None = None

    async def run(self) -> None:
        """Serves until SIGTERM or SIGINT, then has all workers drain; kills those that don't end in time.

        A second SIGINT is passed on: they don't wait then. Its handlers of the two signals stay when it is done.
        Raises WorkersError if workers end again and again before one is ready.
        """
        loop = asyncio.get_running_loop()
        for each in (signal.SIGTERM, signal.SIGINT):
            signal.signal(each, partial(self._on_signal, loop))
        keepers = [asyncio.create_task(self._keep(worker), name="klamm-keeper") for worker in self._workers]
        try:
            while not self._stopping.is_set():
                if self._each_second is not None:
                    self._each_second()
                await self._stopped_within(_TICK_S)
                for keeper in keepers:
                    if keeper.done():
                        keeper.result()
        finally:
            self._stopping.set()
            await self._drain(keepers)
        if self._failure is not None:
            raise WorkersError(self._failure)

    def _on_signal(self, loop: asyncio.AbstractEventLoop, number: int, _: FrameType | None) -> None:
        with suppress(RuntimeError):  # the loop is closed: all is done
            loop.call_soon_threadsafe(self._stop_for, number)

    def _stop_for(self, number: int) -> None:
        if self._stopping.is_set() and number == signal.SIGINT:
            self._signal_all(signal.SIGINT)
        self._stopping.set()

    # the life of workers

    async def _keep(self, worker: _Worker) -> None:
        while not self._stopping.is_set():
            began_at = time.monotonic()
            ended_by = await self._live(worker)
            if self._stopping.is_set():
                return
            rest_s = self._restarts.rest_s(worker.number, time.monotonic() - began_at, was_ready=worker.ready)
            self._log_end(worker, ended_by, rest_s)
            self._reset(worker)
            if self._restarts.in_vain(worker.number) and not any(each.ready for each in self._workers):
                self._failure = (
                    f"worker {worker.number} ended {IN_VAIN} times in a row before it could serve, "
                    f"the last time by {ended_by}; the log says more"
                )
                self._stopping.set()
            await self._stopped_within(rest_s)

    async def _live(self, worker: _Worker) -> str:
        """One life of a worker, from its start to its end. Returns what it ended by."""
        try:
            worker.process, end = self._launch(worker.number)
        except OSError as error:
            return f"a start that failed ({error.strerror})"
        _log.info("worker_started", extra={"worker": worker.number, "pid": worker.process.pid})
        channel = Channel(end, partial(self._hear, worker))
        try:
            await channel.open()
            worker.channel = channel
            await channel.closed.wait()
            self._turn_away(worker)
            return await self._exit_of(worker.process)
        finally:
            await channel.close()

    async def _exit_of(self, process: subprocess.Popen[bytes]) -> str:
        """The end of a process that has hung up, so is ending or has ended."""
        if not await _ended(process, _EXIT_TIMEOUT_S):
            process.kill()
            await _ended(process, _KILLED_TIMEOUT_S)
        code = process.returncode
        return f"signal {signal.Signals(-code).name}" if code is not None and code < 0 else f"exit code {code}"

    def _turn_away(self, worker: _Worker) -> None:
        """Know from this moment on that no client comes to it any more: the others do without it."""
        worker.channel = None
        worker.needed = worker.listening = False
        self._turns.end(worker.number)
        self._metrics.retire(worker.number)
        self._admit()

    def _reset(self, worker: _Worker) -> None:
        self._turn_away(worker)
        worker.process = None
        worker.ready = worker.leaving = False
        worker.restarts += 1

    def _log_end(self, worker: _Worker, ended_by: str, rest_s: float) -> None:
        pid = worker.process.pid if worker.process is not None else None
        again = f"{rest_s:.1f}"
        _log.error("worker_ended", extra={"worker": worker.number, "pid": pid, "by": ended_by, "again_in_s": again})

    # the end

    async def _drain(self, keepers: list[asyncio.Task[None]]) -> None:
        if self._serving is not None:
            self._serving.cancel()
        self._signal_all(signal.SIGTERM)
        _, late = await asyncio.wait(keepers, timeout=DRAIN_TIMEOUT_S)
        if late:
            _log.warning("workers_killed", extra={"workers": len(late), "waited_s": DRAIN_TIMEOUT_S})
            self._signal_all(signal.SIGKILL)
            await asyncio.wait(keepers, timeout=_KILLED_TIMEOUT_S)

    def _signal_all(self, number: int) -> None:
        for worker in self._workers:
            if worker.process is not None:
                worker.process.send_signal(number)  # which does nothing to one that has ended

    async def _stopped_within(self, seconds: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._stopping.wait()

    # what workers ask and tell

    async def _hear(self, worker: _Worker, subject: str, detail: Any) -> object:  # noqa: ANN401 - JSON
        if subject == "turn":
            await self._turns.take(worker.number)
        elif subject == "metrics":
            return await self._page()
        elif subject == "readiness":
            return await self._siblings_of(worker, detail)
        else:
            self._told(worker, subject, detail)
        return None

    def _told(self, worker: _Worker, subject: str, detail: Any) -> None:  # noqa: ANN401 - JSON
        if subject == "turn_over":
            self._turns.end(worker.number)
            if detail:
                worker.ready = True
                self._restarts.became_ready()
        elif subject == "listening" and self._serving is None and self._once_serving is not None:
            self._serving = asyncio.ensure_future(self._once_serving())
        elif subject == "leaving":
            worker.leaving = True
            worker.needed = worker.listening = False
        self._admit()

    def _admit(self) -> None:
        """Let those take connections that have loaded, or that nobody else would take them for."""
        for worker in self._workers:
            others = any(each.listening for each in self._workers if each is not worker)
            if worker.channel is None or worker.listening or worker.leaving:
                continue
            if worker.restarts == 0 or worker.ready or not others:
                worker.needed = worker.listening = True
                worker.channel.tell("listen")

    async def _page(self) -> str:
        up = await asyncio.gather(*map(self._note_metrics, self._workers))
        facts = [
            WorkerFacts(worker.number, answered, worker.restarts)
            for worker, answered in zip(self._workers, up, strict=True)
        ]
        return self._metrics.render(facts).decode()

    async def _note_metrics(self, worker: _Worker) -> bool:
        channel = worker.channel
        if channel is None:
            return False
        try:
            found = await channel.ask("families", timeout_s=ANSWER_TIMEOUT_S)
        except NoAnswerError:
            return False
        if worker.channel is not channel:  # it has ended meanwhile, and its last word is in the sums
            return False
        self._metrics.note(worker.number, msgspec.convert(found, list[Family]))
        return True

    async def _siblings_of(self, asking: _Worker, listener: str | None) -> object:
        others = [worker for worker in self._workers if worker is not asking]
        readiness = await asyncio.gather(*(self._readiness_of(worker, listener) for worker in others))
        found = [Sibling(worker.number, worker.needed, each) for worker, each in zip(others, readiness, strict=True)]
        return msgspec.to_builtins(found)

    async def _readiness_of(self, worker: _Worker, listener: str | None) -> WorkerReadiness | None:
        if worker.channel is None or not worker.needed:
            return None
        try:
            found = await worker.channel.ask("readiness", listener, timeout_s=ANSWER_TIMEOUT_S)
        except NoAnswerError:
            return None
        return msgspec.convert(found, WorkerReadiness)


async def _ended(process: subprocess.Popen[bytes], within_s: float) -> bool:
    deadline = time.monotonic() + within_s
    while process.poll() is None:
        if time.monotonic() > deadline:
            return False
        await asyncio.sleep(_POLL_S)
    return True
