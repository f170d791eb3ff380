"""The head and the tail of the change feed, as a writer under the head's lock moves them.

A new epoch begins only here: whenever the store may hand out offsets a second time. That is after a promotion, in
another cluster, and when the head does not continue what the process has seen.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Collection, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from datetime import datetime
from types import MappingProxyType
from typing import Any
from uuid import UUID, uuid4

import asyncpg

from app.core.continuity import Continuity, FeedPosition, KnownHistory, continuity
from app.core.digest import DIGEST_BYTES, MODULUS
from app.core.epochs import next_epoch
from app.core.kafka.bindings import StandardAcl
from app.core.kafka.errors import RequestTimedOutException, StoreUnavailableException
from app.core.records import GENESIS_HASH, Record, record_hash
from app.formats.database_url import DatabaseUrl
from app.store.engine import Connection, KeptConnection, StoreTimeouts
from app.store.faults import NotMigratedError, answer_to, is_rolled_back
from app.store.rows import (
    ACL_COLUMNS,
    NOTHING_PRIOR,
    RECORD_COLUMNS,
    PriorValues,
    acl_values,
    digest_in,
    in_slices,
    insert_statement,
    json_rows,
    record_values,
)

_log = logging.getLogger(__name__)

_Values = tuple[Any, ...]

CHANNEL = "klamm_feed"  # NOTIFY carries `<epoch>:<offset>` here; a hint only

_MOST_AT_ONCE = 200
"""Of more rows COPY costs less than one statement, though it asks twice for each table."""
_ROWS_PER_COPY = 2_000
"""They are made in some milliseconds, within one step of the event loop."""

# The clock is read after the lock was granted, so that a writer that had to wait has the time at which its turn came.
# The digest is null if a writer of an older version, which knows nothing of it, has moved the head since.
_LOCK_HEAD = """WITH head AS MATERIALIZED (
    SELECT epoch, last_offset, hash, system_identifier, timeline,
        CASE digest_offset WHEN last_offset THEN digest END AS digest
    FROM acl_head FOR UPDATE
)
SELECT *, clock_timestamp() AS recorded_at FROM head"""

# A separate statement: one that waited for the lock has not seen what was committed meanwhile.
_HASH_AT = """SELECT hash FROM acl_record WHERE "offset" = $1"""

# The timeline is read from the file name, as pg_control_checkpoint() lags behind for a while after a promotion.
_IDENTITY = """SELECT system_identifier, pg_walfile_name(pg_current_wal_lsn()) AS wal_file FROM pg_control_system()"""

# INVARIANT: what is acknowledged survives a crash, whatever the role's or the database's default says.
_DURABLE = (
    """SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'"""
)


def _move_head_statement() -> str:
    # One statement for three tables, as each costs every update a round trip.
    return f"""WITH added AS ({insert_statement("acl", ACL_COLUMNS, 8)}),
appended AS ({insert_statement("acl_record", RECORD_COLUMNS, 9)}),
moved AS (
    UPDATE acl_head SET epoch = $1, last_offset = $2, hash = $3, system_identifier = $4, timeline = $5,
        digest = $6::bytea, digest_offset = CASE WHEN $6::bytea IS NOT NULL THEN $2::bigint END
    RETURNING epoch, last_offset
)
SELECT pg_notify($7, epoch || ':' || last_offset) FROM moved"""  # noqa: S608 - names of columns, declared in rows


_MOVE_HEAD = _move_head_statement()


@dataclass(frozen=True, slots=True)
class ServerIdentity:
    """Which PostgreSQL this is; a promotion changes the timeline, a restore into another cluster the identifier."""

    system_identifier: int | None = None
    timeline: int | None = None


UNKNOWN_SERVER = ServerIdentity()


@dataclass(frozen=True, slots=True)
class LockedHead:
    """`acl_head` under its lock, and the database's time when the lock was granted.

    INVARIANT: only `lock_head` makes one, which proves that none of its tokens stands for two states.
    """

    epoch: UUID
    last_offset: int
    hash: bytes
    identity: ServerIdentity
    recorded_at: datetime
    digest: int | None  # None if it was not kept up to here; it then stays unknown until `klamm migrate`
    begins_epoch: bool  # whether the epoch is new, and not in the store yet

    @property
    def position(self) -> FeedPosition:
        return FeedPosition(self.epoch, self.last_offset, self.hash)


async def lock_head(
    connection: Connection,
    known: KnownHistory,
    identity: ServerIdentity,
    begins_on: Collection[Continuity] = (Continuity.LOST, Continuity.UNPROVED),
) -> LockedHead:
    """Locks the head until the transaction ends.

    The head gets a new epoch if it does not continue what is known, or was last written on another server or timeline.
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
        digest=digest_in(row),
        begins_epoch=False,
    )
    moved = identity not in (head.identity, UNKNOWN_SERVER) and head.identity != UNKNOWN_SERVER
    # INVARIANT: read under the lock: all that this process knows was committed before, or is not from this store.
    position = known.position
    if moved or (position is not None and await _continuity(connection, head, position) in begins_on):
        known_epochs = [head.epoch] if position is None else [head.epoch, position.epoch]
        head = replace(head, epoch=next_epoch(head.recorded_at, known_epochs, uuid4()), begins_epoch=True)
    return head if identity == UNKNOWN_SERVER else replace(head, identity=identity)


async def renounce(connection: Connection, lost: FeedPosition) -> None:
    # After a promotion the first writer sees by itself that it is on another timeline.
    with suppress(asyncpg.ReadOnlySQLTransactionError, asyncpg.InsufficientPrivilegeError):
        async with connection.transaction(isolation="read_committed"):
            # A record that was trimmed proves nothing.
            head = await lock_head(connection, KnownHistory(lost), UNKNOWN_SERVER, (Continuity.LOST,))
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


async def move_head(
    connection: Connection, head: LockedHead, acls: Sequence[_Values] = (), records: Sequence[_Values] = ()
) -> None:
    """Also inserts what is new in `acl` and `acl_record`."""
    server = head.identity
    digest = None if head.digest is None else (head.digest % MODULUS).to_bytes(DIGEST_BYTES)
    position = (head.epoch, head.last_offset, head.hash)
    rows = json_rows(ACL_COLUMNS, acls), json_rows(RECORD_COLUMNS, records)
    await connection.execute(_MOVE_HEAD, *position, server.system_identifier, server.timeline, digest, CHANNEL, *rows)


class FeedTransaction:
    def __init__(self, connection: Connection, head: LockedHead) -> None:
        self.head = head
        self._connection = connection
        self._acls: list[_Values] = []
        """Rows of `acl` that are not in the table yet."""
        self._records: list[_Values] = []

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
        head = self.head
        tx_last = head.last_offset + len(drafts)
        chained = head.hash
        async for some in in_slices(drafts):
            for draft in some:
                record = replace(draft, tx_last=tx_last)
                chained = record_hash(chained, record)
                self._records.append(record_values(record, chained, prior.get(record.offset, NOTHING_PRIOR)))
        digest = None if head.digest is None else head.digest + digest_change
        self.head = replace(head, last_offset=tx_last, hash=chained, digest=digest)

    async def end(self) -> None:
        """Writes what is left, and moves the head."""
        if len(self._records) > _MOST_AT_ONCE:
            await self._copy("acl", ACL_COLUMNS, self._acls)
            await self._copy("acl_record", RECORD_COLUMNS, self._records)
        await move_head(self._connection, self.head, self._acls, self._records)

    async def _copy(self, table: str, columns: Iterable[str], rows: list[_Values]) -> None:
        for start in range(0, len(rows), _ROWS_PER_COPY):
            some = rows[start : start + _ROWS_PER_COPY]
            await self._connection.copy_records_to_table(table, records=some, columns=columns)
        rows.clear()


class FeedWriter:
    def __init__(self, url: DatabaseUrl, timeouts: StoreTimeouts, purpose: str) -> None:
        self._timeouts = timeouts
        self._kept = KeptConnection(url, timeouts, purpose, self._prepare)
        self._identity = UNKNOWN_SERVER
        self._warned_of_identity = False

    @asynccontextmanager
    async def transaction(self, known: KnownHistory) -> AsyncIterator[FeedTransaction]:
        """Locks the head before the block, then moves it and commits; without a change all is rolled back.

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
                    await transaction.end()
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
