"""A new epoch for a store that hands out offsets for the second time: restored from a backup, or a stale copy."""

from contextlib import suppress
from uuid import UUID, uuid4

import asyncpg

from app.store.engine import Connection
from app.store.journal import CHANNEL

_LOCK_HEAD = "SELECT FROM acl_head FOR UPDATE"

# A record that is trimmed is no witness.
_RENOUNCE = """WITH renounced AS (
    UPDATE acl_head SET epoch = $4
    WHERE epoch = $1 AND (last_offset < $2 OR $3 <> CASE $2 WHEN last_offset THEN hash
        ELSE (SELECT r.hash FROM acl_record AS r WHERE r."offset" = $2) END)
    RETURNING epoch, last_offset
)
SELECT pg_notify($5, epoch || ':' || last_offset) FROM renounced"""


async def renounce(connection: Connection, epoch: UUID, offset: int, known_hash: bytes) -> None:
    """See `PostgresChangeFeed.renounce`."""
    # After a promotion the first writer sees by itself that it is on another timeline.
    with suppress(asyncpg.ReadOnlySQLTransactionError, asyncpg.InsufficientPrivilegeError):
        async with connection.transaction(isolation="read_committed"):
            await connection.execute(_LOCK_HEAD)
            await connection.execute(_RENOUNCE, epoch, offset, known_hash, uuid4(), CHANNEL)
