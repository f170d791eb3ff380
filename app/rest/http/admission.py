"""How many requests are worked on at once, in pools by what they need; any excess is refused at once.

A pool has places, a queue with a short wait, and a budget of bytes for the bodies of requests with a place. No body is
read before its request has a place, and no request has two (`PlaceHolder`). Plain requests of authorize need
none: they are answered, or refused as too late, when they are read (`connections`).
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import NamedTuple

from app.core.kafka.errors import OverloadedException
from app.metrics.declared import ADMISSION_POOLS, Metrics

_MIB = 1024 * 1024


class Bounds(NamedTuple):
    places: int
    queue: int
    wait_s: float
    body_bytes: int
    """For all requests with a place together. A decoded body takes about twelve times as much as its JSON."""
    yields_to_overload: bool = False
    """Whether requests that reach the event loop too late are refused."""


BOUNDS: Mapping[str, Bounds] = MappingProxyType(
    {
        # A decision takes only the event loop's time; a place is held longer by a long body that is on its way or being
        # decoded in a thread. 32 bodies of 1 MiB are seconds of work: a request that would wait longer than 20 ms is
        # in excess, and is refused by then.
        "decisions": Bounds(128, 256, 0.02, 32 * _MIB, yields_to_overload=True),
        # A listing is up to a second of work in short steps, and its page up to megabytes; more at once would slow all
        # of them down. Their bodies are a filter.
        "lists": Bounds(8, 64, 2.0, 8 * _MIB),
        # The writer commits groups of 500 and queues a thousand more; 1,024 keep it busy, and the next wave waits for
        # a commit or two. 64 MiB are eight calls of 10,000 bindings each. They wait less than clients do (5 s).
        "updates": Bounds(1_024, 1_024, 2.0, 64 * _MIB),
        # Questions about the records in PostgreSQL share one connection, and each takes some 10 ms of it.
        "past": Bounds(4, 32, 2.0, 4 * _MIB),
        # For requests that wait for an offset (`at_least`), and meanwhile have no place in their own pool, and for
        # start. A waiting request is a future and a timer, some kilobytes: as many as there may be connections.
        "waiting": Bounds(10_000, 0, 0.0, 16 * _MIB),
        # A watch stream holds its place for as long as it is read: some 30 KiB and a wake-up for each change.
        "watchers": Bounds(4_096, 0, 0.0, 1 << 62),
        # Pages of the console for visitors who have signed in: the place is for reading a form, as the calls that a
        # page makes of the API take places of their own. Long forms are decoded in a thread.
        "pages": Bounds(64, 64, 2.0, 16 * _MIB),
        # Pages and forms (16 KiB at most) of visitors who have not: nothing that a known caller needs.
        "unauthenticated": Bounds(64, 64, 1.0, _MIB),
        # Probes matter most when the service is not well, so they are always answered.
        "probes": Bounds(1 << 62, 0, 0.0, 1 << 62),
    }
)


class _Share:
    __slots__ = ("bytes", "places")

    def __init__(self) -> None:
        self.places = 0
        self.bytes = 0


class _Waiter(NamedTuple):
    turn: asyncio.Future[None]
    body_bytes: int


class Pool:
    def __init__(self, name: str, bounds: Bounds, metrics: Metrics, is_late: Callable[[float], bool]) -> None:
        self.name = name
        self._bounds = bounds
        self._is_late = is_late
        self._counts = metrics.admission_requests[name]
        self._refused = metrics.admission_refused
        self._shares: dict[str, _Share] = {}
        self._places = bounds.places
        self._bytes = bounds.body_bytes
        self._queue: deque[_Waiter] = deque()

    def admitted(
        self, body_bytes: int, began: float | None = None, who: str | None = None, holder: "PlaceHolder | None" = None
    ) -> "Place":
        """A place for `async with`, for a request with a body of at most this many bytes.

        `began` is when it was read (`klamm.began` of its scope); `who` is its caller, who gets half of the pool at
        most; `holder` is the request. Entering raises OverloadedException, at once or after the longest wait.
        """
        return Place(self, min(body_bytes, self._bounds.body_bytes), began, who, holder or PlaceHolder())

    async def enter(self, body_bytes: int, began: float | None) -> None:
        bounds = self._bounds
        if bounds.yields_to_overload and began is not None and self._is_late(began):
            raise self.refusal()
        if self._places and body_bytes <= self._bytes and not self._queue:
            self._take(body_bytes)
            return
        if len(self._queue) >= bounds.queue:
            raise self.refusal()
        await self._wait(body_bytes)

    async def _wait(self, body_bytes: int) -> None:
        waiter = _Waiter(asyncio.get_running_loop().create_future(), body_bytes)
        self._queue.append(waiter)
        self._counts[1] += 1
        try:
            async with asyncio.timeout(self._bounds.wait_s):
                await waiter.turn
        except TimeoutError:
            # INVARIANT: a turn that was not cancelled has come, and brought the place with it.
            if waiter.turn.cancelled():
                raise self.refusal() from None
        except asyncio.CancelledError:
            if not waiter.turn.cancelled():
                self.leave(body_bytes)
            raise
        finally:
            self._counts[1] -= 1
            if waiter in self._queue:
                self._queue.remove(waiter)
                self._let_in()

    def take_share(self, who: str, body_bytes: int) -> None:
        share = self._shares.setdefault(who, _Share())
        bounds = self._bounds
        if share.places >= bounds.places // 2 or (share.bytes and share.bytes + body_bytes > bounds.body_bytes // 2):
            raise self.refusal()
        share.places += 1
        share.bytes += body_bytes

    def give_share_back(self, who: str, body_bytes: int) -> None:
        share = self._shares[who]
        share.places -= 1
        share.bytes -= body_bytes
        if not share.places:
            del self._shares[who]

    def _take(self, body_bytes: int) -> None:
        self._places -= 1
        self._bytes -= body_bytes
        self._counts[0] += 1

    def leave(self, body_bytes: int) -> None:
        self._places += 1
        self._bytes += body_bytes
        self._counts[0] -= 1
        if self._queue:
            self._let_in()

    def _let_in(self) -> None:
        # In order, so that short bodies don't overtake a long one for ever.
        while self._queue and self._places and self._queue[0].body_bytes <= self._bytes:
            waiter = self._queue.popleft()
            if not waiter.turn.done():
                self._take(waiter.body_bytes)
                waiter.turn.set_result(None)

    def refusal(self) -> OverloadedException:
        """Counts it as well."""
        self._refused[self.name] += 1
        return OverloadedException("the service is overloaded; nothing was done, try again shortly")


class PlaceHolder:
    """A request, with those that it makes of the service's own routes in turn.

    INVARIANT: it has one place at most. If requests waited for a place while they have another one, those that need
    only the other would be refused for what they don't need.
    """

    __slots__ = ("_pool",)

    def __init__(self) -> None:
        self._pool: str | None = None

    def take(self, pool: str) -> None:
        """Raises RuntimeError if it has a place, or waits for one."""
        if self._pool is not None:
            raise RuntimeError(f"a request wants a place of `{pool}` while it has one of `{self._pool}`")
        self._pool = pool

    def leave(self) -> None:
        self._pool = None


class Place:
    __slots__ = ("_began", "_body_bytes", "_holder", "_pool", "_who")

    def __init__(self, pool: Pool, body_bytes: int, began: float | None, who: str | None, holder: PlaceHolder) -> None:
        self._pool = pool
        self._body_bytes = body_bytes
        self._began = began
        self._who = who
        self._holder = holder

    async def __aenter__(self) -> None:
        self._holder.take(self._pool.name)
        try:
            await self._enter()
        except BaseException:
            self._holder.leave()
            raise

    async def _enter(self) -> None:
        if self._who is not None:
            self._pool.take_share(self._who, self._body_bytes)
        try:
            await self._pool.enter(self._body_bytes, self._began)
        except BaseException:
            if self._who is not None:
                self._pool.give_share_back(self._who, self._body_bytes)
            raise

    async def __aexit__(self, *_: object) -> None:
        self._holder.leave()
        self._pool.leave(self._body_bytes)
        if self._who is not None:
            self._pool.give_share_back(self._who, self._body_bytes)


class Admission:
    """The pools of one process. `is_late` is `Connections.is_late`."""

    def __init__(self, metrics: Metrics, is_late: Callable[[float], bool] = lambda _: False) -> None:
        self.pools = {name: Pool(name, BOUNDS[name], metrics, is_late) for name in ADMISSION_POOLS}
        self._is_late = is_late

    def look_further(self, began: float | None) -> None:
        """Raise OverloadedException if it is too late to check the credentials of a caller that is not remembered.

        No place is taken for the check: `key_sets` bounds how many wait for an issuer's keys.
        """
        if began is not None and self._is_late(began):
            raise self.pools["decisions"].refusal()


def body_bytes_of(headers: Iterable[tuple[bytes, bytes]], max_bytes: int) -> int:
    """`max_bytes` if the headers don't say."""
    for name, value in headers:
        if name == b"content-length":
            return min(int(value), max_bytes) if value.isdigit() else max_bytes
        if name == b"transfer-encoding":
            return max_bytes
    return 0
