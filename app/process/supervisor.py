"""The process above the workers: it starts them, restarts them when they end, and lets each answer for all."""

import asyncio
import logging
import random
import signal
import socket
import subprocess
import time
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from types import FrameType
from typing import Any

from app.core.backoff import Backoff
from app.formats.command_errors import CommandError
from app.process.channel import Channel
from app.process.roster import Roster, Worker

END_TIMEOUT_S = 25.0
"""How long workers may take to end after draining: 10 s for requests, 10 s for the store, 5 s for the audit log."""
FIRST_REST_S = 0.2
LONGEST_REST_S = 30.0
MAX_FAILED_STARTS = 5
"""A worker that ends this often in a row before its first load is complete will never complete one."""
_EXIT_TIMEOUT_S = 10.0
_KILLED_TIMEOUT_S = 5.0
_TICK_S = 1.0
_POLL_S = 0.02
_SIGNAL_TIMEOUT_S = 0.25

Launch = Callable[[int], tuple[subprocess.Popen[bytes], socket.socket]]
"""Starts the worker with this number: its process, and the end of the channel to it. Raises OSError."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Drain:
    """How long workers serve on after SIGTERM; `over` is called before they stop taking connections."""

    seconds: float = 0.0
    over: Callable[[], None] | None = None


class Restarts:
    """How long to wait before restarting a worker: longer after each run shorter than the longest wait."""

    def __init__(self) -> None:
        self._backoffs = defaultdict[int, Backoff](lambda: Backoff(FIRST_REST_S, LONGEST_REST_S, random.uniform))
        self._failed_starts: Counter[int] = Counter()

    def became_ready(self) -> None:
        self._failed_starts.clear()

    def rest_s(self, worker: int, lived_s: float, *, was_ready: bool) -> float:
        if not was_ready:
            self._failed_starts[worker] += 1
        if lived_s > LONGEST_REST_S:
            self._backoffs[worker].reset()
        return self._backoffs[worker].next_s()

    def in_vain(self, worker: int) -> bool:
        return self._failed_starts[worker] >= MAX_FAILED_STARTS


class Supervisor:
    """Keeps `count` workers running, and meanwhile calls `each_second` on the event loop.

    `once_serving` is run as a task when the first worker takes connections.
    """

    def __init__(
        self,
        count: int,
        launch: Launch,
        *,
        each_second: Callable[[], None] | None = None,
        once_serving: Callable[[], Awaitable[None]] | None = None,
        drain: Drain = Drain(),
    ) -> None:
        self._workers = Roster(count)
        self._launch = launch
        self._each_second = each_second
        self._once_serving = once_serving
        self._serving: asyncio.Task[None] | None = None
        self._restarts = Restarts()
        self._drain = drain
        self._stopping = asyncio.Event()
        """Set when no worker is started any more."""
        self._ended = asyncio.Event()
        """Set when no worker takes connections any more."""
        self._failure: str | None = None

    async def run(self) -> None:
        """Serves until SIGTERM or SIGINT, then ends all workers, and kills those that don't end in time.

        After SIGTERM they drain first; a second SIGTERM, or SIGINT, cuts that short. One more SIGINT is passed on to
        them, and they then wait for nothing. The handlers of the two signals stay in place.
        Raises CommandError if workers end again and again before one is ready.
        """
        loop = asyncio.get_running_loop()
        for each in (signal.SIGTERM, signal.SIGINT):
            signal.signal(each, partial(self._on_signal, loop))
        keepers = [asyncio.create_task(self._keep(worker), name="klamm-keeper") for worker in self._workers]
        try:
            await self._watch(keepers)
        finally:
            self._end()
            _, late = await asyncio.wait(keepers, timeout=END_TIMEOUT_S)
            if late:
                _log.warning("workers_killed", extra={"workers": len(late), "waited_s": END_TIMEOUT_S})
                self._workers.signal(signal.SIGKILL)
                await asyncio.wait(keepers, timeout=_KILLED_TIMEOUT_S)
        if self._failure is not None:
            raise CommandError(self._failure)

    async def _watch(self, keepers: list[asyncio.Task[None]]) -> None:
        while not self._ended.is_set() and not all(keeper.done() for keeper in keepers):
            if self._each_second is not None:
                self._each_second()
            await _within(_TICK_S, self._ended)
            for keeper in keepers:
                if keeper.done():
                    keeper.result()

    # the life of workers

    async def _keep(self, worker: Worker) -> None:
        while not self._stopping.is_set():
            began_at = time.monotonic()
            ended_by = await self._live(worker)
            if self._stopping.is_set():
                return
            rest_s = self._restarts.rest_s(worker.number, time.monotonic() - began_at, was_ready=worker.ready)
            pid = worker.process.pid if worker.process is not None else None
            extra = {"worker": worker.number, "pid": pid, "by": ended_by, "again_in_s": f"{rest_s:.1f}"}
            _log.error("worker_ended", extra=extra)
            self._retire(worker)
            worker.process = None
            worker.ready = worker.leaving = False
            worker.restarts += 1
            if self._restarts.in_vain(worker.number) and not any(each.ready for each in self._workers):
                self._failure = (
                    f"worker {worker.number} ended {MAX_FAILED_STARTS} times in a row before it could serve, the last "
                    f"time by {ended_by}; see the log"
                )
                self._end()
            await _within(rest_s, self._stopping)

    async def _live(self, worker: Worker) -> str:
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
            self._retire(worker)
            return await self._exit_of(worker.process)
        finally:
            await channel.close()

    async def _exit_of(self, process: subprocess.Popen[bytes]) -> str:
        if not await _has_ended(process, _EXIT_TIMEOUT_S):
            process.kill()
            await _has_ended(process, _KILLED_TIMEOUT_S)
        code = process.returncode
        return f"signal {signal.Signals(-code).name}" if code is not None and code < 0 else f"exit code {code}"

    def _retire(self, worker: Worker) -> None:
        self._workers.retire(worker)
        self._workers.admit()

    # the end

    def _on_signal(self, loop: asyncio.AbstractEventLoop, number: int, _: FrameType | None) -> None:
        with suppress(RuntimeError):  # the loop is closed: all is done
            loop.call_soon_threadsafe(self._stop_for, number)

    def _stop_for(self, number: int) -> None:
        if self._ended.is_set() and number == signal.SIGINT:
            self._workers.signal(signal.SIGINT)
        elif self._stopping.is_set() or number == signal.SIGINT or not self._drain.seconds:
            self._end()
        else:
            _log.info("draining", extra={"for_s": self._drain.seconds})
            self._stop("drain")
            asyncio.get_running_loop().call_later(self._drain.seconds, self._end)

    def _end(self) -> None:
        if self._ended.is_set():
            return
        self._ended.set()
        if self._drain.over is not None:
            self._drain.over()
        self._stop("end")

    def _stop(self, order: str) -> None:
        self._workers.tell(order)
        if self._stopping.is_set():
            return
        self._stopping.set()
        if self._serving is not None:
            self._serving.cancel()
        # For workers that still start. INVARIANT: all others get the order first, and so know what SIGTERM means.
        self._workers.signal(signal.SIGTERM)

    # what workers ask and tell

    async def _hear(self, worker: Worker, subject: str, detail: Any) -> object:  # noqa: ANN401 - JSON
        if subject == "metrics":
            return await self._workers.page()
        if subject == "readiness":
            return await self._workers.siblings_of(worker, detail)
        if subject == "session_ended":
            await self._workers.end_session(worker, detail)
            return None
        if subject == "leave":
            return await self._may_leave(worker)
        if subject == "up":
            # INVARIANT: before it may take connections.
            self._workers.tell_ended_sessions(worker)
        self._note(worker, subject)
        return None

    async def _may_leave(self, worker: Worker) -> bool:
        """Whether SIGTERM was sent to this worker alone. If the service gets it too, it does so within a moment."""
        await _within(_SIGNAL_TIMEOUT_S, self._stopping)
        if self._stopping.is_set():
            return False
        self._note(worker, "leaving")
        return True

    def _note(self, worker: Worker, subject: str) -> None:
        if subject == "loaded":
            worker.ready = True
            self._restarts.became_ready()
        elif subject == "listening" and self._serving is None and self._once_serving is not None:
            self._serving = asyncio.ensure_future(self._once_serving())
        elif subject == "leaving":
            worker.leaving = True
            worker.needed = worker.listening = False
        self._workers.admit()


async def _within(seconds: float, event: asyncio.Event) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()


async def _has_ended(process: subprocess.Popen[bytes], within_s: float) -> bool:
    deadline = time.monotonic() + within_s
    while process.poll() is None:
        if time.monotonic() > deadline:
            return False
        await asyncio.sleep(_POLL_S)
    return True
