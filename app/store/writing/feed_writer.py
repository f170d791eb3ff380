"""The one way to change the store: a transaction under the head's lock, and a stretch of the change feed.

Order of locks and statements: DESIGN, store and change feed.
"""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

import asyncpg

from app.core.continuity import KnownHistory
from app.core.kafka.errors import RequestTimedOutException, StoreUnavailableException
from app.formats.database_url import DatabaseUrl
from app.store.engine import Connection, KeptConnection, StoreTimeouts
from app.store.faults import answer_to, is_rolled_back
from app.store.writing.journal import UNKNOWN_SERVER, LockedHead, ServerIdentity, lock_head, move_head

_log = logging.getLogger(__name__)

# The file name is asked for the timeline as pg_control_checkpoint() lags behind for a while after a promotion.
_IDENTITY = """SELECT system_identifier, pg_walfile_name(pg_current_wal_lsn()) AS wal_file FROM pg_control_system()"""

# INVARIANT: what is acknowledged survives a crash, whatever the role's or the database's default says.
_DURABLE = (
    """SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'"""
)


@dataclass(slots=True)
class FeedTransaction:
    connection: Connection
    head: LockedHead

    def extend(self, records: int, chained: bytes, digest_change: int) -> None:
        head = self.head
        digest = None if head.digest is None else head.digest + digest_change
        self.head = replace(head, last_offset=head.last_offset + records, hash=chained, digest=digest)


class FeedWriter:
    def __init__(self, url: DatabaseUrl, timeouts: StoreTimeouts, purpose: str) -> None:
        self._timeouts = timeouts
        self._kept = KeptConnection(url, timeouts, purpose, self._prepare)
        self._identity = UNKNOWN_SERVER
        self._warned_of_identity = False

    @asynccontextmanager
    async def transaction(self, known: KnownHistory) -> AsyncIterator[FeedTransaction]:
        """Locks the head before the block, moves it and commits after it; without a change all is rolled back.

        A new epoch is a change. Afterwards `known` is at the head.
        Raises StoreUnavailableException if certainly nothing was kept, RequestTimedOutException if the outcome of the
        COMMIT is unknown; any other exception is a fault of this block, and nothing of it was kept.
        """
        async with self._kept.lease() as connection:
            async with asyncio.timeout(self._timeouts.transaction_s):
                await connection.execute("BEGIN ISOLATION LEVEL READ COMMITTED", timeout=self._timeouts.answer_s)
                locked = await lock_head(connection, known, self._identity)
                transaction = FeedTransaction(connection, locked)
                yield transaction
                head = transaction.head
                # The server's identity is written with the first change, never for its own sake.
                changed = head.begins_epoch or head.last_offset != locked.last_offset
                if changed:
                    await move_head(connection, head)
            await self._end(connection, changed=changed)
            known.proved(head.position)

    async def close(self) -> None:
        await self._kept.close()

    async def _prepare(self, connection: Connection) -> None:
        if await connection.fetchval("SELECT pg_is_in_recovery()"):
            raise StoreUnavailableException(answer_to("25006"))
        await connection.execute(_DURABLE)
        self._identity = await self._read_identity(connection)

    async def _read_identity(self, connection: Connection) -> ServerIdentity:
        # Once a connection will do: neither can change under a session that began on a primary.
        try:
            row = await connection.fetchrow(_IDENTITY)
        except (asyncpg.InsufficientPrivilegeError, asyncpg.FeatureNotSupportedError) as fault:
            if not self._warned_of_identity:
                self._warned_of_identity = True
                _log.warning("server_identity_not_readable", extra={"sqlstate": fault.sqlstate})
            return UNKNOWN_SERVER
        return ServerIdentity(row["system_identifier"], int(row["wal_file"][:8], 16)) if row else UNKNOWN_SERVER

    async def _end(self, connection: Connection, *, changed: bool) -> None:
        if not changed:
            await connection.execute("ROLLBACK")
            return
        if connection.is_closed():
            raise StoreUnavailableException(answer_to("08006"))
        try:
            status = await connection.execute("COMMIT", timeout=self._timeouts.commit_s)
        except (asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError, OSError) as fault:
            # TimeoutError is an OSError.
            if is_rolled_back(fault):
                raise
            raise RequestTimedOutException(
                "PostgreSQL did not confirm the COMMIT, so whether the update was kept is unknown; "
                "retry, which is safe, or look",
            ) from fault
        if status != "COMMIT":
            raise StoreUnavailableException("PostgreSQL rolled the update back; retry")
