"""Long work cut into steps of about a millisecond, so that requests come through while an image is built or freed."""

import asyncio
import time
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")

_STEP_S = 0.001
_REST_S = 0.002
_BUSY_S = 0.0003
_ENTRIES_BETWEEN = 16


class Pace:
    """Whoever works calls `breathe` often; once a millisecond it gives the event loop away.

    If others used that turn, requests are waiting: then a rest of two milliseconds follows (duty cycle).
    """

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        self._began = clock()

    async def breathe(self) -> None:
        """Let others run if this step has had its time."""
        now = self._clock()
        if now - self._began < _STEP_S:
            return
        await asyncio.sleep(0)
        if self._clock() - now > _BUSY_S:
            await asyncio.sleep(_REST_S)
        self._began = self._clock()


async def each_paced(entries: Iterable[T], make: Callable[[T], R]) -> list[R]:
    """What `make` makes of each entry; ten thousand of them take long enough to breathe in between."""
    pace = Pace()
    made: list[R] = []
    for count, entry in enumerate(entries, 1):
        made.append(make(entry))
        if not count % _ENTRIES_BETWEEN:
            await pace.breathe()
    return made


async def run_through(steps: Iterator[None]) -> None:
    """Take every step, breathing between them."""
    pace = Pace()
    for _ in steps:
        await pace.breathe()
