"""Regions that nest: the names that resource patterns cover, and the clients that hosts cover, as keys (KIP-290).

One key is a prefix of another if and only if its pattern covers the other's. So a set of keys is a tree, and each key
stands for a region: all that it covers, without what the keys below it cover.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain
from typing import TypeVar

from app.core.kafka.bindings import AclBinding
from app.core.kafka.codes import WILDCARD, AclOperation, PatternType

EVERYTHING = ""
_END = "\0"
_FIRST_LETTERS = "xabcdefghijklmnopqrstuvwyz0123456789"
_SURROGATES = range(0xD800, 0xE000)
_CODE_POINTS = 0x110000

V = TypeVar("V")


@dataclass(frozen=True, slots=True)
class Region:
    """What a key covers, without what the keys of `holes` cover."""

    key: str
    holes: tuple[str, ...] = ()


@dataclass(slots=True)
class Node:
    """A key in the tree of its set; `below` are the keys right below it."""

    key: str
    parent: "Node | None"
    below: list[str] = field(default_factory=list)

    @property
    def region(self) -> Region:
        return Region(self.key, tuple(self.below))


def name_key(pattern_type: PatternType, name: str) -> str:
    """The key of a resource pattern. A literal's has an end that no name can hold: U+0000 is refused in names."""
    if pattern_type is PatternType.PREFIXED:
        return name
    return EVERYTHING if name == WILDCARD else key_of_name(name)


def acl_key(acl: AclBinding) -> str:
    return name_key(acl.pattern_type, acl.resource_name)


def key_of_name(name: str) -> str:
    """The key of one resource name, which may be `*`."""
    return name + _END


def pattern_of(key: str) -> tuple[PatternType, str]:
    if key == EVERYTHING:
        return PatternType.LITERAL, WILDCARD
    return (PatternType.LITERAL, key[:-1]) if key.endswith(_END) else (PatternType.PREFIXED, key)


def name_within(region: Region) -> str:
    """A resource name of the region. There always is one: names are many more than patterns."""
    key = region.key
    if key.endswith(_END):
        return key[:-1]
    if key and key + _END not in region.holes:
        return key
    taken = {hole[len(key)] for hole in region.holes}
    others = (chr(code) for code in range(1, _CODE_POINTS) if code not in _SURROGATES)
    return key + next(letter for letter in chain(_FIRST_LETTERS, others) if letter not in taken)


def tree(keys: Iterable[str]) -> list[Node]:
    nodes: list[Node] = []
    above: list[Node] = []
    for key in sorted(set(keys)):
        while above and not key.startswith(above[-1].key):
            above.pop()
        parent = above[-1] if above else None
        if parent is not None:
            parent.below.append(key)
        nodes.append(Node(key, parent))
        above.append(nodes[-1])
    return nodes


def coalesced(values: Mapping[str, V]) -> list[tuple[Region, V]]:
    """The widest regions that have one value each: no region lies next to one of the same value.

    `values` is what holds for each key without those below it, and must know EVERYTHING.
    """
    kept: list[tuple[str, V, list[str]]] = []
    above: list[tuple[str, V, list[str]]] = []
    for key in sorted(values):
        while above and not key.startswith(above[-1][0]):
            above.pop()
        if above:
            if above[-1][1] == values[key]:
                continue
            above[-1][2].append(key)
        above.append((key, values[key], []))
        kept.append(above[-1])
    return [(Region(key, tuple(holes)), value) for key, value, holes in kept]


class Nested:
    def __init__(self, keys: Iterable[str] = ()) -> None:
        self.keys = frozenset(keys)
        self._sorted = sorted(self.keys)
        self._lengths = sorted({len(key) for key in self.keys if not key.endswith(_END)})

    def below(self, key: str) -> Iterator[str]:
        at = bisect_left(self._sorted, key)
        while at < len(self._sorted) and self._sorted[at].startswith(key):
            yield self._sorted[at]
            at += 1

    def count_below(self, key: str) -> int:
        """About how many keys `below` gives."""
        return bisect_left(self._sorted, key + chr(_CODE_POINTS - 1)) - bisect_left(self._sorted, key)

    def above(self, key: str) -> Iterator[str]:
        for length in self._lengths:
            if length <= len(key) and key[:length] in self.keys:
                yield key[:length]

    def meets(self, key: str) -> bool:
        """Whether any of the keys covers this one, or is covered by it."""
        at = bisect_left(self._sorted, key)
        if at < len(self._sorted) and self._sorted[at].startswith(key):
            return True
        for length in self._lengths:  # noqa: SIM110 - asked of every pattern of a store; mostly there are no lengths
            if key[:length] in self.keys:
                return True
        return False


ASKED_OPERATIONS = tuple(each for each in AclOperation if each > AclOperation.ALL)
Answers = tuple[tuple[str, int, int], ...]
"""By the keys of hosts: the operations that are gained, and those that are lost, as bits; empty if there are none."""

_Changes = tuple[tuple[Region, bool], ...]
"""For one operation, regions of clients and whether they gain it."""


@dataclass(frozen=True, slots=True)
class Cell:
    """A change of access of one principal: operations, as bits, that it gains or loses on names, from clients."""

    gained: bool
    names: Region
    hosts: Region
    operations: int


def cells_of(answers: Mapping[str, Answers]) -> list[Cell]:
    """The widest regions for each operation; operations with equal regions share a cell."""
    known: dict[tuple[Answers, int], _Changes] = {}
    cells: defaultdict[tuple[bool, Region, Region], int] = defaultdict(int)
    moved = {bits for each in answers.values() for _, *both in each for bits in both}
    for operation in ASKED_OPERATIONS:
        if not any(bits >> operation & 1 for bits in moved):
            continue
        changes: dict[str, _Changes] = {}
        for names, each in answers.items():
            if (each, operation) not in known:
                known[each, operation] = _of_operation(each, operation)
            changes[names] = known[each, operation]
        for region, some in coalesced(changes):
            for hosts, gained in some:
                cells[gained, region, hosts] |= 1 << operation
    return [Cell(gained, names, hosts, bits) for (gained, names, hosts), bits in cells.items()]


def _of_operation(answers: Answers, operation: int) -> _Changes:
    ways = {key: (gained >> operation & 1) - (lost >> operation & 1) for key, gained, lost in answers}
    return tuple((hosts, way > 0) for hosts, way in coalesced(ways) if way) if ways else ()
