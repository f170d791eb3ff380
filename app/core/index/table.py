"""Every ACL of the image in columns, for lists and explanations; decisions read masks instead.

A million ACLs as objects would cost a gigabyte and slow the garbage collector; columns cost 42 bytes an ACL.
"""

from array import array
from collections.abc import Iterator
from sys import intern
from uuid import UUID

from app.core.digest import seconds_of
from app.core.index.containers import ShardedDict, Slots
from app.core.index.packing import pack_codes, permission_type_in, unpack_codes
from app.core.kafka.bindings import NO_TERMS, AclBinding, AclRow, AclTerms, StandardAcl
from app.core.kafka.codes import WILDCARD, AclOperation, AclPermissionType, PatternType, ResourceType

SortKey = tuple[int, str, int, str, str, int, int]
"""Order of every list: resource type, resource name, pattern type, principal, host, operation, permission type."""

ENDED = 0
"""Before any time of a store."""

_ID_SHARDS = 4096
_FREE_AT_ONCE = 20_000


def sort_key(binding: AclBinding) -> SortKey:
    return (
        int(binding.resource_type),
        binding.resource_name,
        int(binding.pattern_type),
        binding.principal,
        binding.host,
        int(binding.operation),
        int(binding.permission_type),
    )


class AclTable:
    """ACLs by row number. Row numbers of removed ACLs are used again."""

    __slots__ = ("by_id", "codes", "count", "ends", "free_rows", "hosts", "ids", "names", "principals", "terms")

    def __init__(self) -> None:
        self.ids = bytearray()
        self.codes = array("H")
        self.names: list[str] = []
        self.principals: list[str] = []
        self.hosts: list[str] = []
        self.free_rows: list[int] = []
        by_id: list[array[int] | None] = [None] * _ID_SHARDS
        self.by_id: Slots[array[int] | None] = by_id
        self.terms: ShardedDict[bytes, AclTerms] = ShardedDict()
        """By id, for those ACLs that have any."""
        self.ends: ShardedDict[int, int] = ShardedDict()
        """By row: when ALLOWs that have an end do so, in seconds since 1970; ENDED for those that have for good."""
        self.count = 0

    def __len__(self) -> int:
        return self.count

    def add(self, row: AclRow) -> int:
        """Add an ACL and return its row number. Callers pass name and principal objects to be shared."""
        acl_id, resource_type, pattern_type, operation, permission_type, name, principal, host = row
        codes = pack_codes(resource_type, pattern_type, operation, permission_type)
        host = WILDCARD if host == WILDCARD else intern(host)
        if self.free_rows:
            at = self.free_rows.pop()
            self.ids[16 * at : 16 * at + 16] = acl_id
            self.codes[at] = codes
            self.names[at], self.principals[at], self.hosts[at] = name, principal, host
        else:
            at = len(self.codes)
            self.ids += acl_id
            self.codes.append(codes)
            self.names.append(name)
            self.principals.append(principal)
            self.hosts.append(host)
        shard = _shard(acl_id)
        rows = self.by_id[shard]
        if rows is None:
            rows = self.by_id[shard] = array("I")
        rows.append(at)
        self.count += 1
        return at

    def remove(self, at: int) -> None:
        acl_id = bytes(self.ids[16 * at : 16 * at + 16])
        self.set_terms(at, NO_TERMS)
        shard = _shard(acl_id)
        (self.by_id[shard] or array("I")).remove(at)
        self.count -= 1
        self.release(at)

    def set_terms(self, at: int, terms: AclTerms) -> bool:
        """Whether it is an ALLOW whose end has changed or gone."""
        acl_id = bytes(self.ids[16 * at : 16 * at + 16])
        if terms != NO_TERMS:
            self.terms.put(acl_id, terms)
        elif self.terms.get(acl_id) is not None:
            self.terms.remove(acl_id)
        before, ends_at = self.ends.get(at), None
        if terms.expires_at is not None and permission_type_in(self.codes[at]) == AclPermissionType.ALLOW:
            ends_at = seconds_of(terms.expires_at)
        if ends_at is not None:
            self.ends.put(at, ends_at)
        elif before is not None:
            self.ends.remove(at)
        return ends_at != before

    def end_for_good(self, at: int) -> None:
        """An ALLOW that has an end is seen at no time until it is given terms again; it is listed as before."""
        self.ends.put(at, ENDED)

    def release(self, at: int) -> None:
        self.codes[at] = 0
        self.names[at] = self.principals[at] = self.hosts[at] = ""
        self.free_rows.append(at)

    def find(self, acl_id: bytes) -> int | None:
        for at in self.by_id[_shard(acl_id)] or ():
            if self.ids[16 * at : 16 * at + 16] == acl_id:
                return at
        return None

    def acl(self, at: int) -> StandardAcl:
        resource_type, pattern_type, operation, permission_type = unpack_codes(self.codes[at])
        binding = AclBinding(
            ResourceType(resource_type),
            self.names[at],
            PatternType(pattern_type),
            self.principals[at],
            self.hosts[at],
            AclOperation(operation),
            AclPermissionType(permission_type),
        )
        acl_id = bytes(self.ids[16 * at : 16 * at + 16])
        return StandardAcl(UUID(bytes=acl_id), binding, *(self.terms.get(acl_id) or NO_TERMS))

    def key(self, at: int) -> SortKey:
        resource_type, pattern_type, operation, permission_type = unpack_codes(self.codes[at])
        name, principal, host = self.names[at], self.principals[at], self.hosts[at]
        return resource_type, name, pattern_type, principal, host, operation, permission_type

    def dismantle(self) -> Iterator[None]:
        yield from self.terms.dismantle()
        yield from self.ends.dismantle()
        for column in (self.names, self.principals, self.hosts):
            while column:
                del column[-_FREE_AT_ONCE:]
                yield
        for start in range(0, _ID_SHARDS, 256):
            for shard in range(start, start + 256):
                self.by_id[shard] = None
            yield


def _shard(acl_id: bytes | bytearray) -> int:
    # The last bytes are random in every UUID version; the first are a clock in version 7.
    return (acl_id[14] << 8 | acl_id[15]) & (_ID_SHARDS - 1)
