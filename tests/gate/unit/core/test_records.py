from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from typing import Any
from uuid import UUID

import pytest

from app.core.records import GENESIS_HASH, Record, record_hash
from tests.chains import config, gone, put
from tests.updates import topic

ADDED = replace(put(topic("orders")), offset=7, tx_last=9)
REMOVED = replace(gone(topic("orders")), offset=7, tx_last=9)
SET = replace(config("super.users", "User:a"), offset=7, tx_last=9)


def test_hashes_never_change() -> None:
    """They stand in the store and in backups: another value would break every chain."""
    assert bytes(32) == GENESIS_HASH
    assert record_hash(GENESIS_HASH, ADDED).hex() == "e7299791b1c1bc5da500c07a469a6dc561f7dc4f0d494742028d76457332d729"
    assert (
        record_hash(GENESIS_HASH, REMOVED).hex() == "3e80a87864bfc77929237a83a2dd2f203d0a2e92c448eff074ccd67a1db99005"
    )
    assert record_hash(GENESIS_HASH, SET).hex() == "097900b5a504402083b8d310f968a7fe286d0b88dfab8eee2cbc672423050492"


def test_every_common_field_is_covered(subtests: pytest.Subtests) -> None:
    cases_0: Iterable[Record] = [ADDED, REMOVED, SET]
    for record in cases_0:
        cases_1: Iterable[dict[str, Any]] = [
            {"offset": 8},
            {"tx_last": 10},
            {"actor": "User:b"},
            {"recorded_at": datetime(2026, 1, 1, 0, 0, 0, 1, tzinfo=UTC)},
        ]
        for change in cases_1:
            with subtests.test(record=record, change=change):
                assert record_hash(GENESIS_HASH, replace(record, **change)) != record_hash(GENESIS_HASH, record)


def test_what_the_record_is_about_is_covered() -> None:
    others: list[Record] = [
        ADDED,
        REMOVED,
        replace(ADDED, acl=replace(ADDED.acl, id=UUID(int=2))),
        replace(ADDED, acl=replace(ADDED.acl, binding=topic("order"))),
        SET,
        replace(SET, name="audit.level"),
        replace(SET, value=None),
        replace(SET, value=""),
    ]
    assert len({record_hash(GENESIS_HASH, record) for record in others}) == len(others)


def test_the_hash_before_is_covered_and_its_own_is_not() -> None:
    assert record_hash(b"\1" * 32, ADDED) != record_hash(GENESIS_HASH, ADDED)
    assert record_hash(GENESIS_HASH, replace(ADDED, hash=b"x")) == record_hash(GENESIS_HASH, ADDED)


def test_one_instant_in_two_time_zones_is_one_hash() -> None:
    elsewhere = ADDED.recorded_at.astimezone(timezone(timedelta(hours=5, minutes=30)))
    assert record_hash(GENESIS_HASH, replace(ADDED, recorded_at=elsewhere)) == record_hash(GENESIS_HASH, ADDED)


@pytest.mark.parametrize("microsecond", [0, 1, 3, 7, 999_999])
def test_every_microsecond_counts(microsecond: int) -> None:
    def at(when: datetime) -> bytes:
        return record_hash(GENESIS_HASH, replace(SET, recorded_at=when))

    when = datetime(2199, 12, 31, 23, 59, 59, microsecond, tzinfo=UTC)
    assert at(when) != at(when + timedelta(microseconds=1))
    assert at(when) == at(when + timedelta(0))
