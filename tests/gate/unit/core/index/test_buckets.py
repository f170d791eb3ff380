from collections.abc import Sequence

import pytest

from app.core.index.buckets import Bucket, HotBucket, first_row, ordered_rows, rows_at, rows_of, with_row, without_row
from app.core.index.table import AclTable
from app.core.kafka.bindings import AclBinding
from app.core.kafka.codes import AclOperation
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


def many_hosts(hosts: int) -> list[AclBinding]:
    """ACLs of one principal for many hosts, two each, between two principals with one; not in list order."""
    acls = acls_of(3)
    one = acls[1]
    return acls + [
        AclBinding(
            one.resource_type, one.resource_name, one.pattern_type, one.principal, host, operation, one.permission_type
        )
        for host in (f"10.0.{n * 7919 % hosts // 250}.{n * 7919 % hosts % 250}" for n in range(hosts))
        for operation in (AclOperation.READ, AclOperation.WRITE)
    ]


SETS = [
    acls_of(3, each=2),
    acls_of(30, each=2),
    acls_of(200, each=2),
    many_hosts(20),
    many_hosts(31),
    many_hosts(300),
    many_hosts(300)[3:],
]


def test_rows_come_in_list_order_from_any_place_on(subtests: pytest.Subtests) -> None:
    for bindings in SETS:
        with subtests.test(bindings=bindings):
            table, bucket, rows = filled(bindings)
            places = [None, ("", ""), ("User:0001", "10.0.0.7"), ("User:0015", ""), ("User:9999", "*")]
            for after in places:
                for principal in (None, "User:0001", "User:nobody"):
                    steps = list(ordered_rows(bucket, principal, after, table))
                    found = [row for step in steps for row in step]
                    wanted = sorted((row for row in rows if principal in (None, table.principals[row])), key=table.key)
                    assert found == sorted(set(found), key=table.key)
                    behind = [
                        row for row in wanted if after is None or (table.principals[row], table.hosts[row]) >= after
                    ]
                    assert behind == found[len(found) - len(behind) :]
                    assert set(found) <= set(wanted)
                    assert max(map(len, steps), default=0) <= 130


def test_the_rows_of_a_host_are_found_without_the_others(subtests: pytest.Subtests) -> None:
    for bindings in SETS:
        with subtests.test(bindings=bindings):
            table, bucket, rows = filled(bindings)
            for at in rows:
                found = rows_at(bucket, table.principals[at], table.hosts[at], table)
                assert at in found
                assert {(table.principals[row], table.hosts[row]) for row in found} == {
                    (table.principals[at], table.hosts[at])
                }
            assert rows_at(bucket, table.principals[rows[-1]], "10.9.9.9", table) == []
            assert rows_at(None, "User:0000", "*", table) == []
            assert first_row(bucket) in rows


def test_removing_row_by_row_leaves_nothing(subtests: pytest.Subtests) -> None:
    for bindings in SETS:
        with subtests.test(bindings=bindings):
            table, bucket, rows = filled(bindings)
            left: Bucket | None = bucket
            for n, at in enumerate(rows, 1):
                assert left is not None
                left = without_row(left, table.principals[at], at, table)
                remaining = (
                    [] if left is None else [row for step in ordered_rows(left, None, None, table) for row in step]
                )
                assert sorted(remaining) == rows[n:]
            assert left is None


def test_a_walk_goes_on_while_rows_come_and_go() -> None:
    table, bucket, rows = filled(many_hosts(300))
    walk = ordered_rows(bucket, None, None, table)
    next(walk)
    left: Bucket | None = bucket
    for at in rows:
        assert left is not None
        left = without_row(left, table.principals[at], at, table)
    assert not any(walk)


def test_a_hot_bucket_stays_hot_until_it_is_empty() -> None:
    table, bucket, rows = filled(acls_of(100))
    left: Bucket | None = bucket
    for at in rows[:-1]:
        assert left is not None
        left = without_row(left, table.principals[at], at, table)
    assert isinstance(left, HotBucket)
    assert without_row(left, table.principals[rows[-1]], rows[-1], table) is None
