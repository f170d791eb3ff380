"""The rows that stand on one resource pattern: packed while they are few, by principal when they are many."""

from collections.abc import Iterable, Iterator

from app.core.containers import SortedNames
from app.core.table import AclTable

_HOT = 64


class HotBucket:
    """The rows of a pattern that many principals have ACLs on."""

    __slots__ = ("by_principal", "principals")

    def __init__(self) -> None:
        self.by_principal: dict[str, bytes] = {}
        self.principals = SortedNames()

    def add(self, principal: str, row: int) -> None:
        """Add this principal's row."""
        rows = self.by_principal.get(principal)
        if rows is None:
            self.principals.add(principal)
        self.by_principal[principal] = pack((row,), rows or b"")

    def remove(self, principal: str, row: int) -> None:
        """Take this principal's row out."""
        rows = without(self.by_principal[principal], row)
        if rows:
            self.by_principal[principal] = rows
        else:
            del self.by_principal[principal]
            self.principals.remove(principal)


Bucket = bytes | HotBucket
"""The rows of one resource pattern: packed row numbers of 4 bytes, or by principal."""


def pack(rows: Iterable[int], before: bytes = b"") -> bytes:
    """Append row numbers to packed ones."""
    return before + b"".join(row.to_bytes(4, "little") for row in rows)


def unpack(packed: bytes) -> list[int]:
    """The row numbers in this pack."""
    return [int.from_bytes(packed[at : at + 4], "little") for at in range(0, len(packed), 4)]


def without(packed: bytes, row: int) -> bytes:
    """The pack without this row number."""
    return pack(other for other in unpack(packed) if other != row)


def with_row(bucket: Bucket | None, principal: str, row: int, table: AclTable) -> Bucket:
    """The bucket with one more row; turns hot when it has grown large."""
    if isinstance(bucket, HotBucket):
        bucket.add(principal, row)
        return bucket
    packed = pack((row,), bucket or b"")
    if len(packed) <= 4 * _HOT:
        return packed
    hot = HotBucket()
    for each in unpack(packed):
        hot.add(table.principals[each], each)
    return hot


def without_row(bucket: Bucket, principal: str, row: int) -> Bucket | None:
    """The bucket with one row less; None when it is empty. A hot bucket stays hot until then."""
    if isinstance(bucket, HotBucket):
        bucket.remove(principal, row)
        return bucket if bucket.by_principal else None
    return without(bucket, row) or None


def rows_of(bucket: Bucket | None, principal: str, table: AclTable) -> list[int]:
    """The rows of this principal in the bucket."""
    if bucket is None:
        return []
    if isinstance(bucket, HotBucket):
        return unpack(bucket.by_principal.get(principal, b""))
    return [row for row in unpack(bucket) if table.principals[row] == principal]


def first_row(bucket: Bucket) -> int:
    """Any row of the bucket (it is never empty)."""
    packed = next(iter(bucket.by_principal.values())) if isinstance(bucket, HotBucket) else bucket
    return int.from_bytes(packed[:4], "little")


def ordered_rows(bucket: Bucket, after: str | None, table: AclTable) -> Iterator[list[int]]:
    """The bucket's rows in list order, from principal `after` on, in lists of bounded size."""
    if not isinstance(bucket, HotBucket):
        rows = unpack(bucket)
        yield sorted((row for row in rows if after is None or table.principals[row] >= after), key=table.key)
        return
    including = True
    while principals := bucket.principals.first(_HOT, after, including=including):
        rows = [row for principal in principals for row in unpack(bucket.by_principal[principal])]
        yield sorted(rows, key=table.key)
        after, including = principals[-1], False
