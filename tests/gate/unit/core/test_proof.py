"""Histories that no store can have: the proof says of each where it breaks."""

from datetime import UTC, datetime
from uuid import UUID

import pytest

from app.core.digest import MODULUS, acl_digest, config_digest
from app.core.kafka.bindings import AclBinding, StandardAcl
from app.core.kafka.codes import AclOperation, AclPermissionType, PatternType, ResourceType
from app.core.proof import FeedDamagedError, FeedProof
from app.core.records import (
    GENESIS_HASH,
    AccessControlEntryRecord,
    ConfigRecord,
    Record,
    RemoveAccessControlEntryRecord,
    record_hash,
)

NOON = datetime(2026, 11, 26, 12, tzinfo=UTC)


def acl(number: int, name: str) -> StandardAcl:
    return StandardAcl(
        UUID(int=number),
        AclBinding(
            ResourceType.TOPIC,
            name,
            PatternType.LITERAL,
            "User:alice",
            "*",
            AclOperation.READ,
            AclPermissionType.ALLOW,
        ),
    )


def created(offset: int, of: StandardAcl) -> Record:
    return AccessControlEntryRecord(offset, offset, of, NOON, "User:admin", b"")


def removed(offset: int, of: StandardAcl) -> Record:
    return RemoveAccessControlEntryRecord(offset, offset, of, NOON, "User:admin", b"")


def configured(offset: int, value: str | None) -> Record:
    return ConfigRecord(offset, offset, "super.users", value, NOON, "User:admin", b"")


def followed(*records: Record) -> FeedProof:
    proof, chained = FeedProof(), GENESIS_HASH
    for record in records:
        chained = record_hash(chained, record)
        proof.follow([record], chained)
    return proof


def test_rows_come_change_and_go_with_their_part_of_the_digest() -> None:
    ours, owned = acl(1, "orders"), StandardAcl(UUID(int=1), acl(1, "orders").binding, owner="team")
    proof = followed(created(1, ours), created(2, owned), configured(3, "User:root"))
    assert (proof.acl_count, proof.config_count, proof.records) == (1, 1, 3)
    assert proof.digest == (acl_digest(owned) + config_digest("super.users", "User:root")) % MODULUS
    gone = followed(created(1, ours), removed(2, ours), configured(3, "User:root"), configured(4, None))
    assert (gone.acl_count, gone.config_count, gone.digest) == (0, 0, 0)


@pytest.mark.parametrize(
    ("history", "why"),
    [
        ([created(1, acl(1, "orders")), created(2, acl(1, "bills"))], "record 2: .* has other fields than before"),
        ([created(1, acl(1, "orders")), removed(2, acl(1, "bills"))], "record 2: .* has other fields than before"),
        (
            [created(1, acl(1, "orders")), created(2, acl(2, "orders"))],
            "record 2: an ACL with these fields already exists",
        ),
        ([removed(1, acl(1, "orders"))], "record 1: there is no ACL .* to remove"),
    ],
    ids=["a row with other fields", "a removal with other fields", "a second id", "nothing to remove"],
)
def test_records_that_no_store_writes_are_refused(history: list[Record], why: str) -> None:
    with pytest.raises(FeedDamagedError, match=why):
        followed(*history)


def test_a_snapshot_has_each_row_once() -> None:
    for again, why in ((acl(1, "bills"), "is in the snapshot twice"), (acl(2, "orders"), "already exists")):
        proof = FeedProof()
        proof.begin(7, b"7" * 32)
        with pytest.raises(FeedDamagedError, match=why):
            proof.add_acls([acl(1, "orders"), again])
