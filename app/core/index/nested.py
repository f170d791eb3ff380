"""Prefixes of many lengths: found on a walk along the name, so that the cost grows with the name and with nothing else.

A tree whose edges are pieces of prefixes, each some times SPAN characters long. A prefix stands at the node where less
than SPAN characters of it are left (its tail). All that a name passes on the way to a node's child is kept with that
child, as one mask, until a prefix at the node changes: chains of thousands of nested prefixes are passed in some
hundred steps, and a prefix that comes or goes concerns its own node only.
"""

from collections.abc import Callable, Iterable, Iterator, MutableMapping

from app.core.index.masks import Entry, HostMasks
from app.core.kafka.hosts import ClientAddress

SPAN = 64
EntryOf = Callable[[str], Entry]
"""The entry of a prefix that is there."""


class PrefixNode:
    """Where names part, or prefixes end.

    INVARIANT: what a child keeps (`seen`, `mask`, `hosted`, `asked`) is true while `seen` is its parent's `stamp`, and
    that becomes another one whenever a prefix at the parent comes, goes or has another entry.
    """

    __slots__ = ("asked", "asked_mask", "children", "hosted", "label", "mask", "seen", "stamp", "tails")

    def __init__(self, label: str) -> None:
        self.label = label
        """The piece of the prefixes below that leads here from the parent."""
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
        """A node of the same tree."""
        return PrefixNode(label)

    def on(self, piece: str) -> Iterable[str]:
        """The tails of the prefixes that end here and cover a name that goes on with this piece; in no order."""
        tails = self.tails
        if len(tails) <= SPAN:
            return filter(piece.startswith, tails)
        shorter = [piece[:length] for length in range(min(len(piece) + 1, SPAN))]
        return filter(tails.__contains__, shorter)

    def prefixes_on(self, piece: str) -> list[str]:
        """The prefixes with these tails, longest first."""
        return [self.tails[tail] for tail in sorted(self.on(piece), key=len, reverse=True)]

    def passed(self, child: "PrefixNode", piece: str, entry_of: EntryOf, address: ClientAddress) -> int:
        """What the prefixes that end here amount to for a name that goes on to this child."""
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
        """Of `prefixes_on` the first whose entry has this bit for a client at this address."""
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
    """A set of prefixes; what each amounts to is asked where it is needed."""

    __slots__ = ("counts", "root")

    def __init__(self) -> None:
        self.root = PrefixNode("")
        self.counts: MutableMapping[int, int] = {}
        """How many prefixes there are, by their length."""

    def add(self, name: str) -> None:
        """Add a prefix that is not there."""
        node, at = self.root, 0
        while len(name) - at >= SPAN:
            node = _step_to(node, name, at)
            at += len(node.label)
        node.tails[name[at:]] = name
        node.stamp = object()
        self.counts[len(name)] = self.counts.get(len(name), 0) + 1

    def touch(self, name: str) -> None:
        """Another entry belongs to this prefix, which is there."""
        self._way_to(name)[-1].stamp = object()

    def remove(self, name: str) -> None:
        """Take out a prefix that is there."""
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
        """What the prefixes of this name amount to; with one of the bits `enough` in it, it may be short of others."""
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
                # As `passed` would say; a call would cost as much as all else here.
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
        """The longest prefix of this name whose entry has this bit for a client at this address."""
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
        """The prefixes of this name, longest first."""
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
        """From the root to the node where this prefix ends."""
        way, at = [self.root], 0
        while len(name) - at >= SPAN:
            way.append(way[-1].children[name[at : at + SPAN]])
            at += len(way[-1].label)
        return way


def _step_to(node: PrefixNode, name: str, at: int) -> PrefixNode:
    """The child at the next place where this prefix ends or parts from others; made if there is none."""
    piece = name[at : at + SPAN]
    child = node.children.get(piece)
    if child is None:
        child = node.children[piece] = node.new(name[at : at + (len(name) - at) // SPAN * SPAN])
        return child
    shared = SPAN * _shared_spans(child.label, name[at : at + len(child.label)])
    if shared == len(child.label):
        return child
    between = node.children[piece] = node.new(child.label[:shared])
    child.label = child.label[shared:]
    between.children[child.label[:SPAN]] = child
    return between


def _shared_spans(a: str, b: str) -> int:
    """How many whole spans both begin with, found by halves."""
    same, most = 0, min(len(a), len(b)) // SPAN
    while same < most:
        half = (same + most + 1) // 2
        if a.startswith(b[same * SPAN : half * SPAN], same * SPAN):
            same = half
        else:
            most = half - 1
    return same


def _tidy(way: list[PrefixNode]) -> None:
    """Take the last node of a way out if nothing needs it; and then the one before it, perhaps."""
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
