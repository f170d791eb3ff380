"""Two plain containers whose single steps stay short however much they hold.

A dictionary of a million keys stops the process for tens of milliseconds when it grows or goes; these never do.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from typing import Generic, TypeVar

V = TypeVar("V")

_SHARDS = 256
_BLOCK = 512


class ShardedDict(Generic[V]):
    """A dictionary by string, kept in parts so that no part's resizing is felt."""

    __slots__ = ("_shards",)

    def __init__(self) -> None:
        self._shards: list[dict[str, V]] = [{} for _ in range(_SHARDS)]

    def get(self, key: str) -> V | None:
        """The value under this key, or None."""
        return self._shards[hash(key) & 255].get(key)

    def put(self, key: str, value: V) -> None:
        """Set the value under this key."""
        self._shards[hash(key) & 255][key] = value

    def remove(self, key: str) -> None:
        """Take out a key that is there. Raises KeyError if it is not."""
        del self._shards[hash(key) & 255][key]

    def items(self) -> Iterator[tuple[str, V]]:
        """Every key and value, in no order."""
        for shard in self._shards:
            yield from shard.items()

    def __len__(self) -> int:
        return sum(map(len, self._shards))

    def dismantle(self) -> Iterator[None]:
        """Free the parts one by one; the container is of no use afterwards."""
        while self._shards:
            self._shards.pop().clear()
            yield


class SortedNames:
    """Distinct strings in code point order, in blocks: adding in order is an append, elsewhere a short shift."""

    __slots__ = ("_blocks", "_lasts")

    def __init__(self) -> None:
        self._blocks: list[list[str]] = []
        self._lasts: list[str] = []

    def add(self, name: str) -> None:
        """Add a name that is not there yet."""
        at = bisect_left(self._lasts, name)
        if at == len(self._blocks):
            if not self._blocks or len(self._blocks[-1]) >= _BLOCK:
                self._blocks.append([])
                self._lasts.append(name)
            at = len(self._blocks) - 1
        block = self._blocks[at]
        block.insert(bisect_left(block, name), name)
        self._lasts[at] = block[-1]
        if len(block) >= 2 * _BLOCK:
            self._blocks[at : at + 1] = [block[:_BLOCK], block[_BLOCK:]]
            self._lasts[at : at + 1] = [block[_BLOCK - 1], block[-1]]

    def remove(self, name: str) -> None:
        """Take out a name that is there."""
        at = bisect_left(self._lasts, name)
        block = self._blocks[at]
        del block[bisect_left(block, name)]
        if block:
            self._lasts[at] = block[-1]
        else:
            del self._blocks[at], self._lasts[at]

    def first(self, count: int, after: str | None, *, including: bool) -> list[str]:
        """At most `count` names in order, behind `after` (or from it on, if `including`); None: from the start."""
        at = 0 if after is None else bisect_left(self._lasts, after)
        names: list[str] = []
        while at < len(self._blocks) and len(names) < count:
            block = self._blocks[at]
            start = 0
            if after is not None:
                start = bisect_left(block, after) if including else bisect_right(block, after)
            names += block[start : start + count - len(names)]
            at += 1
        return names

    def __len__(self) -> int:
        return sum(map(len, self._blocks))

    def dismantle(self) -> Iterator[None]:
        """Free the blocks some at a time; the container is of no use afterwards."""
        while self._blocks:
            del self._blocks[-4:], self._lasts[-4:]
            yield
