"""When a worker that has ended is started again, and when there is no use in it any more."""

import random
from collections import Counter, defaultdict
from collections.abc import Callable

from app.core.backoff import Backoff

FIRST_REST_S = 0.2
LONGEST_REST_S = 30.0
IN_VAIN = 5
"""A worker that ends so many times in a row before its first load is complete ends so always."""


class Restarts:
    """Rests before a worker's next start: they double, with jitter, with each life shorter than the longest rest."""

    def __init__(self, jitter: Callable[[float, float], float] = random.uniform) -> None:
        self._backoffs = defaultdict[int, Backoff](lambda: Backoff(FIRST_REST_S, LONGEST_REST_S, jitter))
        self._in_vain: Counter[int] = Counter()

    def became_ready(self) -> None:
        """Know that a worker has completed its first load: so starting works."""
        self._in_vain.clear()

    def rest_s(self, worker: int, lived_s: float, *, was_ready: bool) -> float:
        """How long to wait before this worker, which has just ended, is started again."""
        if not was_ready:
            self._in_vain[worker] += 1
        if lived_s > LONGEST_REST_S:
            self._backoffs[worker].reset()
        return self._backoffs[worker].next_s()

    def in_vain(self, worker: int) -> bool:
        """Whether it has ended again and again before any worker became ready."""
        return self._in_vain[worker] >= IN_VAIN
