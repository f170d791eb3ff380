"""The store's time, at most: from its clock when it was last read, and a clock of this process.

The store's clock is read at some time between a question and its answer. Counted from when the question was asked, the
result is never behind the store: what ends by it ends early by the time that the answer took, and never late. No two
clocks run alike, so the time since then counts for a little more than it was. Of several answers the one that took
least is the closest.
"""

from collections import deque
from datetime import UTC, datetime
from math import inf

RECENT_S = 30.0
"""For so long a quick answer counts instead of slower ones. Not longer, as a store's clock that is set forward by less
than slow answers take does not show in them.
"""
_RATE = 1.0005
"""How much faster than this process's clock the store's may run: as much as a kernel slews one to correct it."""
_RESOLUTION_S = 2e-6
"""A time since 1970 is in microseconds, and a float of it is no finer."""


class StoreTime:
    """Seconds since 1970. `clock` is this process's time for each call, from a clock that counts on while suspended.

    Who polls calls `polled`, who follows a stream `answered` and `heard`.
    """

    __slots__ = ("_at", "_recent", "_seconds")

    def __init__(self) -> None:
        self._seconds = inf
        self._at = 0.0
        self._recent: deque[tuple[float, float]] = deque()
        """Polls, oldest first: when each was asked, and the store's time. Each gives a later time than those before."""

    @property
    def is_known(self) -> bool:
        return self._seconds < inf

    def looked(self, store_time: datetime, asked_at: float) -> None:
        """Takes the answer to a question that was asked when `clock` was `asked_at`."""
        self._seconds, self._at = store_time.timestamp(), asked_at

    def polled(self, store_time: datetime, asked_at: float, answered_at: float) -> None:
        """Takes the answer to one of many questions: of those of the last seconds, the closest."""
        seconds, recent = store_time.timestamp(), self._recent
        if seconds > self.at_most(answered_at) + _RESOLUTION_S:
            # The store's clock was set forward, or this one stood still.
            recent.clear()
        while recent and recent[-1][1] + (asked_at - recent[-1][0]) * _RATE >= seconds:
            recent.pop()
        recent.append((asked_at, seconds))
        while recent[0][0] < asked_at - RECENT_S:
            recent.popleft()
        self._at, self._seconds = recent[0]

    def answered(self, store_time: datetime, asked_at: float, answered_at: float) -> None:
        """As `looked`; an answer that took long is left out if the earlier count is closer."""
        known, seconds = self.at_most(answered_at), store_time.timestamp()
        if seconds > known + _RESOLUTION_S or seconds + (answered_at - asked_at) * _RATE < known:
            self.looked(store_time, asked_at)

    def heard(self, store_time: datetime, heard_at: float) -> None:
        """Takes what a stream said, whenever that was: it can only be later by now, so time never goes back."""
        if store_time.timestamp() > self.at_most(heard_at):
            self.looked(store_time, heard_at)

    def at_most(self, clock: float) -> float:
        """Infinity before the first answer, as it may be any time."""
        return self._seconds + max(0.0, clock - self._at) * _RATE

    def clock_at(self, second: float) -> float:
        """When `at_most` reaches this time of the store."""
        return self._at + (second - self._seconds) / _RATE

    def shown(self, clock: float) -> datetime | None:
        """The same as `at_most`; None before the first answer."""
        return datetime.fromtimestamp(self.at_most(clock), UTC) if self.is_known else None
