"""A worker's end of the channel to its supervisor: the state of the other workers, and when it may load and serve."""

import asyncio
import logging
import socket
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

import msgspec

from app.metrics.workers import Family
from app.process.channel import BusyError, Channel, NoAnswerError
from app.process.ended_sessions import EndedSessions
from app.process.processes import LOADS, release_lock, takes_lock

# The supervisor waits half a second for each worker; a Kubernetes probe waits one second in all.
_ANSWER_TIMEOUT_S = 0.8
_TURN_POLL_S = 0.02

_log = logging.getLogger(__name__)


class WorkerReadiness(msgspec.Struct):
    """The readiness of a worker, or of the listener that was asked for."""

    ready: bool
    started: bool
    state: str


class Sibling(msgspec.Struct):
    """Another worker; its `readiness` is None if it does not answer.

    `needed` is false for one that is being started again: it takes no connections before it has loaded.
    """

    number: int
    needed: bool
    readiness: WorkerReadiness | None


@dataclass(frozen=True, slots=True)
class WorkerProbe:
    families: Callable[[], list[Family]]
    readiness: Callable[[str | None], WorkerReadiness]


class Siblings:
    """The other workers. `orphaned` is called on the event loop if the supervisor is gone."""

    def __init__(self, end: socket.socket, locks: int, orphaned: Callable[[], None]) -> None:
        self._channel = Channel(end, self._hear)
        self._locks = locks
        self._orphaned = orphaned
        self._probe: WorkerProbe | None = None
        self._admitted = asyncio.Event()
        self._drain: Callable[[], None] = lambda: None
        self._end: Callable[[], None] = lambda: None
        self.alone = False
        """Whether this worker ends while the others go on."""
        self._asking: asyncio.Task[None] | None = None
        self._watching: asyncio.Task[None] | None = None
        self._asked: dict[tuple[str, str | None], asyncio.Future[Any]] = {}
        self.ended_sessions = EndedSessions(self._share_end)

    async def open(self, probe: WorkerProbe) -> None:
        self._probe = probe
        await self._channel.open()
        self._watching = asyncio.create_task(self._watch(), name="klamm-supervisor")
        self._channel.tell("up")

    async def close(self) -> None:
        if self._watching is not None:
            self._watching.cancel()
        await self._channel.close()

    def on_orders(self, drain: Callable[[], None], end: Callable[[], None]) -> None:
        """What the supervisor's orders do."""
        self._drain, self._end = drain, end

    def on_sigterm(self) -> None:
        """Asks the supervisor what SIGTERM means: that the whole service drains, or that only this worker leaves.

        Called on the event loop, if SIGTERM comes before either was ordered.
        It may have been sent to all processes of the service at once, for example to a process group.
        """
        if self._asking is None:
            self._asking = asyncio.create_task(self._leave(), name="klamm-leaving")

    async def _leave(self) -> None:
        try:
            self.alone = bool(await self._channel.ask("leave", timeout_s=_ANSWER_TIMEOUT_S))
            ends = self.alone
        except NoAnswerError:
            ends = True
        if ends:
            self._end()

    @asynccontextmanager
    async def admission(self) -> AsyncIterator[None]:
        """Entered once this worker may take connections from the shared socket; left when it takes no more."""
        await self._admitted.wait()
        self._channel.tell("listening")
        try:
            yield
        finally:
            self._channel.tell("leaving")

    @asynccontextmanager
    async def load_turn(self, patience_s: float) -> AsyncIterator[None]:
        """Entered when no other worker is loading an image, or one has been for too long."""
        deadline = time.monotonic() + patience_s
        while not (has_turn := takes_lock(self._locks, LOADS)) and time.monotonic() < deadline:  # noqa: ASYNC110 - a file
            await asyncio.sleep(_TURN_POLL_S)
        if not has_turn:
            _log.warning("load_out_of_turn", extra={"waited_s": patience_s})
        try:
            yield
        finally:
            if has_turn:
                release_lock(self._locks, LOADS)
        self._channel.tell("loaded")

    async def readiness(self, listener: str | None) -> list[Sibling] | None:
        try:
            found = await self._ask_once("readiness", listener)
        except BusyError:
            # Too many open questions are no reason to call the others ready.
            return [Sibling(0, needed=True, readiness=None)]
        except NoAnswerError:
            return None
        return msgspec.convert(found, list[Sibling])

    async def metrics(self) -> bytes | None:
        try:
            page: str = await self._ask_once("metrics", None)
        except NoAnswerError:
            return None
        return page.encode()

    async def _share_end(self, session_id: str) -> None:
        # Without a supervisor this worker ends, too.
        with suppress(NoAnswerError):
            await self._channel.ask("session_ended", session_id, timeout_s=_ANSWER_TIMEOUT_S)

    async def _ask_once(self, subject: str, detail: str | None) -> Any:  # noqa: ANN401 - JSON
        asked = self._asked.get((subject, detail))
        if asked is None:
            asked = asyncio.ensure_future(self._channel.ask(subject, detail, timeout_s=_ANSWER_TIMEOUT_S))
            self._asked[subject, detail] = asked
            asked.add_done_callback(partial(self._forget, (subject, detail)))
        return await asyncio.shield(asked)

    def _forget(self, question: tuple[str, str | None], asked: asyncio.Future[Any]) -> None:
        del self._asked[question]
        if not asked.cancelled():
            asked.exception()  # asyncio complains about exceptions that nobody has retrieved

    async def _watch(self) -> None:
        await self._channel.closed.wait()
        self._orphaned()

    async def _hear(self, subject: str, detail: Any) -> object:  # noqa: ANN401 - JSON
        if subject == "listen":
            self._admitted.set()
        elif subject == "drain":
            self._drain()
        elif subject == "end":
            self._end()
        elif subject == "session_ended":
            self.ended_sessions.add(detail, time.time())
        elif subject == "sessions_ended":
            self.ended_sessions.take(detail)
        elif self._probe is not None and subject == "families":
            return self._probe.families()
        elif self._probe is not None and subject == "readiness":
            return self._probe.readiness(detail)
        return None
