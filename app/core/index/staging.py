"""A transaction compiled beside the index, invisible to its readers, by the code that changes an index in place."""

from array import array
from collections.abc import Iterator

from app.core.index.buckets import Bucket, HostRows, HotBucket, Rows
from app.core.index.masks import Entry, HostMasks, Networks
from app.core.index.names import TypeNames
from app.core.index.overlays import Changes, Overlay, OverlayDict, OverlayNames, OverlayShards, OverlaySlots, beneath
from app.core.index.prefixes import NestedPrefixes, PrefixNode, PrefixSet
from app.core.index.table import AclTable
from app.core.index.tree import AclIndex, PrincipalNode, TypeNode
from app.core.kafka.bindings import AclRow
from app.core.kafka.codes import WILDCARD_PRINCIPAL

_AT_ONCE = 50


class StagedIndex(AclIndex):
    """The index after the transaction; the base index stays as it is until `commit`.

    Call exactly one of `commit` and `abandon`; the base must not be changed before that.
    """

    def __init__(self, base: AclIndex) -> None:
        self._changes = changes = Changes()
        self._rows = self.table = _OverlayTable(base.table, changes)
        self.types = OverlaySlots(base.types, changes, _over_names)
        self.principals = OverlayShards(base.principals, changes, _OverlayPrincipal)
        self.everyone = _OverlayPrincipal(base.everyone, changes)
        self.principals.put(WILDCARD_PRINCIPAL, self.everyone)
        # A mask, or an end, that is known early does no harm.
        self.masks, self.ends = base.masks, base.ends

    def settle(self) -> Iterator[None]:
        return self._changes.settle()

    def commit(self) -> None:
        # INVARIANT: nobody reads between two of these assignments; there is no await in here.
        self._changes.carry_out()

    def abandon(self) -> None:
        self._rows.give_back()

    def tidy(self) -> Iterator[None]:
        """Free in short steps what the commit has left behind; this index is of no use afterwards."""
        yield from self._rows.release_removed()
        del self.table, self.types, self.principals, self.everyone, self._rows
        yield from self._changes.free()


class _OverlayTable(Overlay, AclTable):
    """Rows that nothing points to are filled in place; those of removed ACLs stay until after the commit."""

    def __init__(self, base: AclTable, changes: Changes) -> None:
        self.base: AclTable = base
        self.ids, self.codes = base.ids, base.codes
        self.names, self.principals, self.hosts = base.names, base.principals, base.hosts
        self.free_rows = base.free_rows
        self.by_id = OverlaySlots(base.by_id, changes, _copied)
        self.terms = OverlayShards(base.terms, changes)
        self.ends = OverlayShards(base.ends, changes)
        self.count = base.count
        self._taken: list[int] = []
        self._removed: list[int] = []
        changes.expect(self)

    def add(self, row: AclRow) -> int:
        at = super().add(row)
        self._taken.append(at)
        return at

    def release(self, at: int) -> None:
        """Only note it: readers of the base index still use the row."""
        self._removed.append(at)

    def settle(self, changes: Changes) -> None:
        changes.attribute(self.base, "count", self.count)

    def give_back(self) -> None:
        self.base.free_rows.extend(self._taken)

    def release_removed(self) -> Iterator[None]:
        while self._removed:
            for at in self._removed[-_AT_ONCE:]:
                self.base.release(at)
            del self._removed[-_AT_ONCE:]
            yield


class _OverlayPrefixNode(Overlay, PrefixNode):
    def __init__(self, base: PrefixNode, changes: Changes) -> None:
        self.base: PrefixNode = base
        self.label, self.stamp = base.label, base.stamp
        self.children = OverlayDict(base.children, changes, _OverlayPrefixNode)
        self.tails = OverlayDict(base.tails, changes)
        self._changes = changes
        changes.expect(self)

    def new(self, label: str) -> PrefixNode:
        return _OverlayPrefixNode(super().new(label), self._changes)

    def settle(self, changes: Changes) -> None:
        if self.label is not self.base.label:
            changes.attribute(self.base, "label", self.label)
        if self.stamp is not self.base.stamp:
            changes.attribute(self.base, "stamp", self.stamp)


class _OverlayNested(Overlay, NestedPrefixes):
    def __init__(self, base: NestedPrefixes, changes: Changes) -> None:
        self.base: NestedPrefixes = base
        self.root = _OverlayPrefixNode(base.root, changes)
        self.counts = OverlayDict(base.counts, changes)


class _OverlayPrefixes(Overlay, PrefixSet):
    def _stand_over(self, base: PrefixSet, changes: Changes) -> None:
        self.lengths = base.lengths
        self.length_counts = OverlayDict(base.length_counts, changes)
        self.nested = None if base.nested is None else _OverlayNested(base.nested, changes)
        self._changes = changes
        changes.expect(self)

    def settle(self, changes: Changes) -> None:
        if self.lengths is not self.base.lengths:
            changes.attribute(self.base, "lengths", self.lengths)
        nested = beneath(self.nested)
        if nested is not self.base.nested:
            changes.attribute(self.base, "nested", nested)

    def _new_nested(self) -> NestedPrefixes:
        return _OverlayNested(super()._new_nested(), self._changes)


class _OverlayNames(_OverlayPrefixes, TypeNames):
    def __init__(self, base: TypeNames, changes: Changes) -> None:
        self.base: TypeNames = base
        self.literals = OverlayShards(base.literals, changes, _over_bucket)
        self.prefixes = OverlayShards(base.prefixes, changes, _over_bucket)
        self.names = OverlayNames(base.names, changes)
        self._stand_over(base, changes)


class _OverlayBucket(Overlay, HotBucket):
    def __init__(self, base: HotBucket, changes: Changes) -> None:
        self.base: HotBucket = base
        self.by_principal = OverlayDict(base.by_principal, changes, _over_rows)
        self.principals = OverlayNames(base.principals, changes)


class _OverlayRows(Overlay, HostRows):
    def __init__(self, base: HostRows, changes: Changes) -> None:
        self.base: HostRows = base
        self.by_host = OverlayDict(base.by_host, changes)
        self.hosts = OverlayNames(base.hosts, changes)


class _OverlayPrincipal(Overlay, PrincipalNode):
    def __init__(self, base: PrincipalNode, changes: Changes) -> None:
        self.base: PrincipalNode = base
        self.principal = base.principal
        self.types = OverlaySlots(base.types, changes, _over_type)


class _OverlayType(_OverlayPrefixes, TypeNode):
    def __init__(self, base: TypeNode, changes: Changes) -> None:
        self.base: TypeNode = base
        self.literals = OverlayDict(base.literals, changes, _over_entry)
        self.prefixes = OverlayDict(base.prefixes, changes, _over_entry)
        self.wildcard, self.may_deny = base.wildcard, base.may_deny
        self._stand_over(base, changes)

    def settle(self, changes: Changes) -> None:
        super().settle(changes)
        if self.may_deny is not self.base.may_deny:
            changes.attribute(self.base, "may_deny", self.may_deny)
        wildcard = beneath(self.wildcard)
        if wildcard is not self.base.wildcard:
            changes.attribute(self.base, "wildcard", wildcard)


class _OverlayMasks(Overlay, HostMasks):
    def __init__(self, base: HostMasks, changes: Changes) -> None:
        self.base: HostMasks = base
        self.any_host, self.asked, self.costly = base.any_host, None, base.costly
        self.exact = OverlayDict(base.exact, changes)
        self.ending = None if base.ending is None else OverlayDict(base.ending, changes)
        self.ranges = OverlayDict(base.ranges, changes, _over_networks)
        changes.expect(self)

    def settle(self, changes: Changes) -> None:
        changes.attribute(self.base, "any_host", self.any_host)
        changes.attribute(self.base, "asked", None)
        changes.attribute(self.base, "costly", self.costly)
        changes.attribute(self.base, "ending", beneath(self.ending))


def _over_names(names: TypeNames | None, changes: Changes) -> TypeNames | None:
    return None if names is None else _OverlayNames(names, changes)


def _over_type(node: TypeNode | None, changes: Changes) -> TypeNode | None:
    return None if node is None else _OverlayType(node, changes)


def _over_bucket(bucket: Bucket, changes: Changes) -> Bucket:
    return _OverlayBucket(bucket, changes) if isinstance(bucket, HotBucket) else bucket


def _over_rows(rows: Rows, changes: Changes) -> Rows:
    return rows if isinstance(rows, bytes) else _OverlayRows(rows, changes)


def _over_entry(entry: Entry, changes: Changes) -> Entry:
    return _OverlayMasks(entry, changes) if isinstance(entry, HostMasks) else entry


def _over_networks(networks: Networks, changes: Changes) -> Networks:
    return OverlayDict(networks, changes, OverlayDict)


def _copied(rows: "array[int] | None", _: Changes) -> "array[int] | None":
    return None if rows is None else rows[:]
