"""Long work cut into steps of about a millisecond, so that requests come through while an image is built or freed."""

import asyncio
from collections.abc import Callable, Iterable, Iterator
from time import perf_counter
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")

_STEP_S = 0.001
_REST_S = 0.002
_BUSY_S = 0.0003
_ENTRIES_BETWEEN = 16


class Pace:
    """Yields to the event loop once a millisecond, if `breathe` is called often enough.

    If others used that turn, requests are waiting: then a rest of two milliseconds follows (duty cycle).
    """

    def __init__(self) -> None:
        self._began = perf_counter()

    async def breathe(self) -> None:
        now = perf_counter()
        if now - self._began < _STEP_S:
            return
        await asyncio.sleep(0)
        if perf_counter() - now > _BUSY_S:
            await asyncio.sleep(_REST_S)
        self._began = perf_counter()


async def each_paced(entries: Iterable[T], make: Callable[[T], R]) -> list[R]:
    pace = Pace()
    made: list[R] = []
    for count, entry in enumerate(entries, 1):
        made.append(make(entry))
        if not count % _ENTRIES_BETWEEN:
            await pace.breathe()
    return made


async def run_through(steps: Iterator[None]) -> None:
    pace = Pace()
    for _ in steps:
        await pace.breathe()
