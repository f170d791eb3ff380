"""The seconds at which ALLOWs of an index end, the earliest first."""

from heapq import heappop, heappush

_AT_ONCE = 1_000


class Ends:
    """Seconds since 1970 that have not passed. Some may no longer be the end of any ACL, which does no harm."""

    __slots__ = ("_known", "heap")

    def __init__(self) -> None:
        self.heap: list[int] = []
        """Empty if nothing is left to end. Read for each request, so without a call."""
        self._known: set[int] = set()

    def add(self, second: int) -> None:
        if second not in self._known:
            self._known.add(second)
            heappush(self.heap, second)

    @property
    def first(self) -> int | None:
        return self.heap[0] if self.heap else None

    def passed(self, now: float) -> None:
        """Forgets ends that have passed; only a part if they are many, so that `first` may have passed too."""
        heap, left = self.heap, _AT_ONCE
        while heap and heap[0] <= now and left:
            self._known.discard(heappop(heap))
            left -= 1
