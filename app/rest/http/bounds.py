"""What all connections of a process share: how many may come, how long each may take, and when the process is late.

Connections are swept: each keeps the time at which its patience ends, and one timer looks at all of them. Measured:
10,000 connections cost a sweep 0.4 ms; a timer for each request would cost every request half a microsecond.

Overload shows in the turns of the event loop, the only thread that decides. Once a turn lasts longer than its budget,
who is still to be served in it is refused instead: a refusal costs microseconds, so the turn ends soon, and nobody
waits longer than for two turns. A turn after a calm one has a larger budget: a burst is no overload. Nor is it overload
if other processes had the core meanwhile: budgets are of time on the core, within a bound of time on the clock.
"""

import asyncio
import logging
import resource
from collections.abc import Callable, Sequence
from http import HTTPStatus
from time import monotonic, thread_time
from typing import NamedTuple, Protocol

from app.core.kafka.errors import ApiException, InvalidRequestException, OverloadedException
from app.metrics.declared import Metrics
from app.rest.errors import PROBLEM_MEDIA_TYPE, BodyTimedOutException, problem_response
from app.rest.http.places import Places

DEFAULT_MAXIMUM = 10_000
"""`connections.max`: a connection with a parser and its buffers takes some 10 KB."""
_SPARE_DESCRIPTORS = 256
"""For PostgreSQL, logs, files, and the connections beyond the maximum, which may ask how the service is."""
_STRANGER_KEPT_S = 2
_SWEEP_S = 0.25
_TURN_BUDGET_S = 0.0065
"""Two turns and their refusals stay below 20 ms; two of the largest batches (3 ms each) are within one turn."""
_BURST_BUDGET_S = 0.05
_PATIENCE_S = 0.25
"""The longest turn, whoever had the core."""
_MAX_HELD_BYTES = 32 * 1024 * 1024
"""Bodies, of all connections together, whose rest has not come yet."""

_log = logging.getLogger(__name__)


def stranger_s(known_s: int) -> int:
    """How long an idle connection of a stranger is kept, where one of a known caller is for so long."""
    return min(known_s, _STRANGER_KEPT_S)


def kept_for(seconds: int) -> bytes:
    """The lines of a reply's head, each with its end, that say how long the connection is kept when idle.

    Who isn't told keeps it for minutes, and meets a closed one (RFC 2068, 19.7.1.1). 0: the reply is the last.
    """
    if not seconds:
        return b"connection: close\r\n"
    return b"connection: keep-alive\r\nkeep-alive: timeout=%d\r\n" % seconds


class Refusal(NamedTuple):
    """What the protocol answers by itself."""

    status: HTTPStatus
    body: bytes
    code: bytes
    retry: bool = False

    @staticmethod
    def of(status: HTTPStatus, why: ApiException) -> "Refusal":
        """The refusal with this status, in the form that every refusal has."""
        body = bytes(problem_response(why).body).replace(
            b'"status":%d' % problem_response(why).status_code, b'"status":%d' % status
        )
        return Refusal(status, body, why.error.value.encode(), status is HTTPStatus.TOO_MANY_REQUESTS)

    def written(self, head: Sequence[tuple[bytes, bytes]], *, kept_s: int = 0, plain: bool = False) -> bytes:
        """As it goes over the wire; `kept_s` says how long the connection is kept after it, `plain` that it is text."""
        kind, body = (b"text/plain", self.code) if plain else (PROBLEM_MEDIA_TYPE.encode(), self.body)
        lines = [
            b"HTTP/1.1 %d %b" % (self.status, self.status.phrase.encode()),
            *(b"%b: %b" % each for each in head),
            b"content-type: %b" % kind,
            b"content-length: %d" % len(body),
        ]
        lines += [b"retry-after: 1"] if self.retry else []
        return b"\r\n".join((*lines, kept_for(kept_s) + b"\r\n" + body))


MALFORMED = Refusal.of(HTTPStatus.BAD_REQUEST, InvalidRequestException("this is no HTTP/1.1 request"))
REPEATED_HEADER = Refusal.of(
    HTTPStatus.BAD_REQUEST,
    InvalidRequestException("`Authorization`, `Content-Length` and `Host` must each come once; send one of each"),
)
NO_HOST = Refusal.of(
    HTTPStatus.BAD_REQUEST, InvalidRequestException("an HTTP/1.1 request must have a `Host` header; send one")
)
HEAD_TOO_LARGE = Refusal.of(
    HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE,
    InvalidRequestException("the headers exceed 16384 bytes or 100 lines; send fewer or shorter ones"),
)
TIMED_OUT = Refusal.of(
    HTTPStatus.REQUEST_TIMEOUT,
    BodyTimedOutException("the request did not arrive within 10 s; send the whole of it at once"),
)
OVERLOADED = Refusal.of(
    HTTPStatus.TOO_MANY_REQUESTS,
    OverloadedException("the service is overloaded; nothing was done, try again shortly"),
)
TOO_MANY_CONNECTIONS = Refusal.of(
    HTTPStatus.TOO_MANY_REQUESTS,
    OverloadedException("the service has as many connections as it may keep; nothing was done, try again shortly"),
)


class Connection(Protocol):
    """What a connection must know how to do."""

    deadline: float
    """On the clock of `time.monotonic`."""

    def overdue(self) -> None:
        """Give up what was waited for until the deadline."""

    def leave(self) -> None:
        """Say with the reply under way that it is the last one."""

    def is_busy(self) -> bool:
        """Whether a request is being answered."""

    def abort(self) -> None:
        """Be gone."""


def in_any_case(connection: Connection, step: Callable[[], None]) -> None:
    """Take a step that this connection is to take like all others; what is wrong with it is its own end only."""
    try:
        step()
    except Exception:  # noqa: BLE001 - whatever it is, it is logged, and ends this connection
        _log.exception("connection_fault")
        connection.abort()


class Connections:
    """The connections of one process. One event loop uses it."""

    def __init__(self, metrics: Metrics | None = None, maximum: int = DEFAULT_MAXIMUM) -> None:
        self.maximum = min(maximum, max(1, resource.getrlimit(resource.RLIMIT_NOFILE)[0] - _SPARE_DESCRIPTORS))
        self._places = Places(self.maximum)
        self.draining = False
        self.began = 0.0
        """When the turn of the event loop began; 0 between turns, as far as connections know."""
        self.until = 0.0
        """When its budget is spent."""
        self.head = b""
        """Of a plain answer: from the status line to the content type."""
        self.shed_replies = (b"", b"")
        """The refusal of a plain request that came too late: to a stranger, and to a known caller."""
        self.dated: object = None
        """The default headers that both are made of."""
        self._metrics = metrics or Metrics()
        self._all: set[Connection] = set()
        self._sweeping: asyncio.TimerHandle | None = None
        self._calm = True
        self._has_shed = False
        self._has_shed_tasks = False
        self._began_on_core: float | None = None
        self._held_bytes = 0

    # connections come and go

    def add(self, connection: Connection, loop: asyncio.AbstractEventLoop) -> bool:
        """Take this connection in; False if it is one too many, and may only ask how the service is."""
        self._all.add(connection)
        self._metrics.connections = len(self._all)
        if self._sweeping is None:
            self._sweeping = loop.call_later(_SWEEP_S, self._sweep, loop)
        self._metrics.connections_refused += self._places.is_full()
        return self._places.take(connection)

    def keep(self, connection: Connection) -> None:
        """Know that a known caller uses this connection."""
        self._places.keep(connection)

    def remove(self, connection: Connection) -> None:
        """Forget this connection."""
        self._all.discard(connection)
        self._places.leave(connection)
        self._metrics.connections = len(self._all)

    def drain(self) -> None:
        """From now on every reply is the last one of its connection."""
        self.draining = True
        self.dated = None
        for each in tuple(self._all):
            in_any_case(each, each.leave)

    def _sweep(self, loop: asyncio.AbstractEventLoop) -> None:
        now = monotonic()
        for each in [each for each in self._all if each.deadline < now]:
            in_any_case(each, each.overdue)
        self._sweeping = loop.call_later(_SWEEP_S, self._sweep, loop) if self._all else None

    # bodies that are still coming

    def hold(self, size: int) -> bool:
        """Keep so many bytes more of bodies that are not complete; False if that is too much, and nothing is kept."""
        if size and self._held_bytes + size > _MAX_HELD_BYTES:
            return False
        self._held_bytes += size
        return True

    def give_back(self, size: int) -> None:
        """Keep so many bytes less."""
        self._held_bytes -= size

    # turns of the event loop

    def begin_turn(self, loop: asyncio.AbstractEventLoop) -> None:
        """Know that a turn has begun; its end shows by itself."""
        self.began = monotonic()
        # To ask for the time on the core costs a microsecond: it isn't asked for before there is a reason.
        self._began_on_core = None if self._calm else thread_time()
        self.until = self.began + (_BURST_BUDGET_S if self._calm else _TURN_BUDGET_S)
        loop.call_soon(self._end_turn)

    def _end_turn(self) -> None:
        is_long = monotonic() - self.began > _TURN_BUDGET_S
        self._calm = not (is_long or self._has_shed or self._has_shed_tasks)
        self._has_shed = self._has_shed_tasks = False
        self.began = 0.0

    def is_spent(self) -> bool:
        """Whether the turn has used up its budget; asked after `until` only."""
        return self._has_shed or self._has_taken(_TURN_BUDGET_S, monotonic() - self.began)

    def _has_taken(self, budget_s: float, waited_s: float) -> bool:
        if self._began_on_core is None:
            self._began_on_core = thread_time()
            return False
        return waited_s > _PATIENCE_S or thread_time() - self._began_on_core > budget_s

    def turn_began(self, loop: asyncio.AbstractEventLoop) -> float:
        """When the turn that is under way began: all that it reads came then."""
        if not self.began:
            self.begin_turn(loop)
        return self.began

    def is_late(self, began: float) -> bool:
        """Whether a task comes too late for a request that was read in the turn which began then.

        It has a turn longer than plain requests: in overload they would take every turn before it.
        """
        budget_s, waited_s = 2 * _TURN_BUDGET_S, monotonic() - began
        late = waited_s > (_BURST_BUDGET_S if self._calm else budget_s) and self._has_taken(budget_s, waited_s)
        if late:
            self._calm, self._has_shed_tasks = False, True
            self._metrics.requests_shed += 1
        return late

    def note_shed(self) -> None:
        """Count a plain request that was refused because its turn lasted too long."""
        self._has_shed = True
        self._metrics.requests_shed += 1
        self._metrics.count_request("authorize", HTTPStatus.TOO_MANY_REQUESTS, monotonic() - self.began)

    # heads of replies

    def date(self, default_headers: Sequence[tuple[bytes, bytes]], kept_s: int) -> None:
        """Take the headers that the server puts before all others; it makes a new list every second.

        `kept_s` is how long an idle connection of a known caller is kept.
        """
        self.dated = default_headers
        times = [0 if self.draining else each for each in (stranger_s(kept_s), kept_s)]
        lines = [b"%b: %b" % each for each in (*default_headers, (b"content-type", b"application/json"))]
        # Who gets such an answer is known by it.
        self.head = b"HTTP/1.1 200 OK\r\n%b%b\r\n" % (kept_for(times[1]), b"\r\n".join(lines))
        stranger, known = (OVERLOADED.written(default_headers, kept_s=each) for each in times)
        self.shed_replies = (stranger, known)
