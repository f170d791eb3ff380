"""acls(filter) over the index (KIP-140): in list order, in short steps, from any position.

The index may change between two steps. A search continues by its position in the order: an ACL that stays is listed
once, and one that is added or removed meanwhile may be listed or not.
"""

from bisect import bisect_left
from collections.abc import Iterator

from app.core.index.buckets import HotBucket, ordered_rows
from app.core.index.names import TypeNames
from app.core.index.packing import PATTERN_TYPES, operation_in, permission_type_in
from app.core.index.table import SortKey
from app.core.index.tree import AclIndex
from app.core.kafka.bindings import StandardAcl
from app.core.kafka.codes import WILDCARD, AclOperation, AclPermissionType, PatternType, ResourceType
from app.core.kafka.filters import AclBindingFilter

_STEP = 400
_FEW = 4_000
_CONCRETE_TYPES = tuple(int(each) for each in ResourceType if each > ResourceType.ANY)


def search(index: AclIndex, acl_filter: AclBindingFilter, after: SortKey | None = None) -> Iterator[list[StandardAcl]]:
    """The ACLs that match the filter, after `after`: a list, perhaps empty, at least for every few hundred examined."""
    return _Search(index, acl_filter, after).run()


class _Search:
    def __init__(self, index: AclIndex, acl_filter: AclBindingFilter, after: SortKey | None) -> None:
        self._index = index
        self._table = index.table
        self._filter = acl_filter
        self._after = after
        self._found: list[StandardAcl] = []
        self._looked = 0

    def run(self) -> Iterator[list[StandardAcl]]:
        for resource_type in _CONCRETE_TYPES:
            if self._filter.resource_type not in (ResourceType.ANY, resource_type):
                continue
            if self._after is not None and resource_type < self._after[0]:
                continue
            names = self._index.types[resource_type]
            if names is not None:
                yield from self._type(resource_type, names)
        yield self._found

    def _type(self, resource_type: int, names: TypeNames) -> Iterator[list[StandardAcl]]:
        from_name = self._after[1] if self._after is not None and self._after[0] == resource_type else None
        for chunk in self._name_chunks(resource_type, names, from_name):
            for name in chunk:
                for pattern_type in self._patterns(name):
                    yield from self._pattern(resource_type, pattern_type, name)
                self._looked += 1
                if self._looked >= _STEP:
                    yield self._step()

    def _name_chunks(self, resource_type: int, names: TypeNames, from_name: str | None) -> Iterator[list[str]]:
        few = self._few_names(resource_type, names)
        if few is not None:
            yield few if from_name is None else few[bisect_left(few, from_name) :]
            return
        including = True
        while chunk := names.names.first(_STEP, from_name, including=including):
            yield chunk
            from_name, including = chunk[-1], False

    def _few_names(self, resource_type: int, names: TypeNames) -> list[str] | None:
        name = self._filter.resource_name
        if name is not None:
            return _covering(names, name) if self._filter.pattern_type is PatternType.MATCH else [name]
        if self._filter.principal is None:
            return None
        types = self._index.node(self._filter.principal, resource_type)
        return [] if types is None else types.names_if_few(_FEW)

    def _patterns(self, name: str) -> Iterator[int]:
        wanted = self._filter.pattern_type
        is_match = wanted is PatternType.MATCH and self._filter.resource_name is not None
        for pattern_type in PATTERN_TYPES:
            if wanted not in (PatternType.ANY, PatternType.MATCH, pattern_type):
                continue
            if is_match and pattern_type == PatternType.LITERAL and name not in (self._filter.resource_name, WILDCARD):
                continue
            yield pattern_type

    def _pattern(self, resource_type: int, pattern_type: int, name: str) -> Iterator[list[StandardAcl]]:
        bucket = self._index.bucket((resource_type, pattern_type, name))
        if bucket is None:
            return
        after = self._after
        place = (resource_type, name, pattern_type)
        if after is not None and place < after[:3]:
            return
        within = after if after is not None and place == after[:3] else None
        place_within = None if within is None else (within[3], within[4])
        for rows in ordered_rows(bucket, self._filter.principal, place_within, self._table):
            self._look(rows, within)
            # INVARIANT: no row number is held over a yield; rows are used again.
            if self._looked >= _STEP and isinstance(bucket, HotBucket):
                yield self._step()

    def _look(self, rows: list[int], within: SortKey | None) -> None:
        table = self._table
        for at in rows:
            if self._may_match(at) and (within is None or table.key(at) > within):
                acl = table.acl(at)
                if self._filter.matches(acl.binding):
                    self._found.append(acl)
        self._looked += len(rows)

    def _may_match(self, at: int) -> bool:
        """A cheap check of the columns; `AclBindingFilter.matches` decides."""
        wanted = self._filter
        codes = self._table.codes[at]
        return (
            (wanted.operation == AclOperation.ANY or wanted.operation == operation_in(codes))
            and (wanted.permission_type == AclPermissionType.ANY or wanted.permission_type == permission_type_in(codes))
            and (wanted.host is None or wanted.host == self._table.hosts[at])
        )

    def _step(self) -> list[StandardAcl]:
        found, self._found, self._looked = self._found, [], 0
        return found


def _covering(names: TypeNames, name: str) -> list[str]:
    # A name's prefixes are in order by their lengths: sorting thousands of long ones would take long.
    found = [*reversed(names.prefixes_of(name)), name]
    if found[-2:] == [name, name]:
        found.pop()
    at = bisect_left(found, WILDCARD)
    if found[at : at + 1] != [WILDCARD]:
        found.insert(at, WILDCARD)
    return found
