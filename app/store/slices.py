"""Long work in short pieces, so that the event loop is never blocked."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import TypeVar

T = TypeVar("T")

SLICE = 200
"""Items of a few microseconds each: a piece takes a millisecond or two."""


async def in_slices(items: Sequence[T]) -> AsyncIterator[Sequence[T]]:
    """The items in pieces of at most SLICE, with a turn for the event loop between two pieces."""
    for start in range(0, len(items), SLICE):
        if start:
            await asyncio.sleep(0)
        yield items[start : start + SLICE]


class Pace:
    """Gives the event loop a turn after every SLICE items, where work comes in lists of any length."""

    def __init__(self) -> None:
        self._items = 0

    async def worked(self, items: int) -> None:
        """To be called after each list, with its length."""
        self._items += items
        if self._items >= SLICE:
            self._items = 0
            await asyncio.sleep(0)
