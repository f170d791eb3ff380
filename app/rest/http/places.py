"""Which connections stay when more clients connect than a process may keep: those of known callers.

A connection is a stranger's until a request of a known caller has been answered on it. Clients with credentials use
them at once, so strangers make room for new connections, oldest first. When there are no strangers left, a new
connection is surplus: it may only send probes, and there is a bound on surplus connections, too.
"""

from collections import OrderedDict
from typing import Protocol

from app.rest.http.bounds import MAX_SURPLUS

_MAX_LOOKS = 32
"""To look at all strangers for each new connection would be work that strangers cause."""


class Connection(Protocol):
    """What all connections must be able to do."""

    deadline: float
    """On the clock of `time.monotonic`."""

    def time_out(self) -> None: ...

    def drain(self) -> None:
        """Make the reply under way the last one."""

    def is_busy(self) -> bool:
        """Whether it answers a request of a client that reads."""

    def abort(self) -> None: ...


class Places:
    def __init__(self, maximum: int) -> None:
        self.maximum = maximum
        self._kept: set[Connection] = set()
        # Oldest first, except that busy ones are moved to the end.
        self._strangers: OrderedDict[Connection, None] = OrderedDict()
        """Those of the kept ones that no known caller uses."""
        self._surplus: OrderedDict[Connection, None] = OrderedDict()

    def is_full(self) -> bool:
        return len(self._kept) >= self.maximum

    def take(self, one: Connection) -> bool:
        """Give a new connection a place; False if it is surplus, or was aborted."""
        if not self.is_full() or self._abort_one_of(self._strangers):
            self._kept.add(one)
            self._strangers[one] = None
            return True
        if len(self._surplus) < MAX_SURPLUS or self._abort_one_of(self._surplus):
            self._surplus[one] = None
        else:
            one.abort()
        return False

    def keep(self, one: Connection) -> None:
        """A known caller uses this connection."""
        self._strangers.pop(one, None)

    def leave(self, one: Connection) -> None:
        self._kept.discard(one)
        self._strangers.pop(one, None)
        self._surplus.pop(one, None)

    def _abort_one_of(self, group: OrderedDict[Connection, None]) -> bool:
        for _ in range(min(_MAX_LOOKS, len(group))):
            one = next(iter(group))
            if not one.is_busy():
                # Its place is free now; `connection_lost` comes a turn later.
                self.leave(one)
                one.abort()
                return True
            group.move_to_end(one)
        return False
