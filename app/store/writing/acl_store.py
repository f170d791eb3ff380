"""The write path: updates, or a batch of an import, become one transaction and a stretch of the change feed.

`PostgresAclStore` is runtime's `AclStore`, `PostgresBulkStore` its `BulkStore`.
"""

import logging
from collections.abc import Iterable, Mapping
from typing import Any

from app.core.continuity import KnownHistory
from app.core.digest import acl_digest
from app.core.kafka.bindings import StandardAcl
from app.core.mutations import BatchOutcome, GroupOutcome, Mutation
from app.core.records import AccessControlEntryRecord
from app.formats.database_url import DatabaseUrl
from app.store.engine import StoreTimeouts
from app.store.faults import OutageLog
from app.store.rows import ACL_COLUMNS, acl_values, in_slices
from app.store.writing.feed_writer import FeedTransaction, FeedWriter
from app.store.writing.group import ACL_CONSTANTS, Group
from app.store.writing.journal import append

_log = logging.getLogger(__name__)

_KEPT = "SELECT natural_key, id, created_offset FROM acl WHERE natural_key = ANY($1::bytea[])"


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
                    chained = await append(transaction.connection, transaction.head, group.drafts)
                    transaction.extend(len(group.drafts), chained, group.digest_change)
        return GroupOutcome(outcomes, transaction.head.epoch, transaction.head.last_offset)

    async def close(self) -> None:
        await self._feed.close()


class PostgresBulkStore:
    def __init__(self, url: DatabaseUrl, timeouts: StoreTimeouts | None = None) -> None:
        self._feed = FeedWriter(url, timeouts or StoreTimeouts(), "import")

    async def add(self, acls: Mapping[bytes, StandardAcl], actor: str, known: KnownHistory) -> BatchOutcome:
        async with self._feed.transaction(known) as transaction:
            rows = await transaction.connection.fetch(_KEPT, list(acls))
            kept = {row["natural_key"]: (row["id"].bytes, row["created_offset"]) for row in rows}
            new = {key: acl for key, acl in acls.items() if key not in kept}
            before = transaction.head.last_offset
            if new:
                await _copy(transaction, new, actor)
        own = [offset for key, (acl_id, offset) in kept.items() if acl_id == acls[key].id.bytes]
        found = [offset for key, (acl_id, offset) in kept.items() if acl_id != acls[key].id.bytes]
        head = transaction.head
        return BatchOutcome([*own, *range(before + 1, head.last_offset + 1)], found, head.epoch, head.last_offset)

    async def close(self) -> None:
        await self._feed.close()


async def _copy(transaction: FeedTransaction, new: Mapping[bytes, StandardAcl], actor: str) -> None:
    connection, head = transaction.connection, transaction.head
    rows: list[tuple[Any, ...]] = []
    drafts: list[AccessControlEntryRecord] = []
    digest = 0
    async for some in in_slices(list(new.items())):
        for offset, (key, acl) in enumerate(some, head.last_offset + len(drafts) + 1):
            drafts.append(AccessControlEntryRecord(offset, 0, acl, head.recorded_at, actor, b""))
            digest += acl_digest(acl)
            rows.append((*acl_values(acl, key, offset, actor), head.recorded_at))
    await connection.copy_records_to_table("acl", records=rows, columns=(*ACL_COLUMNS, *ACL_CONSTANTS))
    transaction.extend(len(drafts), await append(connection, head, drafts, by_copy=True), digest)
