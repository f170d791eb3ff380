"""How many requests a second a caller may send to one process.

Each process counts for itself: with N processes, a caller gets N times as much. Windows of a second begin with a
request, so within any second a caller can send up to twice as much; sliding windows would prevent that, but take longer
on each request.
"""

from collections.abc import Callable
from time import monotonic

_WINDOW_S = 1.0


class RateLimit:
    """The limit of one caller; not thread-safe."""

    def __init__(self, requests_per_second: int, clock: Callable[[], float] = monotonic) -> None:
        self._most = requests_per_second
        self._clock = clock
        self._taken = 0
        self._ends_at = 0.0
        """When the window in which these were taken ends."""

    def has_room(self) -> bool:
        return self._taken < self._most or self._clock() >= self._ends_at

    def take(self) -> bool:
        now = self._clock()
        if now >= self._ends_at:
            self._taken, self._ends_at = 0, now + _WINDOW_S
        if self._taken >= self._most:
            return False
        self._taken += 1
        return True
