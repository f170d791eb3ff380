"""The rows on one resource pattern: packed while they are few, by principal and host when they become many.

However many ACLs share a pattern, or even a pattern and a principal, finding and removing one looks at some dozens.
"""

from collections.abc import Iterable, Iterator, MutableMapping
from itertools import chain

from app.core.index.containers import SortedNames
from app.core.index.table import AclTable

HOT = 64
"""Up to this many rows are scanned one by one; a pattern with more keeps them by principal."""


class HostRows:
    """One principal's rows on a pattern, packed by host."""

    __slots__ = ("by_host", "hosts")

    def __init__(self) -> None:
        self.by_host: MutableMapping[str, bytes] = {}
        self.hosts = SortedNames()

    def add(self, host: str, row: int) -> None:
        packed = self.by_host.get(host)
        if packed is None:
            self.hosts.add(host)
        self.by_host[host] = pack((row,), packed or b"")

    def remove(self, host: str, row: int) -> None:
        left = _without_packed(self.by_host[host], row)
        if left:
            self.by_host[host] = left
        else:
            del self.by_host[host]
            self.hosts.remove(host)


Rows = bytes | HostRows
"""One principal's rows on a pattern: packed row numbers of 4 bytes while they are few."""


class HotBucket:
    __slots__ = ("by_principal", "principals")

    def __init__(self) -> None:
        self.by_principal: MutableMapping[str, Rows] = {}
        self.principals = SortedNames()

    def add(self, principal: str, row: int, table: AclTable) -> None:
        rows = self.by_principal.get(principal)
        if rows is None:
            self.principals.add(principal)
        self.by_principal[principal] = _with(rows or b"", row, table)

    def remove(self, principal: str, row: int, table: AclTable) -> None:
        rows = _without(self.by_principal[principal], row, table)
        if rows is not None:
            self.by_principal[principal] = rows
        else:
            del self.by_principal[principal]
            self.principals.remove(principal)


Bucket = bytes | HotBucket


def pack(rows: Iterable[int], before: bytes = b"") -> bytes:
    return before + b"".join(row.to_bytes(4, "little") for row in rows)


def unpack(packed: bytes) -> list[int]:
    return [int.from_bytes(packed[at : at + 4], "little") for at in range(0, len(packed), 4)]


def with_row(bucket: Bucket | None, principal: str, row: int, table: AclTable) -> Bucket:
    if isinstance(bucket, HotBucket):
        bucket.add(principal, row, table)
        return bucket
    packed = pack((row,), bucket or b"")
    if len(packed) <= 4 * HOT:
        return packed
    hot = HotBucket()
    for each in unpack(packed):
        hot.add(table.principals[each], each, table)
    return hot


def without_row(bucket: Bucket, principal: str, row: int, table: AclTable) -> Bucket | None:
    if isinstance(bucket, HotBucket):
        bucket.remove(principal, row, table)
        return bucket if bucket.by_principal else None
    return _without_packed(bucket, row) or None


def rows_of(bucket: Bucket | None, principal: str, table: AclTable) -> list[int]:
    if isinstance(bucket, HotBucket):
        rows = bucket.by_principal.get(principal, b"")
        return unpack(b"".join(_packs(rows)))
    return [row for row in unpack(bucket or b"") if table.principals[row] == principal]


def packs_of(bucket: Bucket, principal: str, table: AclTable) -> Iterator[list[int]]:
    """The same in lists of some dozens each; the bucket must not change in between."""
    if not isinstance(bucket, HotBucket):
        yield rows_of(bucket, principal, table)
        return
    yield from map(unpack, _packs(bucket.by_principal.get(principal, b"")))


def all_packs(bucket: Bucket) -> Iterable[bytes]:
    """All rows in the bucket, some dozens packed together; it must not change in between."""
    if not isinstance(bucket, HotBucket):
        return (bucket,)
    return chain.from_iterable(map(_packs, bucket.by_principal.values()))


def rows_at(bucket: Bucket | None, principal: str, host: str, table: AclTable) -> list[int]:
    """The rows of this principal with this host in the bucket: some dozens at most, by operation and permission."""
    if isinstance(bucket, HotBucket):
        rows = bucket.by_principal.get(principal, b"")
        if not isinstance(rows, bytes):
            return unpack(rows.by_host.get(host, b""))
        return [row for row in unpack(rows) if table.hosts[row] == host]
    return [row for row in rows_of(bucket, principal, table) if table.hosts[row] == host]


def first_row(bucket: Bucket) -> int:
    return int.from_bytes(next(iter(all_packs(bucket)))[:4], "little")


def ordered_rows(
    bucket: Bucket, principal: str | None, after: tuple[str, str] | None, table: AclTable
) -> Iterator[list[int]]:
    """The rows of one principal, or of all, in list order and in lists of bounded size.

    From the principal and host `after` on; some rows before it may come again.
    """
    if not isinstance(bucket, HotBucket):
        rows = unpack(bucket) if principal is None else rows_of(bucket, principal, table)
        yield sorted(rows, key=table.key)
        return
    if principal is not None:
        yield from _ordered_rows_of(bucket, (principal,), after, table)
        return
    last, including = None if after is None else after[0], True
    while principals := bucket.principals.first(HOT, last, including=including):
        yield from _ordered_rows_of(bucket, principals, after, table)
        last, including = principals[-1], False


def _ordered_rows_of(
    bucket: HotBucket, principals: Iterable[str], after: tuple[str, str] | None, table: AclTable
) -> Iterator[list[int]]:
    few: list[int] = []
    # INVARIANT: `few` is empty at a yield's return; row numbers would not survive it.
    for principal in principals:
        rows = bucket.by_principal.get(principal, b"")
        if isinstance(rows, bytes):
            few += unpack(rows)
        if few and (len(few) > HOT or not isinstance(rows, bytes)):
            rows_now, few = few, []
            yield sorted(rows_now, key=table.key)
        if isinstance(rows, bytes):
            continue
        last, including = after[1] if after is not None and after[0] == principal else "", True
        while hosts := rows.hosts.first(HOT, last, including=including):
            some = [row for host in hosts for row in unpack(rows.by_host.get(host, b""))]
            yield sorted(some, key=table.key)
            last, including = hosts[-1], False
    if few:
        yield sorted(few, key=table.key)


def _packs(rows: Rows) -> Iterable[bytes]:
    return (rows,) if isinstance(rows, bytes) else rows.by_host.values()


def _with(rows: Rows, row: int, table: AclTable) -> Rows:
    if not isinstance(rows, bytes):
        rows.add(table.hosts[row], row)
        return rows
    packed = pack((row,), rows)
    if len(packed) <= 4 * HOT:
        return packed
    found = HostRows()
    for each in unpack(packed):
        found.add(table.hosts[each], each)
    return found


def _without(rows: Rows, row: int, table: AclTable) -> Rows | None:
    """None if none is left."""
    if isinstance(rows, bytes):
        return _without_packed(rows, row) or None
    rows.remove(table.hosts[row], row)
    return rows if rows.by_host else None


def _without_packed(packed: bytes, row: int) -> bytes:
    return pack(other for other in unpack(packed) if other != row)
