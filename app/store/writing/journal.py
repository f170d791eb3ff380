"""The tail of the change feed, as a writer under the head's lock appends to it."""

import asyncio
import logging
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from types import MappingProxyType
from typing import Any
from uuid import UUID

import asyncpg

from app.core.continuity import KnownHistory
from app.core.epochs import Epochs
from app.core.kafka.bindings import StandardAcl
from app.core.kafka.errors import RequestTimedOutException, StoreUnavailableException
from app.core.records import Record, record_hash
from app.formats.database_url import DatabaseUrl
from app.store.engine import Connection, KeptConnection, StoreTimeouts
from app.store.epochs import read_epochs
from app.store.faults import answer_to, is_rolled_back
from app.store.rows import (
    ACL_COLUMNS,
    NOTHING_PRIOR,
    RECORD_COLUMNS,
    PriorValues,
    acl_values,
    in_slices,
    record_values,
)
from app.store.writing.head import (
    UNKNOWN_SERVER,
    EpochReason,
    LockedHead,
    ServerIdentity,
    ServerStart,
    Values,
    lock_head,
    move_head,
)

_log = logging.getLogger(__name__)

_MOST_AT_ONCE = 200
"""Of more rows COPY costs less than one statement, though it asks twice for each table."""
_ROWS_PER_COPY = 2_000
"""They are made in some milliseconds, within one step of the event loop."""

# The timeline is read from the file name, as pg_control_checkpoint() lags behind for a while after a promotion.
_IDENTITY = """SELECT system_identifier, pg_walfile_name(pg_current_wal_lsn()) AS wal_file FROM pg_control_system()"""

# INVARIANT: what is acknowledged survives a crash, whatever the role's or the database's default says.
_DURABLE = (
    """SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'"""
)


class FeedTransaction:
    def __init__(self, connection: Connection, head: LockedHead, begins_with: EpochReason | None = None) -> None:
        """`begins_with` is why an epoch begins with the first record, if one is written."""
        self.head = head
        self._begins_with = begins_with
        self._locked = head
        self._connection = connection
        self._acls: list[Values] = []
        """Rows of `acl` that are not in the table yet."""
        self._records: list[Values] = []

    def add(self, acl: StandardAcl, key: bytes, record: Record) -> None:
        """Inserts an ACL, at the latest when the transaction ends. `key` is its natural key, `record` creates it."""
        self._acls.append(acl_values(acl, key, record))

    async def fetch(self, statement: str, *arguments: object) -> list[asyncpg.Record]:
        """As asyncpg's; so are `fetchval` and `execute`."""
        return await (await self._up_to_date()).fetch(statement, *arguments)

    async def fetchval(self, statement: str, *arguments: object) -> Any:  # noqa: ANN401 - a value of PostgreSQL
        return await (await self._up_to_date()).fetchval(statement, *arguments)

    async def execute(self, statement: str, *arguments: object) -> None:
        await (await self._up_to_date()).execute(statement, *arguments)

    async def _up_to_date(self) -> Connection:
        # INVARIANT: whoever reads `acl` finds what was added before: a removal that misses an ACL leaves it in force.
        await self._copy("acl", ACL_COLUMNS, self._acls)
        return self._connection

    async def append(
        self, drafts: Sequence[Record], digest_change: int, prior: Mapping[int, PriorValues] = MappingProxyType({})
    ) -> None:
        """Appends the drafts.

        A draft is a record that has its offset already, but neither the end of its transaction nor its hash. `prior`
        has, by offset, what was there before the record, if anything was.
        """
        head = self.head_to_write() if drafts else self.head
        tx_last = head.last_offset + len(drafts)
        chained = head.hash
        async for some in in_slices(drafts):
            for draft in some:
                record = replace(draft, tx_last=tx_last)
                chained = record_hash(chained, record)
                self._records.append(record_values(record, chained, prior.get(record.offset, NOTHING_PRIOR)))
        digest = None if head.digest is None else head.digest + digest_change
        self.head = replace(head, last_offset=tx_last, hash=chained, digest=digest)

    def head_to_write(self) -> LockedHead:
        """The head as of the first record that is written: tokens of the records are of its epoch."""
        if self._begins_with is not None and self.head.begins is None:
            self.head = self.head.beginning(self._begins_with)
        return self.head

    async def epochs(self, of: UUID) -> Epochs:
        """The epochs of the history, up to that of the head; only the last one where a token of that is asked about."""
        head = self.head
        if of == head.epoch:
            return Epochs.only(head.epoch)
        # The epoch may have begun with a record of this transaction, and begins where the head stood before it.
        begun = replace(self._locked, epoch=head.epoch, begins=head.begins, is_diverged=head.is_diverged)
        return begun.within(await read_epochs(self._connection))

    async def end(self) -> None:
        """Writes what is left, and moves the head."""
        if len(self._records) > _MOST_AT_ONCE:
            await self._copy("acl", ACL_COLUMNS, self._acls)
            await self._copy("acl_record", RECORD_COLUMNS, self._records)
        await move_head(self._connection, self.head, self._acls, self._records)

    async def _copy(self, table: str, columns: Iterable[str], rows: list[Values]) -> None:
        for start in range(0, len(rows), _ROWS_PER_COPY):
            some = rows[start : start + _ROWS_PER_COPY]
            await self._connection.copy_records_to_table(table, records=some, columns=columns)
        rows.clear()


class FeedWriter:
    def __init__(self, url: DatabaseUrl, timeouts: StoreTimeouts, purpose: str) -> None:
        self._timeouts = timeouts
        self._kept = KeptConnection(url, timeouts, purpose, self._prepare)
        self._identity = UNKNOWN_SERVER
        self._written_on: ServerStart | None = None
        """Where this process wrote last."""
        self._warned_of_identity = False

    @asynccontextmanager
    async def transaction(self, known: KnownHistory) -> AsyncIterator[FeedTransaction]:
        """Locks the head before the block, then moves it and commits; without a change all is rolled back.

        A new epoch is a change; with the first record of this process, or on another start of the server, one begins.
        Afterwards `known` is at the head.
        Raises StoreUnavailableException if certainly nothing was kept, RequestTimedOutException if the outcome of the
        COMMIT is unknown; any other exception is a fault of this block, and nothing of it was kept.
        """
        async with self._kept.lease() as connection:
            async with asyncio.timeout(self._timeouts.transaction_s):
                await connection.execute("BEGIN ISOLATION LEVEL READ COMMITTED", timeout=self._timeouts.answer_s)
                locked = await lock_head(connection, known, self._identity)
                transaction = FeedTransaction(connection, locked, self._begins_with(locked.start))
                yield transaction
                head = transaction.head
                # The server's identity is written with the first change, never for its own sake.
                changed = head.begins is not None or head.last_offset != locked.last_offset
                if changed:
                    await transaction.end()
            await self._end(connection, changed=changed)
            if changed:
                self._written_on = head.start
            known.proved(head.position)

    async def close(self) -> None:
        await self._kept.close()

    def _begins_with(self, start: ServerStart) -> EpochReason | None:
        if self._written_on is None:
            return EpochReason.FIRST_WRITE
        return None if self._written_on == start else EpochReason.OTHER_START

    async def _prepare(self, connection: Connection) -> None:
        if await connection.fetchval("SELECT pg_is_in_recovery()"):
            raise StoreUnavailableException(answer_to("25006"))
        await connection.execute(_DURABLE)
        self._identity = await self._read_identity(connection)

    async def _read_identity(self, connection: Connection) -> ServerIdentity:
        # Once per connection is enough: neither can change under a session that began on a primary.
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
                "PostgreSQL did not confirm the COMMIT, so it is unknown whether the update was written; check, or "
                "retry, which is safe",
            ) from fault
        if status != "COMMIT":
            raise StoreUnavailableException("PostgreSQL rolled the update back; retry")
