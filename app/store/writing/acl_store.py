"""The one way to change the store: updates, or a batch of an import, become one transaction under the head's lock, and
a stretch of the change feed.

`PostgresAclStore` is runtime's `AclStore`, `PostgresBulkStore` its `BulkStore`.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any

import asyncpg

from app.core.continuity import KnownHistory
from app.core.digest import acl_digest
from app.core.kafka.bindings import StandardAcl
from app.core.kafka.errors import ApiException, RequestTimedOutException, StoreUnavailableException
from app.core.mutations import BatchOutcome, BulkAcl, CreateAcls, GroupOutcome, Mutation
from app.core.records import AccessControlEntryRecord
from app.formats.database_url import DatabaseUrl
from app.store.engine import Connection, KeptConnection, StoreTimeouts
from app.store.faults import OutageLog, answer_to, is_rolled_back
from app.store.rows import ACL_COLUMNS, acl_values, in_slices
from app.store.writing.group import ACL_CONSTANTS, Group
from app.store.writing.journal import UNKNOWN_SERVER, LockedHead, ServerIdentity, append, lock_head, move_head

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


_KEPT = """SELECT natural_key, id, created_offset, coalesce(expires_at <= $2, false) AS has_ended FROM acl
WHERE natural_key = ANY($1::bytea[])"""


class PostgresAclStore:
    def __init__(self, url: DatabaseUrl, timeouts: StoreTimeouts | None = None) -> None:
        self._feed = FeedWriter(url, timeouts or StoreTimeouts(), "writer")
        # A database that can be read may still be full, or read-only.
        self._outages = OutageLog(url, lambda extra: _log.warning("updates_in_trouble", extra=extra))

    async def write(self, mutations: Iterable[Mutation], known: KnownHistory) -> GroupOutcome:
        with self._outages.logged():
            async with self._feed.transaction(known) as transaction:
                group = Group(transaction.connection, transaction.head)
                outcomes = await group.apply(mutations)
                if group.drafts:
                    chained = await append(transaction.connection, transaction.head, group.drafts, group.prior)
                    transaction.extend(len(group.drafts), chained, group.digest_change)
        return GroupOutcome(outcomes, transaction.head.epoch, transaction.head.last_offset)

    async def close(self) -> None:
        await self._feed.close()


class PostgresBulkStore:
    def __init__(self, url: DatabaseUrl, timeouts: StoreTimeouts | None = None) -> None:
        self._feed = FeedWriter(url, timeouts or StoreTimeouts(), "import")

    async def add(
        self, acls: Mapping[bytes, BulkAcl], actor: str, known: KnownHistory, comment: str | None = None
    ) -> BatchOutcome:
        async with self._feed.transaction(known) as transaction:
            rows = await transaction.connection.fetch(_KEPT, list(acls), transaction.head.recorded_at)
            kept = {row["natural_key"]: (row["id"].bytes, row["created_offset"]) for row in rows}
            new = {key: each.stored for key, each in acls.items() if key not in kept}
            before = transaction.head.last_offset
            if new:
                await _copy(transaction, new, actor, comment)
            created = range(before + 1, transaction.head.last_offset + 1)
            # One that has ended is about to be removed, unless it is made again.
            told = [
                each["natural_key"] for each in rows if acls[each["natural_key"]].acl.says_terms or each["has_ended"]
            ]
            again = CreateAcls([acls[key].acl for key in told], actor, None, comment)
            changed = await _change(transaction, again) if again.acls else 0
        own = [offset for key, (acl_id, offset) in kept.items() if acl_id == acls[key].id.bytes]
        found = [offset for key, (acl_id, offset) in kept.items() if acl_id != acls[key].id.bytes]
        head = transaction.head
        return BatchOutcome([*own, *created], found, changed, head.epoch, head.last_offset)

    async def close(self) -> None:
        await self._feed.close()


async def _change(transaction: FeedTransaction, creates: CreateAcls) -> int:
    """Gives ACLs that are there the terms that are said. Returns how many of them had others."""
    group = Group(transaction.connection, transaction.head)
    for outcome in await group.apply([creates]):
        refusals = [outcome] if isinstance(outcome, ApiException) else getattr(outcome, "results", [])
        for each in refusals:
            if isinstance(each, ApiException):
                raise each
    if group.drafts:
        chained = await append(transaction.connection, transaction.head, group.drafts, group.prior)
        transaction.extend(len(group.drafts), chained, group.digest_change)
    return len(group.drafts)


async def _copy(
    transaction: FeedTransaction, new: Mapping[bytes, StandardAcl], actor: str, comment: str | None
) -> None:
    connection, head = transaction.connection, transaction.head
    rows: list[tuple[Any, ...]] = []
    drafts: list[AccessControlEntryRecord] = []
    digest = 0
    async for some in in_slices(list(new.items())):
        for offset, (key, acl) in enumerate(some, head.last_offset + len(drafts) + 1):
            drafts.append(AccessControlEntryRecord(offset, 0, acl, head.recorded_at, actor, b"", comment))
            digest += acl_digest(acl)
            rows.append((*acl_values(acl, key, offset, actor), head.recorded_at))
    await connection.copy_records_to_table("acl", records=rows, columns=(*ACL_COLUMNS, *ACL_CONSTANTS))
    transaction.extend(len(drafts), await append(connection, head, drafts, by_copy=True), digest)
