"""The ACLs of a set of groups, merged, so that 200 groups cost a decision little more than one principal does.

A set that is asked with again is merged a little with each question, so that no question takes long. Until a group is
merged, it is searched by itself.
"""

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from itertools import islice
from operator import attrgetter

from app.core.groups import Groups
from app.core.index.masks import Entry, HostMasks
from app.core.index.tree import TYPES, AclIndex, TypeNode
from app.core.kafka.hosts import ClientAddress

_FEW = 2
"""Up to this many nodes are as cheap to search as one merged node."""
_AT_ONCE = 64
_MOST_MERGED = 50_000
"""Entries merged for one set and type. Groups that would go beyond it stay apart, the largest ones first."""
_MOST_KEPT = 200_000
"""Entries merged in all: this many are freed in a few milliseconds."""
_MOST_SETS = 1_024


class _JoinedMasks(HostMasks):
    """The masks of several groups on one pattern, some of which depend on the client's address."""

    __slots__ = ("parts",)

    def __init__(self, any_host: int, parts: tuple[HostMasks, ...]) -> None:
        super().__init__(any_host)
        self.parts = parts

    def at(self, address: ClientAddress) -> int:
        if self.asked is not address:
            mask = self.any_host
            for each in self.parts:
                mask |= each.at(address)
            self.asked, self.asked_mask = address, mask
        return self.asked_mask


class _UnionOfType:
    """`parts` are nodes that together hold every ACL of the groups on one type of resources."""

    __slots__ = ("_apart", "_merged", "_merging", "_rest", "_was_asked", "parts")

    def __init__(self, nodes: Sequence[TypeNode]) -> None:
        self._merged = TypeNode()
        self._merging: Iterator[tuple[int, str, Entry]] | None = None
        self._apart: list[TypeNode] = []
        self._rest: list[TypeNode] = []
        self._was_asked = False
        self.parts = tuple(nodes)
        if len(nodes) > _FEW:
            room = _MOST_MERGED
            for node in sorted(nodes, key=attrgetter("size")):
                room -= node.size
                (self._rest if room >= 0 else self._apart).append(node)

    @property
    def is_merged(self) -> bool:
        return not self._rest

    def merge_some(self) -> int:
        """Merge the next entries, unless this is the first time that they are asked for. Returns how many."""
        count = 0
        while self._rest and self._was_asked and count < _AT_ONCE:
            if self._merging is None:
                self._merging = self._rest[-1].all_entries()
            for pattern_type, name, entry in islice(self._merging, _AT_ONCE - count):
                known = self._merged.entries(pattern_type).get(name)
                self._merged.put(pattern_type, name, entry if known is None else _joined(known, entry))
                count += 1
            if count < _AT_ONCE:
                # INVARIANT: a node is left out of the parts only when all of its entries are merged.
                self._rest.pop()
                self._merging = None
                self.parts = (self._merged, *self._apart, *self._rest)
        self._was_asked = True
        return count


class Union:
    """The compiled ACLs of a set of groups."""

    __slots__ = ("_types", "merged", "nodes")

    def __init__(self, index: AclIndex, groups: Groups) -> None:
        found = map(index.principals.get, groups.principals)
        self.nodes = tuple(node for node in found if node is not None)
        """In the order of their names."""
        self._types: list[_UnionOfType | None] = [None] * TYPES
        self.merged = 0
        """How many entries are kept for it."""

    def nodes_of(self, resource_type: int) -> Iterator[tuple[str, TypeNode]]:
        """Each group's principal and node."""
        for node in self.nodes:
            types = node.types[resource_type]
            if types is not None:
                yield node.principal, types

    def parts(self, resource_type: int) -> tuple[TypeNode, ...]:
        """Nodes that together hold what the groups' ACLs say. For single look-ups only, as they may grow."""
        return self._of_type(resource_type).parts

    def settled_parts(self, resource_type: int) -> tuple[TypeNode, ...]:
        """The same, but they stay as they are while the image does, so that steps can iterate over them."""
        of_type = self._of_type(resource_type)
        return of_type.parts if of_type.is_merged else tuple(types for _, types in self.nodes_of(resource_type))

    def _of_type(self, resource_type: int) -> _UnionOfType:
        found = self._types[resource_type]
        if found is None:
            found = _UnionOfType([types for _, types in self.nodes_of(resource_type)])
            self._types[resource_type] = found
        elif not found.is_merged:
            self.merged += found.merge_some()
        return found


class Unions:
    """The unions in use: those of one index at one offset."""

    __slots__ = ("_index", "_kept", "_offset")

    def __init__(self) -> None:
        self._kept: OrderedDict[Groups, Union] = OrderedDict()
        self._index: AclIndex | None = None
        self._offset = -1

    def of(self, groups: Groups, index: AclIndex, offset: int) -> Union:
        # INVARIANT: the index changes in place, so nothing outlives the offset or the index it was merged from.
        if self._index is not index or self._offset != offset:
            self._kept, self._index, self._offset = OrderedDict(), index, offset
        kept = self._kept
        found = kept.get(groups)
        if found is None:
            found = kept[groups] = Union(index, groups)
            self._make_room()
        else:
            kept.move_to_end(groups)
        return found

    def _make_room(self) -> None:
        # A union grows after it is put here, so its size counts when the next one comes.
        merged = sum(each.merged for each in self._kept.values())
        while len(self._kept) > 1 and (len(self._kept) > _MOST_SETS or merged > _MOST_KEPT):
            merged -= self._kept.popitem(last=False)[1].merged


def _joined(one: Entry, other: Entry) -> Entry:
    mask, parts = 0, list[HostMasks]()
    for each in (one, other):
        if not isinstance(each, HostMasks):
            mask |= each
        elif isinstance(each, _JoinedMasks):
            mask |= each.any_host
            parts += each.parts
        else:
            parts.append(each)
    return _JoinedMasks(mask, tuple(parts)) if parts else mask
