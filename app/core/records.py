"""The change feed's records, its head, and its hash chain (DESIGN: store and change feed).

Offsets are dense and rise in commit order; each record's hash covers the one before it.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from struct import Struct
from uuid import UUID

from app.core.digest import seconds_of
from app.core.epochs import Epochs
from app.core.kafka.bindings import StandardAcl, canonical_fields

_UNIX_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_NUMBERS = Struct(">QQq")

GENESIS_HASH = bytes(32)

MAX_TRANSACTION_BYTES = 16 * 1024 * 1024
"""The most bytes of canonical records in one transaction (docs/feed.md).

A transaction is never split, so whoever writes one keeps to this bound. The bounds of those who read it follow from it.
"""


@dataclass(frozen=True, slots=True)
class AccessControlEntryRecord:
    """An ACL was created; or an existing one, with the same id, was given other terms."""

    offset: int
    tx_last: int
    acl: StandardAcl
    recorded_at: datetime
    actor: str
    hash: bytes
    comment: str | None = None


@dataclass(frozen=True, slots=True)
class RemoveAccessControlEntryRecord:
    """An ACL was deleted; the record keeps its full row."""

    offset: int
    tx_last: int
    acl: StandardAcl
    recorded_at: datetime
    actor: str
    hash: bytes
    comment: str | None = None


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
    comment: str | None = None


Record = AccessControlEntryRecord | RemoveAccessControlEntryRecord | ConfigRecord


@dataclass(frozen=True, slots=True)
class FeedHead:
    """The one row of `acl_head`: which store this is and how far it has come.

    `digest` is the whole image's (`app.core.digest`); None if it was not kept up to this offset. `known_epochs` are the
    epochs of its history up to `epoch`; None if whoever says this knows of no earlier ones.
    """

    cluster_id: str
    epoch: UUID
    last_offset: int
    hash: bytes
    log_start_offset: int
    digest: int | None = None
    known_epochs: Epochs | None = None

    @property
    def epochs(self) -> Epochs:
        return self.known_epochs or Epochs.only(self.epoch)


@dataclass(frozen=True, slots=True)
class FeedPoll:
    """One poll of the feed, all read in one snapshot of the database.

    `hash_at` is the hash of the record at the offset asked about: the head's own hash if the offset is the head's,
    GENESIS_HASH for offset 0, None if there is no such record (trimmed, or never written here).
    `records` begin at the offset after it and end with a whole transaction. `age_s` says how long ago the head was
    known to be the store's, if it comes by way of another replica, and `doubt` why it may not be any more.
    `store_time` is a time that the store's clock had not passed when the poll was asked for; None: it is not known.
    `holds_ended`: there are ACLs that have ended by the store's clock, and this replica may have them removed.
    `snapshot_needed` says why nothing follows this offset without a snapshot; None: the feed goes on from there.
    `is_of_primary`: the head was read from the store itself, and not on a standby: only then it proves that a position
    is lost.
    """

    head: FeedHead
    hash_at: bytes | None
    records: Sequence[Record]
    store_time: datetime | None = None
    holds_ended: bool = False
    age_s: float = 0.0
    doubt: str | None = None
    snapshot_needed: str | None = None
    is_of_primary: bool = True


LATEST_HASH_VERSION = 2


def hash_version(record: Record) -> int:
    """Which of the two forms a record is hashed in: 1, or 2 if it says anything that form 1 has no place for."""
    if record.comment is not None:
        return 2
    return 2 if not isinstance(record, ConfigRecord) and record.acl.has_terms else 1


def record_hash(previous: bytes, record: Record) -> bytes:
    """SHA-256 over the previous hash and every field of the record but its own hash."""
    digest = hashlib.sha256(previous)
    digest.update(canonical_record(record))
    return digest.digest()


def canonical_record(record: Record) -> bytes:
    """The record as bytes (docs/feed.md). Form 2 begins with a byte 2, unlike form 1, and says more at the end."""
    micros = (record.recorded_at - _UNIX_EPOCH) // _MICROSECOND
    numbers = _NUMBERS.pack(record.offset, record.tx_last, micros)
    parts = [type(record).__name__.encode(), numbers, _text(record.actor)]
    if isinstance(record, ConfigRecord):
        parts += [_text(record.name), _optional(record.value)]
    else:
        parts += [record.acl.id.bytes, canonical_fields(record.acl.binding)]
    if hash_version(record) == 1:
        return b"".join(parts)
    if not isinstance(record, ConfigRecord):
        ends = record.acl.expires_at
        parts.append(b"\0" if ends is None else b"\1" + seconds_of(ends).to_bytes(8, "big", signed=True))
        parts.append(_optional(record.acl.owner))
    return b"".join([b"\2", *parts, _optional(record.comment)])


def record_bytes(record: Record) -> int:
    """The size of the canonical record, which neither its offsets nor its hash change."""
    return len(canonical_record(record))


def _optional(text: str | None) -> bytes:
    return b"\0" if text is None else b"\1" + _text(text)


def _text(text: str) -> bytes:
    raw = text.encode()
    return len(raw).to_bytes(4, "big") + raw
