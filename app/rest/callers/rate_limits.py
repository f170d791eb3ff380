"""How many requests a second a caller may send to one process, by the strategies of the library `limits`.

Each worker and each replica counts for itself: a caller of N processes gets N times as much. Counted is in windows of a
second that begin with a request, so around the end of one a caller can send twice as much as in a second; the sliding
windows of `limits` prevent that, and take almost four times as long (3.9 us a request, this 1.1 us).

The storage is our own: that of `limits` counts by the wall clock, so that a clock set back by an hour would shut a
caller out for an hour, and starts a thread every 10 ms to look for what has expired.
"""

from collections.abc import Callable
from time import monotonic

from limits import RateLimitItemPerSecond
from limits.storage import Storage
from limits.strategies import FixedWindowRateLimiter


class _OneWindow(Storage):
    """The count of one window, of whatever key: each limit has a storage of its own."""

    STORAGE_SCHEME = None

    def __init__(self, clock: Callable[[], float]) -> None:
        super().__init__()
        self._clock = clock
        self._count = 0
        self._ends = 0.0

    @property
    def base_exceptions(self) -> tuple[type[Exception], ...]:
        """What can go wrong: nothing."""
        return ()

    def incr(self, key: str, expiry: float, amount: int = 1) -> int:  # noqa: ARG002 - there is one
        """Count, in a window that lasts for so many seconds from its first request on."""
        now = self._clock()
        if now >= self._ends:
            self._ends = now + expiry
            self._count = 0
        self._count += amount
        return self._count

    def get(self, key: str) -> int:  # noqa: ARG002 - there is one
        """The count so far."""
        return self._count if self._clock() < self._ends else 0

    def get_expiry(self, key: str) -> float:  # noqa: ARG002 - there is one
        """When the window ends."""
        return self._ends

    def check(self) -> bool:
        """Whether it works."""
        return True

    def reset(self) -> int:
        """Begin anew."""
        self.clear("")
        return 1

    def clear(self, key: str) -> None:  # noqa: ARG002 - there is one
        """Begin anew."""
        self._ends = 0.0


class RateLimit:
    """A caller's limit. For one thread."""

    def __init__(self, requests_per_second: int, clock: Callable[[], float] = monotonic) -> None:
        self._item = RateLimitItemPerSecond(requests_per_second)
        self._limiter = FixedWindowRateLimiter(_OneWindow(clock))

    def has_room(self) -> bool:
        """Whether `take` would be granted now."""
        return self._limiter.test(self._item)

    def take(self) -> bool:
        """Whether one more request may be served now; if so, it is counted."""
        return self._limiter.hit(self._item)
