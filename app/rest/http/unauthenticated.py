"""What unauthenticated clients may take of the event loop: they wait before any known caller is refused.

A connection is unauthenticated until a request of a known caller has been answered on it. All of them share a small
budget of CPU time in each turn of the loop. Whoever sends when it is used up waits in a queue, and is served in later
turns in the order of arrival: what it has sent is held, nothing more is read from it, and it costs nothing. So each is
answered in the end, and the wait is bounded by the number of connections.

A request that shows credentials which are remembered passes the queue (`Prepared.is_known`), so that known callers can
always connect. Whoever shows credentials for the first time waits like everybody else.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Generator
from time import thread_time
from typing import Any, NamedTuple, Protocol

from app.rest.http import bounds
from app.rest.http.heads import WholeHead


class PreparedReply(NamedTuple):
    """A reply that needs no application: its status line, and all that follows the server's own headers."""

    status_line: bytes
    rest: bytes


class Prepared(Protocol):
    """Answers what unauthenticated clients may ask, without a task."""

    def is_known(self, head: WholeHead, names: tuple[str, ...], /) -> bool:
        """Whether it shows credentials that are remembered; `names` are those of the client's certificate."""

    def reply(self, head: WholeHead, names: tuple[str, ...], /) -> PreparedReply | None:
        """The reply of the application, to the letter; None if only the application can answer."""


class NothingPrepared:
    """Leaves all requests to the application."""

    def is_known(self, _head: WholeHead, _names: tuple[str, ...], /) -> bool:
        return False

    def reply(self, _head: WholeHead, _names: tuple[str, ...], /) -> PreparedReply | None:
        return None


class Unauthenticated:
    """The budget and the queue of one process. All times are CPU time of the event loop's thread."""

    def __init__(self, turn_began: Callable[[asyncio.AbstractEventLoop], float]) -> None:
        """`turn_began` is `Connections.turn_began`."""
        self.used_s = 0.0
        """What they have used since the process began."""
        self._turn_began = turn_began
        self._turn = 0.0
        """The turn for which the budget was last renewed."""
        self._left_s = bounds.UNAUTHENTICATED_BUDGET_S
        self._last_end: float | None = None
        """When the last step of theirs ended; None if something else has been done since then."""
        self._queue: deque[Callable[[], None]] = deque()
        self._is_scheduled = False
        self._held_bytes = 0

    def may_serve(self, turn: float) -> bool:
        """Whether one may be served now, in the turn that began at this time."""
        if self._queue:
            return False
        self._renew(turn)
        return self._left_s > 0

    def _renew(self, turn: float) -> None:
        if turn == self._turn:
            return
        # In long turns more: under overload they would otherwise wait for seconds.
        share = (turn - self._turn) * bounds.UNAUTHENTICATED_SHARE
        budget_s = min(max(share, bounds.UNAUTHENTICATED_BUDGET_S), bounds.UNAUTHENTICATED_MOST_S)
        self._left_s = min(self._left_s + budget_s, budget_s)
        self._turn = turn

    def begin(self) -> float:
        """When a step of theirs began, for `end`: the end of the one before it, so that reading is counted, too."""
        return thread_time() if self._last_end is None else self._last_end

    def end(self, began: float) -> None:
        self._last_end = thread_time()
        self.charge(self._last_end - began)

    def interrupt(self) -> None:
        """Notes that something else is done."""
        self._last_end = None

    def charge(self, seconds: float) -> None:
        self.used_s += seconds
        # A long request delays those behind it, but not for ever.
        self._left_s = max(self._left_s - seconds, -bounds.UNAUTHENTICATED_DEBT_S)

    def hold(self, size: int) -> bool:
        """Counts bytes that wait; False, with nothing counted, if that is too much."""
        if self._held_bytes + size > bounds.MAX_DEFERRED_BYTES_OF_ALL:
            return False
        self._held_bytes += size
        return True

    def release(self, size: int) -> None:
        self._held_bytes -= size

    def enqueue(self, serve: Callable[[], None], loop: asyncio.AbstractEventLoop) -> None:
        """`serve` is called in a later turn, and raises nothing."""
        self._queue.append(serve)
        self._schedule(loop)

    def _schedule(self, loop: asyncio.AbstractEventLoop) -> None:
        if not self._is_scheduled:
            self._is_scheduled = True
            loop.call_soon(self._serve, loop)

    def _serve(self, loop: asyncio.AbstractEventLoop) -> None:
        self._is_scheduled = False
        self.interrupt()
        self._renew(self._turn_began(loop))
        # INVARIANT: what is left grows with each turn, so the queue moves.
        while self._queue and self._left_s > 0:
            serve = self._queue.popleft()
            began = self.begin()
            serve()
            self.end(began)
        self.interrupt()
        if self._queue:
            self._schedule(loop)


class Measured:
    """An awaitable that reports the CPU time of each of its steps."""

    def __init__(self, work: Coroutine[Any, Any, None], charge: Callable[[float], None]) -> None:
        self._work = work
        self._charge = charge

    def __await__(self) -> Generator[Any, Any, None]:
        work, step, given = self._work, self._work.send, None
        while True:
            began = thread_time()
            try:
                waits_for = step(given)
            except StopIteration:
                return
            finally:
                self._charge(thread_time() - began)
            try:
                given, step = (yield waits_for), work.send
            except GeneratorExit:
                work.close()
                raise
            except BaseException as error:  # noqa: BLE001 - it is the work's own, cancellation included
                given, step = error, work.throw
