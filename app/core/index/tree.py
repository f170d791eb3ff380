"""The ACLs compiled for decisions: principal first, then resource type and name, then host (DESIGN: two flows).

The cost of a decision does not grow with the ACLs of other principals or on other names. The index changes in place,
a transaction in one step of the event loop, so that no reader sees half of it.
"""

from collections.abc import Iterable, Iterator, MutableMapping

from app.core.index.buckets import Bucket, first_row, rows_at, with_row, without_row
from app.core.index.containers import ShardedDict, Slots
from app.core.index.ends import Ends
from app.core.index.masks import ANY_DENIED, PACKED_MASKS, EndingMask, Entry, HostMasks, with_host
from app.core.index.names import TypeNames
from app.core.index.packing import PATTERN_TYPES, operation_in, pack_codes, permission_type_in, unpack_codes
from app.core.index.prefixes import PrefixSet
from app.core.index.table import ENDED, AclTable
from app.core.kafka.bindings import AclBinding, AclRow, AclTerms, StandardAcl
from app.core.kafka.codes import WILDCARD, WILDCARD_PRINCIPAL, PatternType, ResourceType
from app.core.kafka.hosts import ClientAddress

_LITERAL = int(PatternType.LITERAL)
TYPES = max(ResourceType) + 1
"""Slots by the codes of resource types."""

Pattern = tuple[int, int, str]
"""Resource type, pattern type and name."""


class TypeNode(PrefixSet):
    __slots__ = ("literals", "may_deny", "prefixes", "wildcard")

    def __init__(self) -> None:
        super().__init__()
        self.literals: MutableMapping[str, Entry] = {}
        self.prefixes: MutableMapping[str, Entry] = {}
        self.wildcard: Entry = 0
        # INVARIANT: while this is False, no entry denies anything. It may stay True after the last such entry is gone.
        self.may_deny = False

    def mask(self, name: str, address: ClientAddress, enough: int = 0) -> int:
        """Packed mask of every ACL of this principal that covers the name, for a client at this address.

        Once it has one of the bits `enough`, it may lack others.
        """
        entry = self.wildcard
        mask = entry if entry.__class__ is int else entry.at(address)  # type: ignore[union-attr]  # int is the fast case
        found = self.literals.get(name)
        if found is not None:
            mask |= found if found.__class__ is int else found.at(address)  # type: ignore[union-attr]  # the same
        if mask & enough:
            return mask
        for length in self.lengths:
            found = self.prefixes.get(name[:length])
            if found is not None:
                mask |= found if found.__class__ is int else found.at(address)  # type: ignore[union-attr]  # the same
                if mask & enough:
                    return mask
        if self.nested is not None:
            mask |= self.nested.mask(name, self.prefixes.__getitem__, address, enough)
        return mask

    def prefix_mask(self, name: str, address: ClientAddress, enough: int) -> int:
        mask = 0
        for length in self.lengths:
            mask |= mask_at(self.prefixes.get(name[:length], 0), address)
            if mask & enough:
                return mask
        if self.nested is not None:
            mask |= self.nested.mask(name, self.prefixes.__getitem__, address, enough)
        return mask

    def prefixes_of(self, name: str) -> list[str]:
        return self.covering(name, self.prefixes.__contains__)

    def longest_with(self, bit: int, name: str, address: ClientAddress) -> str | None:
        found = None
        if self.nested is not None:
            found = self.nested.longest_with(bit, name, self.prefixes.__getitem__, address)
        for length in reversed(self.lengths):
            if found is not None and length < len(found):
                break
            entry = self.prefixes.get(name[:length])
            if length <= len(name) and entry is not None and mask_at(entry, address) & bit:
                return name[:length]
        return found

    def grants(self, bit: int, name: str, address: ClientAddress) -> int:
        """The same as `mask`, complete if this principal may be denied anything; otherwise `bit` is enough."""
        return self.mask(name, address, 0 if self.may_deny else bit)

    def put(self, pattern_type: int, name: str, entry: Entry | None) -> None:
        if entry is not None and (isinstance(entry, HostMasks) or entry & ANY_DENIED):
            self.may_deny = True
        if pattern_type == _LITERAL:
            if name == WILDCARD:
                self.wildcard = 0 if entry is None else entry
            _put(self.literals, name, entry)
        else:
            known = name in self.prefixes
            _put(self.prefixes, name, entry)
            if entry is None:
                self.prefix_gone(name)
            elif known:
                self.prefix_changed(name)
            else:
                self.prefix_came(name)

    def entries(self, pattern_type: int) -> MutableMapping[str, Entry]:
        return self.literals if pattern_type == _LITERAL else self.prefixes

    def all_entries(self) -> Iterator[tuple[int, str, Entry]]:
        for pattern_type in PATTERN_TYPES:
            for name, entry in self.entries(pattern_type).items():
                yield pattern_type, name, entry

    @property
    def size(self) -> int:
        return len(self.literals) + len(self.prefixes)

    def names_if_few(self, most: int) -> list[str] | None:
        """The names of all patterns in order; None if there are more patterns than `most`."""
        return sorted({*self.literals, *self.prefixes}) if self.size <= most else None


class PrincipalNode:
    __slots__ = ("principal", "types")

    def __init__(self, principal: str) -> None:
        self.principal = principal
        self.types: Slots[TypeNode | None] = [None] * TYPES


class AclIndex:
    """All ACLs of an image, to be decided on, found and listed."""

    __slots__ = ("ends", "everyone", "masks", "principals", "table", "types")

    def __init__(self) -> None:
        self.table = AclTable()
        self.types: Slots[TypeNames | None] = [None] * TYPES
        self.everyone = PrincipalNode(WILDCARD_PRINCIPAL)
        self.principals: ShardedDict[str, PrincipalNode] = ShardedDict()
        self.principals.put(WILDCARD_PRINCIPAL, self.everyone)
        self.masks: dict[int, int] = {}
        self.ends = Ends()

    def __len__(self) -> int:
        return len(self.table)

    def node(self, principal: str, resource_type: int) -> TypeNode | None:
        """The compiled ACLs of this very principal."""
        node = self.principals.get(principal)
        return None if node is None else node.types[resource_type]

    def bucket(self, pattern: Pattern) -> Bucket | None:
        """The rows of all principals on a pattern."""
        resource_type, pattern_type, name = pattern
        names = self.types[resource_type]
        return None if names is None else names.buckets(pattern_type).get(name)

    def covers(self, resource_type: int, name: str) -> bool:
        """Whether any ACL's pattern covers this resource (for allow.everyone.if.no.acl.found)."""
        names = self.types[resource_type]
        return names is not None and names.covers(name)

    def add(self, row: AclRow) -> None:
        acl_id, resource_type, pattern_type, operation, permission_type, name, principal, host = row
        names = self.types[resource_type]
        if names is None:
            names = self.types[resource_type] = TypeNames()
        bucket = names.buckets(pattern_type).get(name)
        if bucket is not None:
            name = self.table.names[first_row(bucket)]
        node = self.principals.get(principal)
        if node is None:
            node = PrincipalNode(principal)
            self.principals.put(principal, node)
        principal = node.principal
        shared = (acl_id, resource_type, pattern_type, operation, permission_type, name, principal, host)
        at = self.table.add(shared)
        bucket = with_row(bucket, principal, at, self.table)
        names.put(pattern_type, name, bucket)
        types = node.types[resource_type]
        if types is None:
            types = node.types[resource_type] = TypeNode()
        self._compile(types, pattern_type, name, host, rows_at(bucket, principal, host, self.table))

    def set_terms(self, binding: AclBinding, terms: AclTerms) -> None:
        """Give an existing ACL these terms. Raises KeyError if there is none."""
        at, types = self._find(binding), self.node(binding.principal, binding.resource_type)
        if at is None or types is None:
            raise KeyError(binding)
        if self.table.set_terms(at, terms):
            pattern_type, name, host = int(binding.pattern_type), binding.resource_name, binding.host
            bucket = self.bucket((binding.resource_type, pattern_type, name))
            self._compile(types, pattern_type, name, host, rows_at(bucket, binding.principal, host, self.table))

    def end_for_good(self, now: float) -> Iterator[None]:
        """Ends the ALLOWs that have ended by this time, whatever time it is later, in short steps."""
        for shard in self.table.ends.shards:
            for at in [at for at, ends_at in shard.items() if ENDED < ends_at <= now]:
                self._end_for_good(at)
                yield
            yield

    def remove(self, binding: AclBinding) -> None:
        """Remove an existing ACL, and recompile its principal's entry on that pattern only."""
        at = self._find(binding)
        names, node = self.types[binding.resource_type], self.principals.get(binding.principal)
        types = None if node is None else node.types[binding.resource_type]
        if at is None or names is None or node is None or types is None:
            raise KeyError(binding)
        pattern_type, name = int(binding.pattern_type), binding.resource_name
        bucket = names.buckets(pattern_type).get(name)
        left = None if bucket is None else without_row(bucket, binding.principal, at, self.table)
        names.put(pattern_type, name, left)
        self.table.remove(at)
        rows = rows_at(left, binding.principal, binding.host, self.table)
        self._compile(types, pattern_type, name, binding.host, rows)
        if not types.literals and not types.prefixes:
            node.types[binding.resource_type] = None
        if node is not self.everyone and not any(node.types):
            self.principals.remove(binding.principal)

    def find(self, binding: AclBinding) -> StandardAcl | None:
        at = self._find(binding)
        return None if at is None else self.table.acl(at)

    def get(self, acl_id: bytes) -> StandardAcl | None:
        at = self.table.find(acl_id)
        return None if at is None else self.table.acl(at)

    def dismantle(self) -> Iterator[None]:
        """Free everything in short steps; the index is of no use afterwards."""
        for names in self.types:
            if names is not None:
                for part in (names.literals, names.prefixes, names.names):
                    yield from part.dismantle()
        yield from self.principals.dismantle()
        yield from self.table.dismantle()

    def _end_for_good(self, at: int) -> None:
        table = self.table
        table.end_for_good(at)
        name, principal, host = table.names[at], table.principals[at], table.hosts[at]
        resource_type, pattern_type, _, _ = unpack_codes(table.codes[at])
        types, bucket = self.node(principal, resource_type), self.bucket((resource_type, pattern_type, name))
        if types is not None:
            self._compile(types, pattern_type, name, host, rows_at(bucket, principal, host, table))

    def _find(self, binding: AclBinding) -> int | None:
        bucket = self.bucket((binding.resource_type, binding.pattern_type, binding.resource_name))
        codes = pack_codes(binding.resource_type, binding.pattern_type, binding.operation, binding.permission_type)
        for at in rows_at(bucket, binding.principal, binding.host, self.table):
            if self.table.codes[at] == codes:
                return at
        return None

    def _compile(self, types: TypeNode, pattern_type: int, name: str, host: str, rows: Iterable[int]) -> None:
        mask, ending = 0, list[EndingMask]()
        for at in rows:
            codes, ends_at = self.table.codes[at], self.table.ends.get(at)
            packed = PACKED_MASKS[operation_in(codes), permission_type_in(codes)]
            if ends_at is None:
                mask |= packed
            else:
                ending.append((ends_at, packed))
                if ends_at > ENDED:
                    self.ends.add(ends_at)
        entry = with_host(types.entries(pattern_type).get(name), host, mask, tuple(sorted(ending)))
        types.put(pattern_type, name, None if entry is None else self.share(entry))

    def share(self, entry: Entry) -> Entry:
        # A million entries need some hundred numbers.
        return entry if isinstance(entry, HostMasks) else self.masks.setdefault(entry, entry)


def mask_at(entry: Entry, address: ClientAddress) -> int:
    return entry.at(address) if isinstance(entry, HostMasks) else entry


def _put(entries: MutableMapping[str, Entry], name: str, entry: Entry | None) -> None:
    if entry is None:
        del entries[name]
    else:
        entries[name] = entry
