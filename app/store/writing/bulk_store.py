"""Runtime's `BulkStore`: a batch of an import in one transaction, by COPY."""

from collections.abc import Mapping

from app.core.continuity import KnownHistory
from app.core.digest import acl_digest
from app.core.kafka.bindings import StandardAcl
from app.core.kafka.errors import ApiException
from app.core.mutations import BatchOutcome, BulkAcl, CreateAcls, size_refusal
from app.core.records import MAX_TRANSACTION_BYTES, AccessControlEntryRecord, record_bytes
from app.formats.database_url import DatabaseUrl
from app.store.engine import StoreTimeouts
from app.store.rows import in_slices
from app.store.writing.acl_store import Group
from app.store.writing.journal import FeedTransaction, FeedWriter

_KEPT = """SELECT natural_key, id, created_offset, coalesce(expires_at <= $2, false) AS has_ended FROM acl
WHERE natural_key = ANY($1::bytea[])"""


class PostgresBulkStore:
    def __init__(self, url: DatabaseUrl, timeouts: StoreTimeouts | None = None) -> None:
        self._feed = FeedWriter(url, timeouts or StoreTimeouts(), "import")

    async def add(
        self, acls: Mapping[bytes, BulkAcl], actor: str, known: KnownHistory, comment: str | None = None
    ) -> BatchOutcome:
        async with self._feed.transaction(known) as transaction:
            rows = await transaction.fetch(_KEPT, list(acls), transaction.head.recorded_at)
            kept = {row["natural_key"]: (row["id"].bytes, row["created_offset"]) for row in rows}
            new = {key: each.stored for key, each in acls.items() if key not in kept}
            before = transaction.head.last_offset
            if new:
                await _add(transaction, new, actor, comment)
            created = range(before + 1, transaction.head.last_offset + 1)
            # An ACL that has ended is about to be removed, unless it is made again.
            told = [
                each["natural_key"] for each in rows if acls[each["natural_key"]].acl.says_terms or each["has_ended"]
            ]
            again = CreateAcls([acls[key].acl for key in told], actor, None, comment)
            changed = await _change(transaction, again) if again.acls else 0
            head, seen = transaction.head, known.position
            epochs = await transaction.epochs(head.epoch if seen is None else seen.epoch)
        own = [offset for key, (acl_id, offset) in kept.items() if acl_id == acls[key].id.bytes]
        found = [offset for key, (acl_id, offset) in kept.items() if acl_id != acls[key].id.bytes]
        return BatchOutcome([*own, *created], found, changed, epochs, head.last_offset)

    async def close(self) -> None:
        await self._feed.close()


async def _change(transaction: FeedTransaction, creates: CreateAcls) -> int:
    """Gives existing ACLs the terms of `creates`. Returns how many of them had others."""
    group = Group(transaction)
    for outcome in await group.apply([creates]):
        refusals = [outcome] if isinstance(outcome, ApiException) else getattr(outcome, "results", [])
        for each in refusals:
            if isinstance(each, ApiException):
                raise each
    await transaction.append(group.drafts, group.digest_change, group.prior)
    return len(group.drafts)


async def _add(transaction: FeedTransaction, new: Mapping[bytes, StandardAcl], actor: str, comment: str | None) -> None:
    head = transaction.head
    drafts: list[AccessControlEntryRecord] = []
    digest = size = 0
    async for some in in_slices(list(new.items())):
        for offset, (key, acl) in enumerate(some, head.last_offset + len(drafts) + 1):
            drafts.append(AccessControlEntryRecord(offset, 0, acl, head.recorded_at, actor, b"", comment))
            transaction.add(acl, key, drafts[-1])
            digest += acl_digest(acl)
            size += record_bytes(drafts[-1])
        if size > MAX_TRANSACTION_BYTES:
            raise size_refusal(size, "import fewer ACLs in one batch")
    await transaction.append(drafts, digest)
