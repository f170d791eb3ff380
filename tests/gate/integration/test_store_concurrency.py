"""Many writers, killed sessions, two followers: nothing is lost, doubled or reordered (fault experiments F1 to F10)."""

import asyncio
import itertools
import random
from contextlib import suppress
from dataclasses import dataclass, field
from uuid import UUID

import asyncpg

from app.core.continuity import KnownHistory
from app.core.kafka.bindings import StandardAcl
from app.core.kafka.errors import RequestTimedOutException, StoreUnavailableException
from app.core.kafka.filters import AclBindingFilter
from app.core.records import GENESIS_HASH, AccessControlEntryRecord, Record, RemoveAccessControlEntryRecord, record_hash
from app.formats.database_url import DatabaseUrl
from app.store.reading.change_feed import PostgresChangeFeed
from app.store.writing.acl_store import PostgresAclStore
from tests.updates import create, created, delete, topic

DURATION_S = 3.0
WRITERS = 8
SHARED = [f"shared-{n}" for n in range(6)]


@dataclass
class Witness:
    """What the writers tried and were told."""

    acknowledged: set[str] = field(default_factory=set)
    unknown: set[str] = field(default_factory=set)
    ids: list[UUID] = field(default_factory=list)
    offsets: list[int] = field(default_factory=list)
    refused: int = 0
    killed: int = 0


class Follower:
    """Applies whole transactions and believes nothing."""

    def __init__(self, store_url: str) -> None:
        self.feed = PostgresChangeFeed(DatabaseUrl.parse(store_url))
        self.acls: dict[UUID, StandardAcl] = {}
        self.offset = 0
        self.hash = GENESIS_HASH

    async def follow_once(self) -> None:
        with suppress(StoreUnavailableException):
            poll = await self.feed.poll(self.offset, 50)
            assert poll.hash_at == self.hash
            for record in poll.records:
                self.apply(record)
            assert not poll.records or poll.records[-1].tx_last == self.offset

    def apply(self, record: Record) -> None:
        assert record.offset == self.offset + 1
        assert record_hash(self.hash, record) == record.hash
        self.offset, self.hash = record.offset, record.hash
        if isinstance(record, AccessControlEntryRecord):
            assert self.acls.setdefault(record.acl.id, record.acl) is record.acl
        elif isinstance(record, RemoveAccessControlEntryRecord):
            assert self.acls.pop(record.acl.id) == record.acl


async def write_on(store_url: str, number: int, witness: Witness, stop: asyncio.Event) -> None:
    draw = random.Random(number)
    store = PostgresAclStore(DatabaseUrl.parse(store_url))
    for turn in itertools.count():
        if stop.is_set():
            break
        own = f"own-{number}-{turn}"
        removal = delete(AclBindingFilter(resource_name=draw.choice(SHARED)))
        try:
            told = await store.write(
                [removal, create(topic(own), topic(draw.choice(SHARED)), topic(own))], KnownHistory()
            )
        except RequestTimedOutException:
            witness.unknown.add(own)
        except StoreUnavailableException:
            witness.refused += 1
            await asyncio.sleep(0.01)
        else:
            witness.acknowledged.add(own)
            witness.ids += [each.id for each in created(told.outcomes[1]) if each.created]
            witness.offsets.append(told.last_offset)
    await store.close()


async def kill_on(store_url: str, witness: Witness, stop: asyncio.Event) -> None:
    """Ends a session of the store, whichever, several times a second."""
    killer = await asyncpg.connect(store_url)
    while not stop.is_set():
        witness.killed += await killer.fetchval(
            """SELECT count(pg_terminate_backend(pid)) FROM (
                SELECT pid FROM pg_stat_activity
                WHERE datname = current_database() AND application_name LIKE 'klamm %' ORDER BY random() LIMIT 1
            ) AS victim"""
        )
        await asyncio.sleep(0.1)
    await killer.close()


async def follow_on(follower: Follower, stop: asyncio.Event) -> None:
    while not stop.is_set():
        await follower.follow_once()
        await follower.feed.wait(0.2)


async def test_no_change_is_lost_doubled_or_reordered(store_url: str) -> None:
    stop, witness = asyncio.Event(), Witness()
    followers = [Follower(store_url), Follower(store_url)]
    async with asyncio.TaskGroup() as work:
        for number in range(WRITERS):
            work.create_task(write_on(store_url, number, witness, stop))
        for follower in followers:
            work.create_task(follow_on(follower, stop))
        work.create_task(kill_on(store_url, witness, stop))
        await asyncio.sleep(DURATION_S)
        async with asyncio.timeout(120):
            while witness.killed <= 5 or not witness.offsets or not (witness.refused or witness.unknown):  # noqa: ASYNC110 - a test's wait
                await asyncio.sleep(0.1)
        stop.set()
    last = max(witness.offsets)

    assert len(witness.ids) == len(set(witness.ids))
    assert len(witness.offsets) == len(set(witness.offsets))
    for follower in followers:
        async with asyncio.timeout(60):
            while follower.offset < last:
                await follower.follow_once()
        async with follower.feed.snapshot() as reader:
            rows = [row async for some in reader.slices() for row in some.rows]
        async with asyncio.timeout(60):
            while follower.offset < reader.head.last_offset:
                await follower.follow_once()
        assert {StandardAcl.from_row(row) for row in rows} == set(follower.acls.values())
        assert (reader.head.last_offset, reader.head.hash) == (follower.offset, follower.hash)
        kept = {acl.binding.resource_name for acl in follower.acls.values()} - set(SHARED)
        assert witness.acknowledged <= kept <= witness.acknowledged | witness.unknown
        await follower.feed.close()
