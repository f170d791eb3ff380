"""Bulk loading: a batch of ACLs becomes one transaction and a stretch of the change feed, through COPY.

`PostgresBulkStore` is runtime's `BulkStore`.
"""

from collections.abc import Mapping

from app.core.continuity import KnownHistory
from app.core.kafka.bindings import StandardAcl
from app.core.mutations import BatchOutcome
from app.core.records import AccessControlEntryRecord
from app.formats.database_url import DatabaseUrl
from app.store.engine import StoreTimeouts
from app.store.slices import in_slices
from app.store.writing.feed_writer import FeedTransaction, FeedWriter
from app.store.writing.group import ACL_COLUMNS, acl_row
from app.store.writing.journal import append_by_copy

_KEPT = "SELECT natural_key, id, created_offset FROM acl WHERE natural_key = ANY($1::bytea[])"


class PostgresBulkStore:
    """Writes batches of ACLs to PostgreSQL."""

    def __init__(self, url: DatabaseUrl, timeouts: StoreTimeouts | None = None) -> None:
        self._feed = FeedWriter(url, timeouts or StoreTimeouts(), "import")

    async def add(self, acls: Mapping[bytes, StandardAcl], actor: str, known: KnownHistory) -> BatchOutcome:
        """One transaction for the batch, whose ACLs come by their natural keys; those that are there are left alone.

        A batch whose outcome is unknown may be given again, with the same ids.
        Raises StoreUnavailableException if nothing was kept for certain, RequestTimedOutException if the outcome of
        the COMMIT is unknown; any other exception is a fault of this batch, and nothing of it was kept.
        """
        async with self._feed.transaction(known) as transaction:
            rows = await transaction.connection.fetch(_KEPT, list(acls))
            kept = {row["natural_key"]: (row["id"].bytes, row["created_offset"]) for row in rows}
            new = {key: acl for key, acl in acls.items() if key not in kept}
            before = transaction.head.last_offset
            if new:
                await _write(transaction, new, actor)
        own = [offset for key, (acl_id, offset) in kept.items() if acl_id == acls[key].id.bytes]
        found = [offset for key, (acl_id, offset) in kept.items() if acl_id != acls[key].id.bytes]
        head = transaction.head
        return BatchOutcome([*own, *range(before + 1, head.last_offset + 1)], found, head.epoch, head.last_offset)

    async def close(self) -> None:
        """Ends the connection."""
        await self._feed.close()


async def _write(transaction: FeedTransaction, new: Mapping[bytes, StandardAcl], actor: str) -> None:
    connection, head = transaction.connection, transaction.head
    rows: list[tuple[object, ...]] = []
    drafts: list[AccessControlEntryRecord] = []
    async for some in in_slices(list(new.items())):
        for offset, (key, acl) in enumerate(some, head.last_offset + len(drafts) + 1):
            drafts.append(AccessControlEntryRecord(offset, 0, acl, head.recorded_at, actor, b""))
            rows.append((*acl_row(acl, key, offset, actor), head.recorded_at))
    await connection.copy_records_to_table("acl", records=rows, columns=ACL_COLUMNS)
    chained = await append_by_copy(connection, head, drafts)
    transaction.extend(len(drafts), chained)
