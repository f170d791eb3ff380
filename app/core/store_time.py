"""What time it is in the store, at most: from its clock at the last look, and a clock of this process's own.

The store's clock is read somewhere between a question and its answer. Counted from when the question was asked, the
result is never behind the store: what ends by it ends early by the time that the answer took, and never late. Two
clocks do not run alike, so the time since the look counts for a little more than it was.
"""

from datetime import UTC, datetime
from math import inf

_RATE = 1.0005
"""How much faster than this process's clock the store's may run: as much as a kernel slews one to correct it."""


class StoreTime:
    """Seconds since 1970. `clock` is what `at_most` and the others are asked for: it counts on while suspended."""

    __slots__ = ("_at", "_seconds")

    def __init__(self) -> None:
        self._seconds = inf
        self._at = 0.0

    @property
    def is_known(self) -> bool:
        return self._seconds < inf

    def looked(self, store_time: datetime, asked_at: float) -> None:
        """The answer to a question that was asked when `clock` was `asked_at`."""
        self._seconds, self._at = store_time.timestamp(), asked_at

    def answered(self, store_time: datetime, asked_at: float, answered_at: float) -> None:
        """As `looked`; an answer that was long on its way is left out where the count before it is closer."""
        known, seconds = self.at_most(answered_at), store_time.timestamp()
        if seconds > known or seconds + (answered_at - asked_at) * _RATE < known:
            self.looked(store_time, asked_at)

    def heard(self, store_time: datetime, heard_at: float) -> None:
        """What a stream said, whenever that was: it can only be later by now, so it never takes the time back."""
        if store_time.timestamp() > self.at_most(heard_at):
            self.looked(store_time, heard_at)

    def at_most(self, clock: float) -> float:
        """Infinity before the first look: then it may be any time."""
        return self._seconds + max(0.0, clock - self._at) * _RATE

    def clock_at(self, second: float) -> float:
        """When `at_most` reaches this time of the store."""
        return self._at + (second - self._seconds) / _RATE

    def shown(self, clock: float) -> datetime | None:
        """The same as `at_most`; None before the first look."""
        return datetime.fromtimestamp(self.at_most(clock), UTC) if self.is_known else None
