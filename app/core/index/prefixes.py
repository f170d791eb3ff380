"""Which prefixes of a name exist: a look-up for each length while these are few, beyond that a walk along the name.

The walk's cost grows with the name and with nothing else. It goes down a tree whose edges are pieces of prefixes, each
a multiple of SPAN characters long. A prefix belongs to the node where fewer than SPAN characters of it are left (its
tail). What a name meets on the way to a child is kept with that child as one mask, until a prefix at the node changes.
So a chain of thousands of nested prefixes takes some hundred steps, and adding or removing one affects its node only.
"""

from collections.abc import Callable, Iterable, Iterator, MutableMapping

from app.core.index.masks import Entry, HostMasks
from app.core.kafka.hosts import ClientAddress

ROOM = 16
"""The most that the lengths which are looked up one by one for every name may weigh."""

_CHARACTERS = 128
"""Slicing and hashing this many characters weighs as much as a look-up."""

SPAN = 64
EntryOf = Callable[[str], Entry]


class PrefixNode:
    """A place where names diverge or prefixes end.

    INVARIANT: what a child keeps (`seen`, `mask`, `hosted`, `asked`) is valid while `seen` is its parent's `stamp`,
    which is replaced whenever a prefix at the parent is added, removed or gets another entry.
    """

    __slots__ = ("asked", "asked_mask", "children", "hosted", "label", "mask", "seen", "stamp", "tails")

    def __init__(self, label: str) -> None:
        self.label = label
        """The piece that leads here from the parent, shared by all prefixes below."""
        self.children: MutableMapping[str, PrefixNode] = {}
        """By the first SPAN characters of their labels."""
        self.tails: MutableMapping[str, str] = {}
        """The prefixes that end here, by what is left of them."""
        self.stamp: object = object()
        self.seen: object = None
        self.mask = 0
        self.hosted: tuple[HostMasks, ...] = ()
        self.asked: ClientAddress | None = None
        self.asked_mask = 0

    def new(self, label: str) -> "PrefixNode":
        return PrefixNode(label)

    def on(self, piece: str) -> Iterable[str]:
        """The tails of the prefixes here that cover a name continuing with this piece, unordered."""
        tails = self.tails
        if len(tails) <= SPAN:
            return filter(piece.startswith, tails)
        shorter = [piece[:length] for length in range(min(len(piece) + 1, SPAN))]
        return filter(tails.__contains__, shorter)

    def prefixes_on(self, piece: str) -> list[str]:
        return [self.tails[tail] for tail in sorted(self.on(piece), key=len, reverse=True)]

    def passed(self, child: "PrefixNode", piece: str, entry_of: EntryOf, address: ClientAddress) -> int:
        if child.seen is not self.stamp:
            self._tell(child, piece, entry_of)
        if not child.hosted:
            return child.mask
        # A request has one address for all its names.
        if child.asked is not address:
            child.asked_mask = child.mask
            for host_masks in child.hosted:
                child.asked_mask |= host_masks.at(address)
            child.asked = address
        return child.asked_mask

    def longest_with(self, bit: int, piece: str, entry_of: EntryOf, address: ClientAddress) -> str | None:
        for prefix in self.prefixes_on(piece):
            entry = entry_of(prefix)
            if (entry.kept_at(address) if isinstance(entry, HostMasks) else entry) & bit:
                return prefix
        return None

    def _tell(self, child: "PrefixNode", piece: str, entry_of: EntryOf) -> None:
        mask, hosted, tails = 0, [], self.tails
        for tail in self.on(piece):
            entry = entry_of(tails[tail])
            if isinstance(entry, HostMasks):
                hosted.append(entry)
            else:
                mask |= entry
        child.mask, child.hosted, child.asked, child.seen = mask, tuple(hosted), None, self.stamp


class NestedPrefixes:
    __slots__ = ("counts", "root")

    def __init__(self) -> None:
        self.root = PrefixNode("")
        self.counts: MutableMapping[int, int] = {}

    def add(self, name: str) -> None:
        node, at = self.root, 0
        while len(name) - at >= SPAN:
            node = _step_to(node, name, at)
            at += len(node.label)
        node.tails[name[at:]] = name
        node.stamp = object()
        self.counts[len(name)] = self.counts.get(len(name), 0) + 1

    def touch(self, name: str) -> None:
        self._way_to(name)[-1].stamp = object()

    def remove(self, name: str) -> None:
        way = self._way_to(name)
        node = way[-1]
        del node.tails[name[sum(len(each.label) for each in way) :]]
        node.stamp = object()
        left = self.counts[len(name)] - 1
        if left:
            self.counts[len(name)] = left
        else:
            del self.counts[len(name)]
        _tidy(way)

    def mask(self, name: str, entry_of: EntryOf, address: ClientAddress, enough: int) -> int:
        """The combined mask of the prefixes of this name; once it has one of the bits `enough`, it may lack others."""
        node, at, mask, span = self.root, 0, 0, SPAN
        while True:
            piece = name[at : at + span]
            child = node.children.get(piece)
            if child is None:
                break
            label = child.label
            length = len(label)
            if length != span and not name.startswith(label, at):
                break
            if child.seen is node.stamp and not child.hosted:
                # Inlined from `passed`: the call would cost as much as all else here.
                mask |= child.mask
            else:
                mask |= node.passed(child, piece, entry_of, address)
            if mask & enough:
                return mask
            at += length
            node = child
        tails = node.tails
        for tail in node.on(piece) if tails else ():
            entry = entry_of(tails[tail])
            mask |= entry.kept_at(address) if isinstance(entry, HostMasks) else entry
        return mask

    def longest_with(self, bit: int, name: str, entry_of: EntryOf, address: ClientAddress) -> str | None:
        node, at, last = self.root, 0, None
        while True:
            piece = name[at : at + SPAN]
            child = node.children.get(piece)
            if child is None or not name.startswith(child.label, at):
                break
            if node.passed(child, piece, entry_of, address) & bit:
                last = node, piece
            at += len(child.label)
            node = child
        found = node.longest_with(bit, piece, entry_of, address)
        if found is None and last is not None:
            node, piece = last
            found = node.longest_with(bit, piece, entry_of, address)
        return found

    def covering(self, name: str) -> Iterator[str]:
        node, at, way = self.root, 0, []
        while True:
            piece = name[at : at + SPAN]
            way.append((node, piece))
            child = node.children.get(piece)
            if child is None or not name.startswith(child.label, at):
                break
            at += len(child.label)
            node = child
        for each, piece in reversed(way):
            yield from each.prefixes_on(piece)

    def _way_to(self, name: str) -> list[PrefixNode]:
        way, at = [self.root], 0
        while len(name) - at >= SPAN:
            way.append(way[-1].children[name[at : at + SPAN]])
            at += len(way[-1].label)
        return way


def _step_to(node: PrefixNode, name: str, at: int) -> PrefixNode:
    piece = name[at : at + SPAN]
    child = node.children.get(piece)
    if child is None:
        child = node.children[piece] = node.new(name[at : at + (len(name) - at) // SPAN * SPAN])
        return child
    shared = shared_length(child.label, name[at : at + len(child.label)]) // SPAN * SPAN
    if shared == len(child.label):
        return child
    between = node.children[piece] = node.new(child.label[:shared])
    child.label = child.label[shared:]
    between.children[child.label[:SPAN]] = child
    return between


def shared_length(a: str, b: str) -> int:
    """The length of the longest common prefix, in characters."""
    same, most = 0, min(len(a), len(b))
    while same < most:
        half = (same + most + 1) // 2
        if a.startswith(b[same:half], same):
            same = half
        else:
            most = half - 1
    return same


def _tidy(way: list[PrefixNode]) -> None:
    while len(way) > 1:
        node, parent = way.pop(), way[-1]
        piece = node.label[:SPAN]
        if node.tails or len(node.children) > 1:
            return
        if node.children:
            only = next(iter(node.children.values()))
            only.label = node.label + only.label
            parent.children[piece] = only
            return
        del parent.children[piece]


class PrefixSet:
    """The prefixes that exist, by their lengths. Subclasses keep the value of each by its name.

    A length gets its place with its first prefix and keeps it until the last one is removed: in `lengths` while there
    is room, else in `nested`. So no change ever moves more than one prefix.
    """

    __slots__ = ("length_counts", "lengths", "nested")

    def __init__(self) -> None:
        self.lengths: tuple[int, ...] = ()
        self.length_counts: MutableMapping[int, int] = {}
        self.nested: NestedPrefixes | None = None

    def prefix_came(self, name: str) -> None:
        length, counts = len(name), self.length_counts
        if length in counts:
            counts[length] += 1
        elif self._has_place(length):
            counts[length] = 1
            self.lengths = tuple(sorted(counts))
        else:
            if self.nested is None:
                self.nested = self._new_nested()
            self.nested.add(name)

    def prefix_gone(self, name: str) -> None:
        length, counts = len(name), self.length_counts
        if self.nested is not None and length not in counts:
            self.nested.remove(name)
            self.nested = self.nested if self.nested.counts else None
        elif counts[length] > 1:
            counts[length] -= 1
        else:
            del counts[length]
            self.lengths = tuple(sorted(counts))

    def prefix_changed(self, name: str) -> None:
        if self.nested is not None and len(name) not in self.length_counts:
            self.nested.touch(name)

    def covering(self, name: str, is_there: Callable[[str], bool]) -> list[str]:
        pieces = (name[:length] for length in reversed(self.lengths) if length <= len(name))
        found = list(filter(is_there, pieces))
        if self.nested is not None:
            found += self.nested.covering(name)
            found.sort(key=len, reverse=True)
        return found

    def _has_place(self, length: int) -> bool:
        if self.nested is not None and length in self.nested.counts:
            return False
        return sum(map(_weight, self.lengths)) + _weight(length) <= ROOM

    def _new_nested(self) -> NestedPrefixes:
        return NestedPrefixes()


def _weight(length: int) -> int:
    return 1 + length // _CHARACTERS
