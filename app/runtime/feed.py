"""The port `ChangeFeed`: what the loader needs of a store."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from app.core.continuity import FeedPosition
from app.core.kafka.bindings import AclRow
from app.core.records import FeedHead, FeedPoll


class SnapshotReader(Protocol):
    """Head, stored configuration and all ACLs, read in one snapshot of the database."""

    @property
    def head(self) -> FeedHead:
        """The head that the rows belong to."""

    @property
    def configs(self) -> Mapping[str, str]:
        """The stored configuration at that head."""

    def slices(self) -> AsyncIterator[Sequence[AclRow]]:
        """All ACLs in the order of lists, some hundred at a time."""


class ChangeFeed(Protocol):
    """The ordered record of every change.

    Faults are StoreUnavailableException (unreachable) and PoisonedRecordException (an undecodable row, a hole).
    """

    def snapshot(self) -> AbstractAsyncContextManager[SnapshotReader]:
        """One REPEATABLE READ transaction."""

    async def poll(self, applied_offset: int, limit: int) -> FeedPoll:
        """The head, the hash at the offset, and whole transactions behind it: `limit` records or one transaction."""

    async def renounce(self, lost: FeedPosition) -> None:
        """Begin a new epoch unless the store goes on from this place, or is of a later epoch already.

        Where the store can't be written, nothing happens.
        """

    async def wait(self, timeout_s: float) -> None:
        """Return on a hint that there may be news, on loss of the hints' connection, or after the timeout."""

    async def close(self) -> None:
        """Give back every connection."""
