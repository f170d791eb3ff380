"""Many ACLs into an index at once: a snapshot's rows come sorted, so each pattern's ACLs are compiled once."""

from collections.abc import Sequence
from itertools import groupby
from operator import itemgetter

from app.core.index.buckets import HOT, pack
from app.core.index.masks import PACKED_MASKS, Entry, with_host
from app.core.index.names import TypeNames
from app.core.index.tree import AclIndex, PrincipalNode, TypeNode
from app.core.kafka.bindings import AclRow

_pattern_of = itemgetter(1, 2, 5)


def add_rows(index: AclIndex, rows: Sequence[AclRow]) -> None:
    """Add ACLs that are not there yet, as `AclIndex.add` would one by one; fast if they are sorted."""
    for (resource_type, pattern_type, name), some in groupby(rows, _pattern_of):
        together = list(some)
        names = index.types[resource_type]
        if names is None:
            names = index.types[resource_type] = TypeNames()
        if len(together) > HOT or names.buckets(pattern_type).get(name) is not None:
            for row in together:
                index.add(row)
        else:
            _add_pattern(index, names, together)


def _add_pattern(index: AclIndex, names: TypeNames, rows: Sequence[AclRow]) -> None:
    _, resource_type, pattern_type, _, _, name, _, _ = rows[0]
    table, principals = index.table, index.principals
    numbers: list[int] = []
    compiled: dict[str, tuple[PrincipalNode, dict[str, int]]] = {}
    for acl_id, _, _, operation, permission_type, _, principal, host in rows:
        known = compiled.get(principal)
        if known is None:
            node = principals.get(principal)
            if node is None:
                node = PrincipalNode(principal)
                principals.put(principal, node)
            known = compiled[principal] = (node, {})
        node, masks = known
        shared = (acl_id, resource_type, pattern_type, operation, permission_type, name, node.principal, host)
        numbers.append(table.add(shared))
        masks[host] = masks.get(host, 0) | PACKED_MASKS[operation, permission_type]
    names.put(pattern_type, name, pack(numbers))
    for node, masks in compiled.values():
        types = node.types[resource_type]
        if types is None:
            types = node.types[resource_type] = TypeNode()
        entry: Entry = 0
        for host, mask in masks.items():
            entry = with_host(entry, host, mask) or 0
        types.put(pattern_type, name, index.share(entry))
