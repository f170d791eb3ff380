"""What all connections of a process share: their places, one timer for their deadlines, and overload.

If more clients connect than a process may keep, the connections of known callers stay. A connection is a stranger's
until a request of a known caller has been answered on it. Clients with credentials use them at once, so strangers make
room for new connections, oldest first. When there are no strangers left, a new connection is surplus: it may only send
probes, and surplus connections are bounded, too.

One timer looks at the deadlines of all connections. Measured: 10,000 connections cost 0.4 ms each time; a timer for
each request would cost every request half a microsecond.

Overload shows in the turns of the event loop, the only thread that decides. Once a turn has used up its budget, the
remaining requests in it are refused: a refusal costs microseconds, so the turn ends soon, and no request waits for
more than two turns. A long turn alone is no overload. Callers that wait for their answers have one request each in a
turn, which then lasts as long as these take on this machine, and the next turn lasts no longer. Only if more comes than
is answered, turns grow until one exceeds STEADY_BUDGET_S; from then on they are short, until nothing is refused in
one. A turn after a calm one or a pause has a larger budget, as a burst is no overload. Budgets count CPU time, within
a bound of wall-clock time: time that other processes had the core is no overload either, and nor is what
unauthenticated clients take, who have a budget of their own (`unauthenticated`).
"""

import asyncio
import logging
import resource
from collections import OrderedDict
from collections.abc import Callable, Sequence
from http import HTTPStatus
from time import monotonic, thread_time
from typing import Protocol

from app.metrics.declared import Metrics
from app.rest.http import bounds
from app.rest.http.bounds import BURST_BUDGET_S, OVERLOADED, STEADY_BUDGET_S, TURN_BUDGET_S, kept_for, stranger_s
from app.rest.http.unauthenticated import Unauthenticated

_SWEEP_S = 0.25
_MAX_LOOKS = 32
"""Looking at all strangers for each new connection would let strangers cause work."""

_log = logging.getLogger(__name__)


class Connection(Protocol):
    deadline: float
    """On the clock of `time.monotonic`."""

    def time_out(self) -> None: ...

    def drain(self) -> None:
        """Makes the reply under way the last one."""

    def is_busy(self) -> bool:
        """Whether it is answering a request, and its client reads."""

    def abort(self) -> None: ...


def contained(connection: Connection, step: Callable[[], None]) -> None:
    """Takes a step of a loop over all connections; an error in it ends this connection only."""
    try:
        step()
    except Exception:  # noqa: BLE001 - whatever it is, it is logged, and ends this connection
        _log.exception("connection_fault")
        connection.abort()


class Connections:
    def __init__(self, metrics: Metrics | None = None, maximum: int = bounds.DEFAULT_MAX_CONNECTIONS) -> None:
        descriptors = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        self.maximum = min(maximum, max(1, descriptors - bounds.SPARE_DESCRIPTORS))
        self.draining = False
        self.began = 0.0
        """When this turn of the event loop began; 0 if no connection has read anything in it."""
        self.until = 0.0
        """When this turn's budget may be used up."""
        self.head = b""
        """The head of a plain answer, from the status line to the content type."""
        self.shed_replies = (b"", b"")
        """The refusals of a plain request that came too late: for a stranger, and for a known caller."""
        self.unauthenticated_lines = b""
        """The lines behind the status line of a reply to an unauthenticated client."""
        self.unauthenticated = Unauthenticated(self.turn_began)
        self._dated: object = None
        """The default headers that these are made of."""
        self._metrics = metrics or Metrics()
        self._all: set[Connection] = set()
        self._kept: set[Connection] = set()
        # Oldest first, except that busy ones are moved to the end.
        self._strangers: OrderedDict[Connection, None] = OrderedDict()
        """The kept connections that no known caller uses."""
        self._surplus: OrderedDict[Connection, None] = OrderedDict()
        self._sweeping: asyncio.TimerHandle | None = None
        self._calm = True
        self._steady = True
        """Whether nothing was refused in the last turn."""
        self._budget_s = TURN_BUDGET_S
        """CPU seconds that this turn may take once they are counted."""
        self._last_active = 0.0
        self._has_shed = False
        self._has_shed_tasks = False
        self._began_on_core: float | None = None
        self._used_before = 0.0
        """What unauthenticated clients had used when this turn began."""
        self._held_bytes = 0

    def add(self, connection: Connection, loop: asyncio.AbstractEventLoop) -> bool:
        """Counts a new connection; False if it is surplus, and may only send probes, or was aborted."""
        self._all.add(connection)
        self._metrics.connections = len(self._all)
        if self._sweeping is None:
            self._sweeping = loop.call_later(_SWEEP_S, self._sweep, loop)
        is_full = len(self._kept) >= self.maximum
        self._metrics.connections_refused += is_full
        if not is_full or self._abort_one_of(self._strangers):
            self._kept.add(connection)
            self._strangers[connection] = None
            return True
        if len(self._surplus) < bounds.MAX_SURPLUS or self._abort_one_of(self._surplus):
            self._surplus[connection] = None
        else:
            connection.abort()
        return False

    def keep(self, connection: Connection) -> None:
        """Notes that a known caller uses this connection."""
        self._strangers.pop(connection, None)

    def remove(self, connection: Connection) -> None:
        self._all.discard(connection)
        self._free_place_of(connection)
        self._metrics.connections = len(self._all)

    def _free_place_of(self, connection: Connection) -> None:
        self._kept.discard(connection)
        self._strangers.pop(connection, None)
        self._surplus.pop(connection, None)

    def _abort_one_of(self, group: OrderedDict[Connection, None]) -> bool:
        for _ in range(min(_MAX_LOOKS, len(group))):
            one = next(iter(group))
            if not one.is_busy():
                # Its place is free now; `connection_lost` comes a turn later.
                self._free_place_of(one)
                one.abort()
                return True
            group.move_to_end(one)
        return False

    def drain(self) -> None:
        """Makes every reply from now on the last one on its connection."""
        self.draining = True
        self._dated = None
        for each in tuple(self._all):
            contained(each, each.drain)

    def _sweep(self, loop: asyncio.AbstractEventLoop) -> None:
        now = monotonic()
        for each in [each for each in self._all if each.deadline < now]:
            contained(each, each.time_out)
        self._sweeping = loop.call_later(_SWEEP_S, self._sweep, loop) if self._all else None

    def hold(self, size: int) -> bool:
        """Counts bytes of incomplete bodies; False, with nothing counted, if that is too much."""
        if size and self._held_bytes + size > bounds.MAX_HELD_BYTES_OF_ALL:
            return False
        self._held_bytes += size
        return True

    def release(self, size: int) -> None:
        self._held_bytes -= size

    # turns of the event loop

    def begin_turn(self, loop: asyncio.AbstractEventLoop) -> None:
        self.began = monotonic()
        # Overload is a row of turns that follow each other at once: a pause ends it.
        self._calm = self._calm or self.began - self._last_active > BURST_BUDGET_S
        budget_s = BURST_BUDGET_S if self._calm else STEADY_BUDGET_S if self._steady else TURN_BUDGET_S
        # Reading the CPU time costs a microsecond, so it is read only if there is a reason.
        self._began_on_core = None if self._calm else thread_time()
        self._used_before = self.unauthenticated.used_s
        self.unauthenticated.interrupt()
        self.until = self.began + budget_s
        # CPU time is counted from `until` on if the turn before was calm.
        self._budget_s = TURN_BUDGET_S if self._calm else budget_s
        loop.call_soon(self._end_turn)

    def _end_turn(self) -> None:
        self._last_active = monotonic()
        is_long = self._last_active - self.began - self._used_by_unauthenticated() > TURN_BUDGET_S
        self._steady = not (self._has_shed or self._has_shed_tasks)
        self._calm = self._steady and not is_long
        self._has_shed = self._has_shed_tasks = False
        self.began = 0.0

    def is_spent(self) -> bool:
        """Whether the turn has used up its budget; ask only after `until`."""
        return self._has_shed or self._has_taken(self._budget_s, monotonic() - self.began)

    def _has_taken(self, budget_s: float, waited_s: float) -> bool:
        # INVARIANT: known callers pay only for the time that known callers have taken.
        used_s = self._used_by_unauthenticated()
        if self._began_on_core is None:
            self._began_on_core = thread_time() - used_s
            return False
        return waited_s - used_s > bounds.LONGEST_TURN_S or thread_time() - self._began_on_core - used_s > budget_s

    def _used_by_unauthenticated(self) -> float:
        """CPU seconds in this turn so far."""
        return self.unauthenticated.used_s - self._used_before

    def turn_began(self, loop: asyncio.AbstractEventLoop) -> float:
        """When this turn began, which counts as when everything that it reads came."""
        if not self.began:
            self.begin_turn(loop)
        return self.began

    def is_late(self, began: float) -> bool:
        """Whether a task is too late for a request that was read in the turn that began at `began`.

        A task has a turn longer than plain requests: under overload they would use up every turn before it.
        """
        self._last_active = monotonic()
        budget_s, waited_s = self._budget_s + TURN_BUDGET_S, self._last_active - began
        late = waited_s > (BURST_BUDGET_S if self._calm else budget_s) and self._has_taken(budget_s, waited_s)
        if late:
            self._calm = self._steady = False
            self._has_shed_tasks = True
            self._metrics.requests_shed += 1
        return late

    def note_shed(self) -> None:
        self._has_shed = True
        self._metrics.requests_shed += 1
        self._metrics.count_request("authorize", HTTPStatus.TOO_MANY_REQUESTS, monotonic() - self.began)

    # heads of replies

    def date(self, default_headers: Sequence[tuple[bytes, bytes]], kept_s: int) -> None:
        """Takes the server's default headers, which it makes anew every second.

        `kept_s` is how long an idle connection of a known caller is kept.
        """
        if default_headers is self._dated:
            return
        self._dated = default_headers
        times = [0 if self.draining else each for each in (stranger_s(kept_s), kept_s)]
        lines = [b"%b: %b" % each for each in (*default_headers, (b"content-type", b"application/json"))]
        # A client that gets such an answer is a known caller by then.
        self.head = b"HTTP/1.1 200 OK\r\n%b%b\r\n" % (kept_for(times[1]), b"\r\n".join(lines))
        self.unauthenticated_lines = kept_for(times[0]) + b"".join(b"%b: %b\r\n" % each for each in default_headers)
        stranger, known = (OVERLOADED.written(default_headers, kept_s=each) for each in times)
        self.shed_replies = (stranger, known)


class HeldBody:
    """The body of a request that is held back until it is complete; all connections together hold a bounded amount."""

    def __init__(self, shared: Connections) -> None:
        self.body: bytearray | None = None
        """What has come so far; None if nothing is held back."""
        self._shared = shared
        self._counted = 0

    def begin(self) -> None:
        self.body = bytearray()

    def add(self, more: bytes) -> bool:
        if self.body is None:
            return False
        # It can't grow longer than its head says.
        self.body += more
        return True

    def may_grow(self) -> bool:
        """Counts what is held; False if it is too much."""
        if self.body is None:
            return True
        more = len(self.body) - self._counted
        if len(self.body) > bounds.MAX_HELD_BYTES or not self._shared.hold(more):
            return False
        self._counted += more
        return True

    def end(self) -> bytes:
        """Stops holding back. Returns what was held."""
        body, self.body = bytes(self.body or b""), None
        self._shared.release(self._counted)
        self._counted = 0
        return body
