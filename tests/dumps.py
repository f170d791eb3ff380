"""An index laid open: equal dumps mean equal answers to every question, whatever was added and removed before."""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

from app.core.index.buckets import Bucket, HotBucket, rows_of, unpack
from app.core.index.masks import ANY_DENIED, Entry, HostMasks
from app.core.index.names import TypeNames
from app.core.index.prefixes import SPAN, PrefixNode, PrefixSet
from app.core.index.search import search
from app.core.index.tree import AclIndex, TypeNode
from app.core.kafka.filters import AclBindingFilter

Dump = dict[str, Any]


def dump(index: AclIndex) -> Dump:
    """Everything that the index knows, copied, in plain values; row numbers are replaced by the ACLs' ids."""
    return {
        "acls": [acl for step in search(index, AclBindingFilter()) for acl in step],
        "count": len(index),
        "principals": {
            principal: {type_: _node(node) for type_, node in enumerate(each.types) if node is not None}
            for principal, each in index.principals.items()
        },
        "types": {
            type_: _names(index, names)
            for type_, names in enumerate(index.types)
            if names is not None and len(names.names)
        },
    }


def _node(node: TypeNode) -> Dump:
    # A node that doesn't know that it denies would let decisions pass by a DENY.
    assert node.may_deny or not any(map(_denies, (node.wildcard, *node.literals.values(), *node.prefixes.values())))
    return {
        "literals": {name: _entry(entry) for name, entry in node.literals.items()},
        "prefixes": {name: _entry(entry) for name, entry in node.prefixes.items()},
        "wildcard": _entry(node.wildcard),
        "lengths": node.lengths,
        "length_counts": dict(node.length_counts),
        "nested": _nested(node, node.prefixes),
    }


def _denies(entry: Entry) -> bool:
    if not isinstance(entry, HostMasks):
        return bool(entry & ANY_DENIED)
    ranges = [mask for networks in entry.ranges.values() for texts in networks.values() for mask in texts.values()]
    return any(mask & ANY_DENIED for mask in (entry.any_host, *entry.exact.values(), *ranges))


def _entry(entry: Entry) -> Any:  # noqa: ANN401 (a number, or the parts of a HostMasks)
    if not isinstance(entry, HostMasks):
        return entry
    return (
        entry.any_host,
        dict(entry.exact),
        {
            bits: {network: dict(texts) for network, texts in networks.items()}
            for bits, networks in entry.ranges.items()
        },
        dict(entry.ending or {}),
    )


def _names(index: AclIndex, names: TypeNames) -> Dump:
    return {
        "literals": {name: _ids(index, bucket) for name, bucket in names.literals.items()},
        "prefixes": {name: _ids(index, bucket) for name, bucket in names.prefixes.items()},
        "names": names.names.first(len(names.names), None, including=True),
        "lengths": names.lengths,
        "length_counts": dict(names.length_counts),
        "nested": _nested(names, dict(names.prefixes.items())),
    }


def _nested(names: PrefixSet, prefixes: Iterable[str]) -> Any:  # noqa: ANN401 (a tree as nested pairs)
    """The tree of the prefixes that have no place among the plain lengths; it is as small as it can be."""
    there = {each for each in prefixes if len(each) not in names.length_counts}
    if names.nested is None:
        assert not there
        return None
    found = list(_prefixes_below(names.nested.root, ""))
    assert sorted(found) == sorted(there)
    assert names.nested.counts == Counter(map(len, there))
    return _tree(names.nested.root)


def _tree(node: PrefixNode) -> Any:  # noqa: ANN401 (a tree as nested pairs)
    return sorted(node.tails), {piece: (child.label, _tree(child)) for piece, child in node.children.items()}


def _prefixes_below(node: PrefixNode, way: str) -> Iterator[str]:
    for tail, prefix in node.tails.items():
        assert prefix == way + tail
        assert len(tail) < SPAN
        yield prefix
    for piece, child in node.children.items():
        assert child.label[:SPAN] == piece
        assert len(child.label) % SPAN == 0
        assert child.tails or len(child.children) > 1
        yield from _prefixes_below(child, way + child.label)


def _ids(index: AclIndex, bucket: Bucket) -> list[bytes]:
    if not isinstance(bucket, HotBucket):
        return sorted(_id(index, row) for row in unpack(bucket))
    assert bucket.principals.first(len(bucket.principals), None, including=True) == sorted(bucket.by_principal)
    return sorted(
        _id(index, row) for principal in bucket.by_principal for row in rows_of(bucket, principal, index.table)
    )


def _id(index: AclIndex, row: int) -> bytes:
    return bytes(index.table.ids[16 * row : 16 * row + 16])
