from collections.abc import Sequence

import pytest

from app.core.bindings import AclBinding
from app.core.buckets import Bucket, HotBucket, first_row, ordered_rows, rows_of, with_row, without_row
from app.core.codes import AclOperation
from app.core.table import AclTable
from tests.images import numbered
from tests.updates import topic


def acls_of(principals: int, each: int = 1) -> list[AclBinding]:
    """ACLs of many principals on one topic, not in list order."""
    operations = list(AclOperation)[3 : 3 + each]
    return [
        AclBinding(
            one.resource_type, one.resource_name, one.pattern_type, one.principal, "*", operation, one.permission_type
        )
        for one in (topic("orders", f"User:{n * 7919 % principals:04d}") for n in range(principals))
        for operation in operations
    ]


def filled(bindings: Sequence[AclBinding]) -> tuple[AclTable, Bucket, list[int]]:
    table, bucket = AclTable(), None
    rows = []
    for acl in numbered(bindings):
        at = table.add(acl.row)
        bucket = with_row(bucket, acl.binding.principal, at, table)
        rows.append(at)
    assert bucket is not None
    return table, bucket, rows


@pytest.mark.parametrize(("principals", "hot"), [(1, False), (64, False), (65, True), (300, True)])
def test_a_bucket_turns_hot_when_it_has_grown_large(principals: int, hot: bool) -> None:  # noqa: FBT001 (a table's column)
    table, bucket, rows = filled(acls_of(principals))
    assert isinstance(bucket, HotBucket) is hot
    assert first_row(bucket) in rows
    for at in rows:
        assert rows_of(bucket, table.principals[at], table) == [at]
    assert rows_of(bucket, "User:nobody", table) == []
    assert rows_of(None, "User:0000", table) == []


@pytest.mark.parametrize("principals", [3, 30, 200])
def test_rows_come_in_list_order_from_any_principal_on(principals: int) -> None:
    table, bucket, rows = filled(acls_of(principals, each=2))
    for after in (None, "", "User:0000", "User:0015", "User:9999"):
        steps = list(ordered_rows(bucket, after, table))
        found = [row for step in steps for row in step]
        expected = sorted((row for row in rows if after is None or table.principals[row] >= after), key=table.key)
        assert found == expected
        assert max(map(len, steps), default=0) <= 128


@pytest.mark.parametrize("principals", [2, 40, 100])
def test_removing_row_by_row_leaves_nothing(principals: int) -> None:
    table, bucket, rows = filled(acls_of(principals, each=2))
    left: Bucket | None = bucket
    for n, at in enumerate(rows, 1):
        assert left is not None
        left = without_row(left, table.principals[at], at)
        remaining = [] if left is None else [row for step in ordered_rows(left, None, table) for row in step]
        assert sorted(remaining) == rows[n:]
    assert left is None


def test_a_hot_bucket_stays_hot_until_it_is_empty() -> None:
    table, bucket, rows = filled(acls_of(100))
    left: Bucket | None = bucket
    for at in rows[:-1]:
        assert left is not None
        left = without_row(left, table.principals[at], at)
    assert isinstance(left, HotBucket)
    assert without_row(left, table.principals[rows[-1]], rows[-1]) is None
