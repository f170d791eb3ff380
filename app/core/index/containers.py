"""Two containers whose single operations stay short, however much they hold.

A dictionary of a million keys stops the process for tens of milliseconds when it is resized or freed; these never do.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Hashable, Iterator, MutableMapping
from typing import Generic, Protocol, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

_SHARDS = 256
_BLOCK = 512


class Slots(Protocol[V]):
    def __getitem__(self, at: int, /) -> V: ...

    def __setitem__(self, at: int, value: V, /) -> None: ...

    def __iter__(self) -> Iterator[V]: ...


class ShardedDict(Generic[K, V]):
    """A dictionary kept in parts, so that resizing one takes little time."""

    __slots__ = ("shards",)

    def __init__(self) -> None:
        self.shards: list[MutableMapping[K, V]] = [{} for _ in range(_SHARDS)]

    def get(self, key: K) -> V | None:
        return self.shards[hash(key) & 255].get(key)

    def put(self, key: K, value: V) -> None:
        self.shards[hash(key) & 255][key] = value

    def remove(self, key: K) -> None:
        del self.shards[hash(key) & 255][key]

    def items(self) -> Iterator[tuple[K, V]]:
        for shard in self.shards:
            yield from shard.items()

    def __len__(self) -> int:
        return sum(map(len, self.shards))

    def dismantle(self) -> Iterator[None]:
        while self.shards:
            self.shards.pop().clear()
            yield


class SortedNames:
    """Distinct strings in code point order, in blocks: adding in order is an append, elsewhere a short shift."""

    __slots__ = ("blocks", "lasts")

    def __init__(self) -> None:
        self.blocks: list[list[str]] = []
        self.lasts: list[str] = []

    def add(self, name: str) -> None:
        at = bisect_left(self.lasts, name)
        if at == len(self.blocks):
            if not self.blocks or len(self.blocks[-1]) >= _BLOCK:
                self.blocks.append([])
                self.lasts.append(name)
            at = len(self.blocks) - 1
        block = self._to_change(at)
        block.insert(bisect_left(block, name), name)
        self.lasts[at] = block[-1]
        if len(block) >= 2 * _BLOCK:
            self.blocks[at : at + 1] = [block[:_BLOCK], block[_BLOCK:]]
            self.lasts[at : at + 1] = [block[_BLOCK - 1], block[-1]]

    def remove(self, name: str) -> None:
        at = bisect_left(self.lasts, name)
        block = self._to_change(at)
        del block[bisect_left(block, name)]
        if block:
            self.lasts[at] = block[-1]
        else:
            del self.blocks[at], self.lasts[at]

    def first(self, count: int, after: str | None, *, including: bool) -> list[str]:
        """At most `count` names in order, behind `after` (or from it on, if `including`); None: from the start."""
        at = 0 if after is None else bisect_left(self.lasts, after)
        names: list[str] = []
        while at < len(self.blocks) and len(names) < count:
            block = self.blocks[at]
            start = 0
            if after is not None:
                start = bisect_left(block, after) if including else bisect_right(block, after)
            names += block[start : start + count - len(names)]
            at += 1
        return names

    def __len__(self) -> int:
        return sum(map(len, self.blocks))

    def dismantle(self) -> Iterator[None]:
        while self.blocks:
            del self.blocks[-4:], self.lasts[-4:]
            yield

    def _to_change(self, at: int) -> list[str]:
        return self.blocks[at]
