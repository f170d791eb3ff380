"""Containers laid over others for one transaction: they take its changes, and the base containers stay as they are.

The base is read in place and never copied whole. At the end `Changes` holds the transaction's effect as plain
assignments, and makes them all at once.
"""

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, MutableMapping
from typing import Any, Generic, TypeVar

from app.core.index.containers import ShardedDict, Slots, SortedNames

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

_AT_ONCE = 50
_ABSENT: Any = object()


class Overlay:
    """Covers `base` until the changes are carried out.

    INVARIANT: overlays are kept in overlays only; what is assigned to a base is the value `beneath`.
    """

    base: Any

    def settle(self, changes: "Changes") -> None:
        raise NotImplementedError


def beneath(value: V) -> V:
    if not isinstance(value, Overlay):
        return value
    base: V = value.base
    return base


class Changes:
    """The assignments of a transaction: gathered in short steps, made in one."""

    def __init__(self) -> None:
        self._overlays: list[Overlay] = []
        self._updates: list[tuple[MutableMapping[Any, Any], Mapping[Any, Any]]] = []
        self._deletions: list[tuple[MutableMapping[Any, Any], set[Any]]] = []
        self._slots: list[tuple[Slots[Any], int, object]] = []
        self._attributes: list[tuple[object, str, object]] = []
        self._outworn: list[object] = []

    def expect(self, overlay: Overlay) -> None:
        self._overlays.append(overlay)

    def update(self, base: MutableMapping[K, V], entries: Mapping[K, V], gone: set[K]) -> None:
        # What is replaced or removed is kept until readers have had their turn: freeing it takes time.
        if entries:
            self._updates.append((base, entries))
            self._outworn.extend(map(base.get, entries))
        if gone:
            self._deletions.append((base, gone))
            self._outworn.extend(map(base.get, gone))

    def slot(self, base: Slots[V], at: int, value: V) -> None:
        self._slots.append((base, at, value))
        self._outworn.append(base[at])

    def attribute(self, base: object, name: str, value: object) -> None:
        self._attributes.append((base, name, value))
        self._outworn.append(getattr(base, name))

    def keep(self, outworn: Iterable[object]) -> None:
        self._outworn.extend(outworn)

    def settle(self) -> Iterator[None]:
        for number, overlay in enumerate(self._overlays):
            overlay.settle(self)
            if number % _AT_ONCE == 0:
                yield

    def carry_out(self) -> None:
        """Make every assignment. None can fail: all keys and slots were seen when the changes were gathered."""
        for base, entries in self._updates:
            base.update(entries)
        for base, gone in self._deletions:
            for key in gone:
                del base[key]
        for slots, at, value in self._slots:
            slots[at] = value
        for thing, name, value in self._attributes:
            setattr(thing, name, value)

    def free(self) -> Iterator[None]:
        # Overlays go in the order in which they came: those inside others go after them, one by one.
        self._overlays.reverse()
        parts: tuple[list[Any], ...] = (
            self._overlays, self._outworn, self._updates, self._deletions, self._slots, self._attributes
        )  # fmt: skip
        for part in parts:
            while part:
                del part[-_AT_ONCE:]
                yield


class OverlayDict(Overlay, MutableMapping[K, V]):
    """Over a dictionary. `over` puts an overlay over a value that would be changed in place."""

    def __init__(
        self, base: MutableMapping[K, V], changes: Changes, over: Callable[[V, Changes], V] | None = None
    ) -> None:
        self.base: MutableMapping[K, V] = base
        self._changes = changes
        self._over = over
        self._set: dict[K, V] = {}
        self._gone: set[K] = set()
        self._length = len(base)
        changes.expect(self)

    def get(self, key: K, default: Any = None) -> Any:  # noqa: ANN401 (as Mapping.get)
        """The same as `dict.get`, but a value that can be changed in place comes with its overlay."""
        value = self._set.get(key, _ABSENT)
        if value is not _ABSENT:
            return value
        value = _ABSENT if key in self._gone else self.base.get(key, _ABSENT)
        if value is _ABSENT:
            return default
        if self._over is None:
            return value
        over = self._over(value, self._changes)
        if over is not value:
            self._set[key] = over
        return over

    def __getitem__(self, key: K) -> V:
        value: V = self.get(key, _ABSENT)
        if value is _ABSENT:
            raise KeyError(key)
        return value

    def __contains__(self, key: object) -> bool:
        return key in self._set or (key not in self._gone and key in self.base)

    def __setitem__(self, key: K, value: V) -> None:
        self._length += key not in self
        self._gone.discard(key)
        self._set[key] = value

    def __delitem__(self, key: K) -> None:
        if key not in self:
            raise KeyError(key)
        self._length -= 1
        self._set.pop(key, None)
        if key in self.base:
            self._gone.add(key)

    def __iter__(self) -> Iterator[K]:
        yield from self._set
        for key in self.base:
            if key not in self._set and key not in self._gone:
                yield key

    def __len__(self) -> int:
        return self._length

    def settle(self, changes: Changes) -> None:
        entries = self._set
        if self._over is not None:
            entries = {key: beneath(value) for key, value in entries.items()}
        changes.update(self.base, entries, self._gone)


class OverlayShards(ShardedDict[K, V]):
    def __init__(
        self, base: ShardedDict[K, V], changes: Changes, over: Callable[[V, Changes], V] | None = None
    ) -> None:
        self.shards = [OverlayDict(shard, changes, over) for shard in base.shards]


class OverlaySlots(Overlay, Generic[V]):
    """Over slots. A slot that is read counts as changed: `over` puts an overlay over its value."""

    def __init__(self, base: Slots[V], changes: Changes, over: Callable[[V, Changes], V]) -> None:
        self.base: Slots[V] = base
        self._changes = changes
        self._over = over
        self._set: dict[int, V] = {}
        changes.expect(self)

    def __getitem__(self, at: int) -> V:
        if at not in self._set:
            self._set[at] = self._over(self.base[at], self._changes)
        return self._set[at]

    def __setitem__(self, at: int, value: V) -> None:
        self._set[at] = value

    def __iter__(self) -> Iterator[V]:
        return (self._set.get(at, value) for at, value in enumerate(self.base))

    def settle(self, changes: Changes) -> None:
        for at, over in self._set.items():
            value = beneath(over)
            if value is not self.base[at]:
                changes.slot(self.base, at, value)


class OverlayNames(Overlay, SortedNames):
    """Over sorted names: shares their blocks, and copies those that it changes."""

    def __init__(self, base: SortedNames, changes: Changes) -> None:
        self.base = base
        self.blocks = list(base.blocks)
        self.lasts = list(base.lasts)
        self._own: dict[int, list[str]] = {}
        self._replaced: list[list[str]] = []
        changes.expect(self)

    def settle(self, changes: Changes) -> None:
        if self._own:
            changes.keep(self._replaced)
            changes.attribute(self.base, "blocks", self.blocks)
            changes.attribute(self.base, "lasts", self.lasts)

    def _to_change(self, at: int) -> list[str]:
        block = self.blocks[at]
        if id(block) not in self._own:
            self._replaced.append(block)
            block = self.blocks[at] = list(block)
            self._own[id(block)] = block
        return block
