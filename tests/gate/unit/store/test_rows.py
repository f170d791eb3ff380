"""Rows as core's values, strictly."""

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import cast
from uuid import UUID, uuid4

import asyncpg
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core.kafka.bindings import AclRow, StandardAcl
from app.core.kafka.errors import PoisonedRecordException, UnknownRecordException
from app.core.records import AccessControlEntryRecord, ConfigRecord
from app.store.rows import OrderCheck, acl_slice, record_of
from tests.updates import topic

TEXTS = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=20)
ESCAPES = {"\\": "\\\\", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\v": "\\v"}


def as_copied(row: AclRow) -> str:
    """A line as COPY writes it (PostgreSQL's CopyAttributeOutText)."""
    texts = ("".join(ESCAPES.get(c, c) for c in text) for text in row[5:])
    return "\t".join([row[0].hex(), *map(str, row[1:5]), *texts, "", ""])


@given(st.lists(st.tuples(TEXTS, TEXTS, TEXTS), max_size=5))
def test_what_copy_escapes_comes_back(texts: list[tuple[str, str, str]]) -> None:
    rows: list[AclRow] = [(uuid4().bytes, 2, 3, 15, 3, *three) for three in texts]

    assert acl_slice([as_copied(row).encode() for row in rows]).rows == rows


def test_a_line_that_is_no_acl_is_refused(subtests: pytest.Subtests) -> None:
    for line in [
        "",
        "00\t2\t3\t3\t3\tname\tprincipal\thost",
        "00\t2\t3\t3\t3\tname\tprincipal\thost\t\t\tmore",
        "0g\t2\t3\t3\t3\tname\tprincipal\thost\t\t",
        "00\t1\t3\t3\t3\tname\tprincipal\thost\t\t",
        "00\t2\t2\t3\t3\tname\tprincipal\thost\t\t",
        "00\t2\t3\t16\t3\tname\tprincipal\thost\t\t",
        "00\t2\t3\t3\t1\tname\tprincipal\thost\t\t",
        "00\t2\t3\t3\t\tname\tprincipal\thost\t\t",
        "00\t2\t3\t3\t3\tname\tprincipal\thost\tsoon\t",
        "00\t2\t3\t3\t3\tname\tprincipal\thost\t99999999999999\t",
    ]:
        with subtests.test(line=line), pytest.raises((ValueError, KeyError)):
            acl_slice([line.encode()])


def row(values: dict[str, object]) -> asyncpg.Record:
    """Only asyncpg makes its own rows; what is read here is a column by its name."""
    return cast("asyncpg.Record", values)


def record_row(**changes: object) -> asyncpg.Record:
    acl = StandardAcl(UUID(int=7), topic("orders"))
    values = {
        "offset": 5,
        "tx_last": 5,
        "kind": "AccessControlEntryRecord",
        "acl_id": acl.id,
        "resource_type": 2,
        "pattern_type": 3,
        "operation": 3,
        "permission_type": 3,
        "resource_name": "orders",
        "principal": "User:alice",
        "host": "*",
        "config_name": None,
        "config_value": None,
        "recorded_at": datetime(2026, 1, 1, tzinfo=UTC),
        "actor": "User:admin",
        "hash": bytes(32),
        "expires_at": None,
        "owner": None,
        "comment": None,
        "hash_version": 1,
    }
    return row(values | changes)


def test_rows_become_the_records_that_they_are() -> None:
    acl = StandardAcl(UUID(int=7), topic("orders"))
    at = datetime(2026, 1, 1, tzinfo=UTC)

    assert record_of(record_row()) == AccessControlEntryRecord(5, 5, acl, at, "User:admin", bytes(32))
    config = record_row(kind="ConfigRecord", config_name="super.users", acl_id=None, operation=None)
    assert record_of(config) == ConfigRecord(5, 5, "super.users", None, at, "User:admin", bytes(32))


@pytest.mark.parametrize(
    "changes", [{"hash_version": 3}, {"kind": "PartitionRecord"}, {"operation": 99}, {"resource_type": 8}]
)
def test_a_record_of_a_later_version_is_told_apart(changes: dict[str, object]) -> None:
    with pytest.raises(UnknownRecordException, match="version") as unknown:
        record_of(record_row(**changes))
    assert unknown.value.offset == 5


@pytest.mark.parametrize("changes", [{"hash_version": 2}, {"host": None}, {"acl_id": None}])
def test_a_damaged_record_is_no_later_one(changes: dict[str, object]) -> None:
    with pytest.raises(PoisonedRecordException) as poison:
        record_of(record_row(**changes))
    assert not isinstance(poison.value, UnknownRecordException)


def check(last_offset: int, *pieces: list[tuple[int, int]], after: int = 0) -> None:
    order = OrderCheck(after, last_offset)
    for piece in pieces:
        order.check([row({"offset": offset, "tx_last": tx_last}) for offset, tx_last in piece])
    order.check_end()


def test_whole_transactions_without_a_hole_pass() -> None:
    check(0)
    check(3, after=3)
    check(9, [(1, 2), (2, 2)])
    check(5, [(1, 1), (2, 4)], [(3, 4), (4, 4), (5, 5)])
    check(8, [(7, 8), (8, 8)], after=6)


def test_any_other_order_is_poison_at_its_place(subtests: pytest.Subtests) -> None:
    cases: Iterable[tuple[list[list[tuple[int, int]]], int]] = [
        ([[]], 1),
        ([[(2, 2)]], 1),
        ([[(1, 1), (3, 3)]], 2),
        ([[(1, 2)]], 2),
        ([[(1, 3)], [(2, 3)]], 3),
        ([[(1, 0)]], 1),
        ([[(1, 2), (2, 3), (3, 3)]], 2),
        ([[(1, 1), (1, 1)]], 2),
        ([[(1, 1), (2, 2), (3, 3), (4, 4)]], 4),
    ]
    for pieces, offset in cases:
        with subtests.test(pieces=pieces, offset=offset):
            with pytest.raises(PoisonedRecordException) as poison:
                check(3, *pieces)
            assert poison.value.offset == offset
