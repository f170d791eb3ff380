"""Transactions of the change feed, chained as the store chains them."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from uuid import UUID

from app.core.kafka.bindings import AclBinding, StandardAcl
from app.core.records import (
    AccessControlEntryRecord,
    ConfigRecord,
    Record,
    RemoveAccessControlEntryRecord,
    record_hash,
)

WHEN = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
ACTOR = "User:admin"


def put(binding: AclBinding, number: int = 1) -> AccessControlEntryRecord:
    """An ACL with this number as its id came to be; to be chained."""
    return AccessControlEntryRecord(0, 0, StandardAcl(UUID(int=number), binding), WHEN, ACTOR, b"")


def gone(binding: AclBinding, number: int = 1) -> RemoveAccessControlEntryRecord:
    """The same ACL went; to be chained."""
    return RemoveAccessControlEntryRecord(0, 0, StandardAcl(UUID(int=number), binding), WHEN, ACTOR, b"")


def config(name: str, value: str | None) -> ConfigRecord:
    """A configuration changed; to be chained."""
    return ConfigRecord(0, 0, name, value, WHEN, ACTOR, b"")


def transaction(offset: int, previous: bytes, drafts: Sequence[Record]) -> list[Record]:
    """The drafts as one transaction behind the record at this offset with this hash."""
    records: list[Record] = []
    for at, draft in enumerate(drafts, offset + 1):
        record = replace(draft, offset=at, tx_last=offset + len(drafts))
        previous = record_hash(previous, record)
        records.append(replace(record, hash=previous))
    return records
