"""The head's lock, and the one place that begins a new epoch: where a store may hand out offsets for the second time.

That is after a promotion, in another cluster, and wherever the head does not go on from what the process has seen.
"""

from collections.abc import Collection
from contextlib import suppress
from dataclasses import replace
from uuid import UUID, uuid4

import asyncpg

from app.core.continuity import Continuity, FeedPosition, KnownHistory, continuity, next_epoch
from app.core.records import GENESIS_HASH
from app.store.engine import Connection
from app.store.faults import NotMigratedError
from app.store.writing.journal import LockedHead, ServerIdentity, move_head

# The clock is read above the locked row, so that a writer that stood in line has the time at which its turn came.
_LOCK_HEAD = """WITH head AS MATERIALIZED (
    SELECT epoch, last_offset, hash, system_identifier, timeline FROM acl_head FOR UPDATE
)
SELECT *, clock_timestamp() AS recorded_at FROM head"""

# A statement of its own: one that waited for the lock has not seen what was committed meanwhile.
_HASH_AT = """SELECT hash FROM acl_record WHERE "offset" = $1"""

_UNLESS_PROVED = (Continuity.LOST, Continuity.UNPROVED)
_IF_LOST = (Continuity.LOST,)

UNKNOWN_SERVER = ServerIdentity()


async def lock_head(
    connection: Connection,
    known: KnownHistory,
    identity: ServerIdentity,
    begins_on: Collection[Continuity] = _UNLESS_PROVED,
) -> LockedHead:
    """The head, locked until the transaction ends; in a new epoch if it does not go on from what is known.

    So is one that was last written on another server or timeline. Whoever moves the head writes it down.
    """
    row = await connection.fetchrow(_LOCK_HEAD)
    if row is None:
        raise NotMigratedError
    head = LockedHead(
        epoch=UUID(bytes=row["epoch"].bytes),
        last_offset=row["last_offset"],
        hash=row["hash"],
        identity=ServerIdentity(row["system_identifier"], row["timeline"]),
        recorded_at=row["recorded_at"],
        begins_epoch=False,
    )
    moved = identity not in (head.identity, UNKNOWN_SERVER) and head.identity != UNKNOWN_SERVER
    # INVARIANT: read under the lock: all that this process knows was committed before, or is not of this store.
    position = known.position
    if moved or (position is not None and await _continuity(connection, head, position) in begins_on):
        known_epochs = [head.epoch] if position is None else [head.epoch, position.epoch]
        head = replace(head, epoch=next_epoch(head.recorded_at, known_epochs, uuid4()), begins_epoch=True)
    return head if identity == UNKNOWN_SERVER else replace(head, identity=identity)


async def renounce(connection: Connection, lost: FeedPosition) -> None:
    """See `PostgresChangeFeed.renounce`."""
    # After a promotion the first writer sees by itself that it is on another timeline.
    with suppress(asyncpg.ReadOnlySQLTransactionError, asyncpg.InsufficientPrivilegeError):
        async with connection.transaction(isolation="read_committed"):
            # A record that is trimmed is no witness.
            head = await lock_head(connection, KnownHistory(lost), UNKNOWN_SERVER, _IF_LOST)
            if head.begins_epoch:
                await move_head(connection, head)


async def _continuity(connection: Connection, head: LockedHead, known: FeedPosition) -> Continuity:
    if known.offset == head.last_offset:
        hash_at = head.hash
    elif known.epoch != head.epoch or known.offset > head.last_offset:
        hash_at = None  # there is nothing to compare
    else:
        hash_at = await connection.fetchval(_HASH_AT, known.offset) if known.offset else GENESIS_HASH
    return continuity(known, head.position, hash_at)
