"""What the contract is held against: a store, and the feed of one replica."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from app.core.continuity import KnownHistory
from app.core.kafka.bindings import NO_TERMS, StandardAcl
from app.core.kafka.errors import ApiException
from app.core.mutations import Mutation, Outcome
from app.core.records import FeedHead, FeedPoll, Record
from app.runtime.ports import AclStore, BulkStore, ChangeFeed


@dataclass(frozen=True)
class Subject:
    """A store that was just born."""

    store: AclStore
    feed: ChangeFeed
    bulk: BulkStore

    async def write(self, *mutations: Mutation) -> Sequence[Outcome | ApiException]:
        return (await self.store.write(mutations, KnownHistory())).outcomes

    async def records(self) -> list[Record]:
        """The feed from its beginning."""
        return list((await self.feed.poll(0, 1_000_000)).records)

    async def acls(self) -> list[StandardAcl]:
        """All ACLs, as a snapshot tells them."""
        async with self.feed.snapshot() as reader:
            return [
                StandardAcl.from_row(row, some.terms.get(row[0], NO_TERMS))
                async for some in reader.slices()
                for row in some.rows
            ]

    async def behind(self, offset: int, count: int) -> FeedPoll:
        """A poll that has brought so many records, which may take a moment where the store is far."""
        async with asyncio.timeout(60):
            while len((poll := await self.feed.poll(offset, count)).records) < count:
                await self.feed.wait(1)
        return poll

    async def head(self) -> FeedHead:
        return (await self.feed.poll(0, 1)).head
