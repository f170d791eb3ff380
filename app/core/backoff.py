"""How long to wait before each further try."""

from collections.abc import Callable

_MAX_DOUBLINGS = 16


class Backoff:
    """Waits that double from `first_s` to `longest_s`.

    `jitter` draws each from its upper half, so that clients that failed together don't return together.
    """

    def __init__(self, first_s: float, longest_s: float, jitter: Callable[[float, float], float] = max) -> None:
        self._first_s = first_s
        self._longest_s = longest_s
        self._jitter = jitter
        self._tries = 0

    def next_s(self) -> float:
        wait = min(self._longest_s, self._first_s * (1 << self._tries))
        self._tries = min(self._tries + 1, _MAX_DOUBLINGS)
        return self._jitter(wait / 2, wait)

    def reset(self) -> None:
        self._tries = 0
