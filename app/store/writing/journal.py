"""The tail of the change feed, as a writer under the head's lock extends it."""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any
from uuid import UUID

from app.core.continuity import FeedPosition
from app.core.kafka.bindings import AclBinding
from app.core.records import ConfigRecord, Record, record_hash
from app.store.engine import Connection
from app.store.slices import in_slices

CHANNEL = "klamm_feed"
"""NOTIFY carries `<epoch>:<offset>` here; a hint only."""

_ROWS_PER_STATEMENT = 500

_APPEND = """INSERT INTO acl_record ("offset", tx_last, kind, acl_id, resource_type, pattern_type, operation,
    permission_type, resource_name, principal, host, config_name, config_value, recorded_at, actor, hash)
SELECT r."offset", $15, r.kind, r.acl_id, r.resource_type, r.pattern_type, r.operation,
    r.permission_type, r.resource_name, r.principal, r.host, r.config_name, r.config_value, $16, r.actor, r.hash
FROM unnest($1::bigint[], $2::text[], $3::uuid[], $4::smallint[], $5::smallint[], $6::smallint[], $7::smallint[],
    $8::text[], $9::text[], $10::text[], $11::text[], $12::text[], $13::text[], $14::bytea[])
    AS r("offset", kind, acl_id, resource_type, pattern_type, operation, permission_type, resource_name, principal,
        host, config_name, config_value, actor, hash)"""

BINDING_COLUMNS = (
    "resource_type",
    "pattern_type",
    "operation",
    "permission_type",
    "resource_name",
    "principal",
    "host",
)
"""Of `acl` and of `acl_record`, in the order of `binding_values`."""

_COLUMNS = (
    *("offset", "kind", "acl_id"),
    *BINDING_COLUMNS,
    *("config_name", "config_value", "actor", "hash", "tx_last", "recorded_at"),
)

_MOVE_HEAD = """WITH moved AS (
    UPDATE acl_head SET epoch = $1, last_offset = $2, hash = $3, system_identifier = $4, timeline = $5
    RETURNING epoch, last_offset
)
SELECT pg_notify($6, epoch || ':' || last_offset) FROM moved"""


@dataclass(frozen=True, slots=True)
class ServerIdentity:
    """Which PostgreSQL this is; a promotion changes the timeline, a restore into another cluster the identifier."""

    system_identifier: int | None = None
    timeline: int | None = None


@dataclass(frozen=True, slots=True)
class LockedHead:
    """`acl_head` under its lock, and the database's clock after the lock was had.

    INVARIANT: made by `lock_head` of app.store.writing.epoch alone, which proves that no token of it means two states.
    """

    epoch: UUID
    last_offset: int
    hash: bytes
    identity: ServerIdentity
    recorded_at: datetime
    begins_epoch: bool
    """Whether the epoch is a new one, which the store has yet to learn of."""

    @property
    def position(self) -> FeedPosition:
        """What a process knows of the store's history once this head is committed."""
        return FeedPosition(self.epoch, self.last_offset, self.hash)


async def append(connection: Connection, head: LockedHead, drafts: Sequence[Record]) -> bytes:
    """Appends the drafts as one transaction of the feed; the hash of the last one comes back.

    A draft is a record that has its offset already but neither the end of its transaction nor its hash.
    """
    tx_last = head.last_offset + len(drafts)
    waiting: list[tuple[Any, ...]] = []
    chained = head.hash
    async for rows in _chained(head, drafts):
        waiting += rows
        chained = rows[-1][-1]
        if len(waiting) >= _ROWS_PER_STATEMENT:
            await _insert(connection, waiting, tx_last, head.recorded_at)
            waiting.clear()
    if waiting:
        await _insert(connection, waiting, tx_last, head.recorded_at)
    return chained


async def append_by_copy(connection: Connection, head: LockedHead, drafts: Sequence[Record]) -> bytes:
    """Does what `append` does, for many drafts in fewer steps."""
    tail = (head.last_offset + len(drafts), head.recorded_at)
    chained = head.hash
    copied: list[tuple[Any, ...]] = []
    async for rows in _chained(head, drafts):
        copied += [row + tail for row in rows]
        chained = rows[-1][-1]
    await connection.copy_records_to_table("acl_record", records=copied, columns=_COLUMNS)
    return chained


async def move_head(connection: Connection, head: LockedHead) -> None:
    """Writes the head and has every listener told when the transaction commits."""
    identity = head.identity
    await connection.execute(
        _MOVE_HEAD,
        head.epoch,
        head.last_offset,
        head.hash,
        identity.system_identifier,
        identity.timeline,
        CHANNEL,
    )


def binding_values(binding: AclBinding) -> tuple[int | str, ...]:
    """The seven fields in the order of BINDING_COLUMNS."""
    b = binding
    codes = (b.resource_type, b.pattern_type, b.operation, b.permission_type)
    return (*codes, b.resource_name, b.principal, b.host)


async def _chained(head: LockedHead, drafts: Sequence[Record]) -> AsyncIterator[list[tuple[Any, ...]]]:
    """The drafts' rows, a slice at a time; the last field of each is its hash."""
    tx_last = head.last_offset + len(drafts)
    chained = head.hash
    async for some in in_slices(drafts):
        rows: list[tuple[Any, ...]] = []
        for draft in some:
            record = replace(draft, tx_last=tx_last)
            chained = record_hash(chained, record)
            rows.append(_row(record, chained))
        yield rows


async def _insert(connection: Connection, rows: Sequence[tuple[Any, ...]], tx_last: int, at: datetime) -> None:
    await connection.execute(_APPEND, *map(list, zip(*rows, strict=True)), tx_last, at)


def _row(record: Record, chained: bytes) -> tuple[Any, ...]:
    kind = type(record).__name__
    if isinstance(record, ConfigRecord):
        told = (None, None, None, None, None, None, None, None, record.name, record.value)
        return (record.offset, kind, *told, record.actor, chained)
    acl = record.acl
    return (record.offset, kind, acl.id, *binding_values(acl.binding), None, None, record.actor, chained)
