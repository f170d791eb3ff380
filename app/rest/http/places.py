"""Who may stay when more connect than a process may keep: those whose requests come from known callers.

A connection is a stranger's until a request of a known caller has been answered on it. Whoever has credentials uses
them at once, so strangers make room for whoever comes: first those who came first. Only once there is no stranger to
make room, a connection is one too many. It may ask how the service is; so that it can, there is a bound on those, too.
"""

from collections import OrderedDict
from typing import Protocol

_MOST_SURPLUS = 128
_MOST_LOOKS = 32
"""To look at all strangers for each that comes would be work that strangers cause."""


class Occupant(Protocol):
    """What is asked of a connection that may have to go."""

    def is_busy(self) -> bool:
        """Whether a request is being answered."""

    def abort(self) -> None:
        """Be gone."""


class Places:
    """The places for connections of one process."""

    def __init__(self, maximum: int) -> None:
        self.maximum = maximum
        self._kept: set[Occupant] = set()
        # By their age, except that those found busy count as new.
        self._strangers: OrderedDict[Occupant, None] = OrderedDict()
        """Of those that are kept."""
        self._surplus: OrderedDict[Occupant, None] = OrderedDict()

    def is_full(self) -> bool:
        """Whether one more has no place of its own."""
        return len(self._kept) >= self.maximum

    def take(self, one: Occupant) -> bool:
        """Give a new connection a place; False if it is one too many, or was ended at once."""
        if not self.is_full() or self._ends_one_of(self._strangers):
            self._kept.add(one)
            self._strangers[one] = None
            return True
        if len(self._surplus) < _MOST_SURPLUS or self._ends_one_of(self._surplus):
            self._surplus[one] = None
        else:
            one.abort()
        return False

    def keep(self, one: Occupant) -> None:
        """Know that a known caller uses this one."""
        self._strangers.pop(one, None)

    def leave(self, one: Occupant) -> None:
        """Give its place back, if it has one."""
        self._kept.discard(one)
        self._strangers.pop(one, None)
        self._surplus.pop(one, None)

    def _ends_one_of(self, group: OrderedDict[Occupant, None]) -> bool:
        for _ in range(min(_MOST_LOOKS, len(group))):
            one = next(iter(group))
            if not one.is_busy():
                # Its place is free from now on; that it is lost will be known a turn later.
                self.leave(one)
                one.abort()
                return True
            group.move_to_end(one)
        return False
