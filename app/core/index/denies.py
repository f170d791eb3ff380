"""The DENYs of one principal, found by its compiled entries; most principals have few or none."""

from collections.abc import Iterator

from app.core.index.buckets import packs_of
from app.core.index.masks import ANY_DENIED, HostMasks
from app.core.index.packing import permission_type_in
from app.core.index.tree import AclIndex, TypeNode
from app.core.kafka.bindings import StandardAcl
from app.core.kafka.codes import AclPermissionType

_STEP = 1_000
_DENY = int(AclPermissionType.DENY)


def denies_of(index: AclIndex, principal: str) -> Iterator[StandardAcl | None]:
    """Every DENY of this very principal, in no order; None stands for a step.

    INVARIANT: no step is taken after a change of the image.
    """
    table, node = index.table, index.principals.get(principal)
    if node is None:
        return
    for resource_type, types in enumerate(node.types):
        names = index.types[resource_type]
        if types is None or names is None or not types.may_deny:
            continue
        for pattern_type, name in _denied_patterns(types):
            bucket = None if name is None else names.buckets(pattern_type).get(name)
            looked = 0
            for rows in () if bucket is None else packs_of(bucket, principal, table):
                yield from (table.acl(at) for at in rows if permission_type_in(table.codes[at]) == _DENY)
                looked += len(rows)
                if looked >= _STEP:
                    looked = 0
                    yield None
            yield None


def _denied_patterns(types: TypeNode) -> Iterator[tuple[int, str | None]]:
    """Patterns that may have a DENY on them; None for a step."""
    for looked, (pattern_type, name, entry) in enumerate(types.all_entries(), 1):
        if isinstance(entry, HostMasks) or entry & ANY_DENIED:
            yield pattern_type, name
        elif not looked % _STEP:
            yield pattern_type, None
