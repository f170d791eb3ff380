"""How many requests a second a caller may send to one process.

Each process counts for itself: with N processes, a caller gets N times as much. Windows of a second begin with a
request, so within any second a caller can send up to twice as much; sliding windows would prevent that, but take longer
on each request.
"""

_WINDOW_S = 1.0


class RateLimit:
    """The limit of one caller; not thread-safe. `now` is on the clock of `time.perf_counter`."""

    def __init__(self, requests_per_second: int) -> None:
        self._most = requests_per_second
        self._taken = 0
        self._ends_at = 0.0
        """When the window in which these were taken ends."""

    def has_room(self, now: float) -> bool:
        return self._taken < self._most or now >= self._ends_at

    def take(self, now: float) -> bool:
        if now >= self._ends_at:
            self._taken, self._ends_at = 0, now + _WINDOW_S
        if self._taken >= self._most:
            return False
        self._taken += 1
        return True
