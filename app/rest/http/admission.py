"""Admission: how many requests are worked on at once, by what they need; who is one too many hears so at once.

A pool has places, a queue in which one waits for a place for a short time, and a budget of bytes for the bodies of
those who have one. Nothing of a body is read before its request has a place. Plain requests of authorize and the OPA
door need none: they are answered in the step in which they came, and refused there if it takes too long
(`app.rest.http.bounds`).
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Generator, Iterable, Mapping
from types import MappingProxyType
from typing import NamedTuple

from app.core.kafka.errors import OverloadedException
from app.metrics.declared import ADMISSION_POOLS, Metrics

_MIB = 1024 * 1024


class Bounds(NamedTuple):
    """What a pool has room for."""

    places: int
    queue: int
    wait_s: float
    """The longest wait for a place."""
    body_bytes: int
    """Of all requests with a place together. A decoded body takes about twelve times as much as its JSON."""
    yields_to_overload: bool = False
    """Whether requests are refused that come to the event loop too late."""


BOUNDS: Mapping[str, Bounds] = MappingProxyType(
    {
        # A decision takes no time but that of the event loop; what holds a place longer is a long body, on its way or
        # being decoded in a thread. 32 bodies of 1 MiB are seconds of work: who would have to wait longer than the
        # 20 ms within which the excess is refused, is the excess.
        "decisions": Bounds(128, 256, 0.02, 32 * _MIB, yields_to_overload=True),
        # A listing is up to a second of work in short steps, and its page up to megabytes; more of them at once make
        # all of them slower. Their bodies are a filter.
        "lists": Bounds(8, 64, 2.0, 8 * _MIB),
        # The writer commits groups of 500 and queues a thousand more; 1,024 keep it busy, and the next wave waits for
        # a commit or two. 64 MiB are eight calls of 10,000 bindings each. They wait less than clients do (5 s).
        "updates": Bounds(1_024, 1_024, 2.0, 64 * _MIB),
        # A waiting request is a future and a timer, some kilobytes: as many as there may be connections.
        "waiting": Bounds(10_000, 0, 0.0, 16 * _MIB),
        # Whoever asks how the service is gets an answer above all when it is not well.
        "probes": Bounds(1 << 62, 0, 0.0, 1 << 62),
    }
)


class _Share:
    """What one caller has of a pool, or waits for."""

    __slots__ = ("bytes", "places")

    def __init__(self) -> None:
        self.places = 0
        self.bytes = 0


class _Waiter(NamedTuple):
    turn: asyncio.Future[None]
    body_bytes: int


class _At:
    """What can be awaited and is there already: a coroutine would cost more than the place."""

    __slots__ = ()

    def __await__(self) -> Generator[None, None, None]:
        return
        yield


_AT_ONCE = _At()


class Pool:
    """Places for one kind of request. For one event loop."""

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

    def admitted(self, body_bytes: int, began: float | None = None, who: str | None = None) -> "Place":
        """A place, for `async with`, for a request with so long a body, or with one that may become so long.

        `began` is when it was read (`klamm.began` of its scope), `who` the caller it is of, who gets half of the pool
        at most. Entering raises OverloadedException, at once or after the longest wait; nothing of the request has been
        done then.
        """
        return Place(self, min(body_bytes, self._bounds.body_bytes), began, who)

    def enter(self, body_bytes: int, began: float | None) -> Awaitable[None]:
        """Take a place as soon as there is one."""
        bounds = self._bounds
        if bounds.yields_to_overload and began is not None and self._is_late(began):
            raise self.refusal()
        if self._places and body_bytes <= self._bytes and not self._queue:
            self._take(body_bytes)
            return _AT_ONCE
        if len(self._queue) >= bounds.queue:
            raise self.refusal()
        return self._wait(body_bytes)

    async def _wait(self, body_bytes: int) -> None:
        waiter = _Waiter(asyncio.get_running_loop().create_future(), body_bytes)
        self._queue.append(waiter)
        self._counts[1] += 1
        try:
            async with asyncio.timeout(self._bounds.wait_s):
                await waiter.turn
        except TimeoutError:
            # INVARIANT: a turn that was not cancelled has come, and with it the place.
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
        """Note what a caller wants of this pool. Raises OverloadedException for more than half of it."""
        share = self._shares.setdefault(who, _Share())
        bounds = self._bounds
        if share.places >= bounds.places // 2 or (share.bytes and share.bytes + body_bytes > bounds.body_bytes // 2):
            raise self.refusal()
        share.places += 1
        share.bytes += body_bytes

    def give_share_back(self, who: str, body_bytes: int) -> None:
        """Note that the caller is done with it."""
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
        """Give a place back."""
        self._places += 1
        self._bytes += body_bytes
        self._counts[0] -= 1
        if self._queue:
            self._let_in()

    def _let_in(self) -> None:
        """In their order: a long body isn't overtaken for ever by short ones."""
        while self._queue and self._places and self._queue[0].body_bytes <= self._bytes:
            waiter = self._queue.popleft()
            if not waiter.turn.done():
                self._take(waiter.body_bytes)
                waiter.turn.set_result(None)

    def refusal(self) -> OverloadedException:
        """What one too many is told; counted."""
        self._refused[self.name] += 1
        return OverloadedException("the service is overloaded; nothing was done, try again shortly")


class Place:
    """A place in a pool for as long as `async with` lasts."""

    __slots__ = ("_began", "_body_bytes", "_pool", "_who")

    def __init__(self, pool: Pool, body_bytes: int, began: float | None, who: str | None) -> None:
        self._pool = pool
        self._body_bytes = body_bytes
        self._began = began
        self._who = who

    def __aenter__(self) -> Awaitable[None]:
        if self._who is None:
            return self._pool.enter(self._body_bytes, self._began)
        return self._enter_as(self._who)

    async def _enter_as(self, who: str) -> None:
        self._pool.take_share(who, self._body_bytes)
        try:
            await self._pool.enter(self._body_bytes, self._began)
        except BaseException:
            self._pool.give_share_back(who, self._body_bytes)
            raise

    def __aexit__(self, *_: object) -> Awaitable[None]:
        self._pool.leave(self._body_bytes)
        if self._who is not None:
            self._pool.give_share_back(self._who, self._body_bytes)
        return _AT_ONCE


class Admission:
    """The pools of one process. `is_late` is `Connections.is_late`."""

    def __init__(self, metrics: Metrics, is_late: Callable[[float], bool] = lambda _: False) -> None:
        self.pools = {name: Pool(name, BOUNDS[name], metrics, is_late) for name in ADMISSION_POOLS}
        self.waiting = self.pools["waiting"]
        """For whoever waits for an offset (`at_least`): it takes no place from decisions meanwhile."""
        self._is_late = is_late

    def look_further(self, began: float | None) -> None:
        """Raise OverloadedException if it is too late to find out who is not known yet: a JWT takes a while to check.

        No place is taken for it: who waits for an issuer's keys is bounded there, and takes none from anybody.
        """
        if began is not None and self._is_late(began):
            raise self.pools["decisions"].refusal()


def body_bytes_of(headers: Iterable[tuple[bytes, bytes]], max_bytes: int) -> int:
    """How long a request's body is, or may become if its headers don't say."""
    for name, value in headers:
        if name == b"content-length":
            return min(int(value), max_bytes) if value.isdigit() else max_bytes
        if name == b"transfer-encoding":
            return max_bytes
    return 0
