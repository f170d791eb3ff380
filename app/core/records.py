"""The change feed's records, its head, and its hash chain (DESIGN: store and change feed).

Offsets are dense and rise in commit order; each record's hash covers the one before it.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from uuid import UUID

from app.core.kafka.bindings import StandardAcl, canonical_fields

_UNIX_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

GENESIS_HASH = bytes(32)


@dataclass(frozen=True, slots=True)
class AccessControlEntryRecord:
    """An ACL was created."""

    offset: int
    tx_last: int
    acl: StandardAcl
    recorded_at: datetime
    actor: str
    hash: bytes


@dataclass(frozen=True, slots=True)
class RemoveAccessControlEntryRecord:
    """An ACL was deleted; the record keeps its full row."""

    offset: int
    tx_last: int
    acl: StandardAcl
    recorded_at: datetime
    actor: str
    hash: bytes


@dataclass(frozen=True, slots=True)
class ConfigRecord:
    """A configuration changed; a value of None returns the property to its start-up setting."""

    offset: int
    tx_last: int
    name: str
    value: str | None
    recorded_at: datetime
    actor: str
    hash: bytes


Record = AccessControlEntryRecord | RemoveAccessControlEntryRecord | ConfigRecord


@dataclass(frozen=True, slots=True)
class FeedHead:
    """The one row of `acl_head`: which store this is and how far it has come."""

    cluster_id: str
    epoch: UUID
    last_offset: int
    hash: bytes
    log_start_offset: int


@dataclass(frozen=True, slots=True)
class FeedPoll:
    """One poll of the feed, all read in one snapshot of the database.

    `hash_at` is the hash of the record at the offset asked about: the head's own hash if the offset is the head's,
    GENESIS_HASH for offset 0, None if there is no such record (trimmed, or never written here).
    `records` begin at the offset after it and end with a whole transaction.
    """

    head: FeedHead
    hash_at: bytes | None
    records: Sequence[Record]


def record_hash(previous: bytes, record: Record) -> bytes:
    """SHA-256 over the hash before and every field of the record but its own hash."""
    digest = hashlib.sha256(previous)
    digest.update(_canonical(record))
    return digest.digest()


def _canonical(record: Record) -> bytes:
    micros = (record.recorded_at - _UNIX_EPOCH) // timedelta(microseconds=1)
    parts = [
        type(record).__name__.encode(),
        record.offset.to_bytes(8, "big"),
        record.tx_last.to_bytes(8, "big"),
        micros.to_bytes(8, "big", signed=True),
        _text(record.actor),
    ]
    if isinstance(record, ConfigRecord):
        parts.append(_text(record.name))
        parts.append(b"\0" if record.value is None else b"\1" + _text(record.value))
    else:
        parts.append(record.acl.id.bytes)
        parts.append(canonical_fields(record.acl.binding))
    return b"".join(parts)


def _text(text: str) -> bytes:
    raw = text.encode()
    return len(raw).to_bytes(4, "big") + raw
