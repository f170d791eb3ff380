"""Turns: of those who ask, one at a time, in the order in which they asked."""

import asyncio
import logging
from collections import deque

_log = logging.getLogger(__name__)


class Turns:
    """`take` waits for the turn of a process, `end` gives it up: a turn had, a wait for one, or nothing at all.

    A turn that lasts longer than `longest_s` does not hold up the next one any more.
    """

    def __init__(self, longest_s: float) -> None:
        self._longest_s = longest_s
        self._holder: int | None = None
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()
        self._limit: asyncio.TimerHandle | None = None

    async def take(self, who: int) -> None:
        """Return when it is this process' turn."""
        if self._holder is None:
            self._begin(who)
            return
        granted: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((who, granted))
        await granted

    def end(self, who: int) -> None:
        """Take this process out of the line, wherever it stands."""
        for entry in [entry for entry in self._waiting if entry[0] == who]:
            self._waiting.remove(entry)
            entry[1].cancel()
        if self._holder == who:
            self._next()

    def _begin(self, who: int) -> None:
        self._holder = who
        self._limit = asyncio.get_running_loop().call_later(self._longest_s, self._overdue, who)

    def _overdue(self, who: int) -> None:
        _log.warning("load_takes_long", extra={"worker": who, "longer_than_s": self._longest_s})
        self._next()

    def _next(self) -> None:
        if self._limit is not None:
            self._limit.cancel()
        self._holder = self._limit = None
        while self._waiting:
            who, granted = self._waiting.popleft()
            if not granted.done():
                self._begin(who)
                granted.set_result(None)
                return
