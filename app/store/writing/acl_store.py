"""The write path: a group of updates becomes one transaction and a stretch of the change feed.

`PostgresAclStore` is runtime's `AclStore`.
"""

import logging
from collections.abc import Iterable

from app.core.continuity import KnownHistory
from app.core.mutations import GroupOutcome, Mutation
from app.formats.database_url import DatabaseUrl
from app.store.engine import StoreTimeouts
from app.store.trouble import Trouble
from app.store.writing.feed_writer import FeedWriter
from app.store.writing.group import Group
from app.store.writing.journal import append

_log = logging.getLogger(__name__)


class PostgresAclStore:
    """Writes groups of updates to PostgreSQL."""

    def __init__(self, url: DatabaseUrl, timeouts: StoreTimeouts | None = None) -> None:
        self._url = url
        self._feed = FeedWriter(url, timeouts or StoreTimeouts(), "writer")
        self._trouble = Trouble(self._tell)

    async def write(self, mutations: Iterable[Mutation], known: KnownHistory) -> GroupOutcome:
        """One transaction for the whole group; the head after it comes back, changed or not.

        They are read once, under the head's lock, where the head is proved to go on from what is known.

        Raises StoreUnavailableException if nothing was kept for certain, RequestTimedOutException if the outcome of
        the COMMIT is unknown; any other exception is a fault of this group, and nothing of it was kept.
        """
        with self._trouble.told():
            async with self._feed.transaction(known) as transaction:
                group = Group(transaction.connection, transaction.head)
                outcomes = await group.apply(mutations)
                if group.drafts:
                    chained = await append(transaction.connection, transaction.head, group.drafts)
                    transaction.extend(len(group.drafts), chained)
        return GroupOutcome(outcomes, transaction.head.epoch, transaction.head.last_offset)

    async def close(self) -> None:
        """Ends the connection."""
        await self._feed.close()

    def _tell(self, why: str) -> None:
        # A database that can be read may still be full, or read-only.
        _log.warning("updates_in_trouble", extra={"where": self._url.shown, "why": why})
