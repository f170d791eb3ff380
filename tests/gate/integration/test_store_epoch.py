"""When a new epoch begins; where nothing can be written, the old one stays and nobody is stopped."""

import asyncio
from itertools import pairwise
from urllib.parse import urlsplit

from app.core.continuity import FeedPosition, KnownHistory
from app.core.epochs import is_later
from app.core.records import GENESIS_HASH
from app.formats.database_url import DatabaseUrl
from app.store.engine import Connection
from app.store.reading.change_feed import PostgresChangeFeed
from app.store.writing.acl_store import PostgresAclStore
from tests.store_on_postgres import PATIENT
from tests.updates import create, topic

PATIENCE_S = 60.0


async def test_renouncing_wakes_the_listeners(store: PostgresAclStore, feed: PostgresChangeFeed) -> None:
    written = await store.write([create(topic("a"))], KnownHistory())
    await feed.wait(0.5)

    await feed.begin_epoch_if_lost(FeedPosition(written.epoch, 2, b"of a record that was lost"))

    async with asyncio.timeout(PATIENCE_S):
        await feed.wait(2 * PATIENCE_S)
    assert (await feed.poll(1, 1)).head.epoch != written.epoch


async def test_a_trimmed_record_is_no_witness(store: PostgresAclStore, feed: PostgresChangeFeed) -> None:
    await store.write([create(topic("a"))], KnownHistory())
    written = await store.write([create(topic("b"))], KnownHistory())
    assert await feed.trim(keep_age=None, keep_count=1) == 1

    await feed.begin_epoch_if_lost(FeedPosition(written.epoch, 1, b"of a record that nobody can compare"))

    assert (await feed.poll(2, 1)).head.epoch == written.epoch


async def test_a_writer_that_can_not_compare_a_trimmed_record_begins_a_new_epoch(
    store: PostgresAclStore, feed: PostgresChangeFeed
) -> None:
    born = (await store.write([create(topic("a"))], KnownHistory())).epoch
    seen = (await feed.poll(1, 1)).head
    await store.write([create(topic("b"))], KnownHistory())
    last = KnownHistory()
    await store.write([create(topic("c"))], last)
    assert await feed.trim(keep_age=None, keep_count=1) == 2

    # What is not trimmed is compared, and the head needs no record.
    assert (await store.write([], last)).epoch == born
    assert (await store.write([], KnownHistory(FeedPosition(born, 0, GENESIS_HASH)))).epoch == born
    left_behind = KnownHistory(FeedPosition(born, 1, seen.hash))
    after = await store.write([create(topic("c"))], left_behind)

    assert is_later(after.epoch, born)
    assert after.last_offset == 3
    assert (await store.write([], left_behind)).epoch == after.epoch


async def test_those_that_have_lost_the_same_begin_rising_epochs(store_url: str, store: PostgresAclStore) -> None:
    born = (await store.write([create(topic("a"))], KnownHistory())).epoch
    lost = FeedPosition(born, 5, b"of a record that was lost")
    others = [PostgresAclStore(DatabaseUrl.parse(store_url), PATIENT) for _ in range(4)]
    try:
        outcomes = await asyncio.gather(
            *(each.write([create(topic(f"t{n}"))], KnownHistory(lost)) for n, each in enumerate(others))
        )
    finally:
        for each in others:
            await each.close()
    in_order = sorted(outcomes, key=lambda outcome: outcome.last_offset)
    assert [outcome.last_offset for outcome in in_order] == [2, 3, 4, 5]
    assert all(is_later(later.epoch, earlier.epoch) for earlier, later in pairwise(in_order))
    assert is_later(in_order[0].epoch, born)


async def test_a_database_that_takes_no_updates_keeps_its_epoch(
    store: PostgresAclStore, feed: PostgresChangeFeed, database: Connection, store_url: str
) -> None:
    written = await store.write([create(topic("a"))], KnownHistory())
    name = urlsplit(store_url).path.removeprefix("/")
    await database.execute(f'ALTER DATABASE "{name}" SET default_transaction_read_only = on')

    await feed.begin_epoch_if_lost(FeedPosition(written.epoch, 2, b"of a record that was lost"))

    assert (await feed.poll(1, 1)).head.epoch == written.epoch


async def test_a_role_that_may_only_read_keeps_the_epoch(
    store: PostgresAclStore, feed: PostgresChangeFeed, database: Connection, store_url: str
) -> None:
    written = await store.write([create(topic("a"))], KnownHistory())
    await database.execute("DROP ROLE IF EXISTS plain_reader")
    await database.execute("CREATE ROLE plain_reader LOGIN PASSWORD 'plain'")
    await database.execute("GRANT SELECT ON ALL TABLES IN SCHEMA public TO plain_reader")
    url = urlsplit(store_url)
    reading = PostgresChangeFeed(
        DatabaseUrl.parse(url._replace(netloc=f"plain_reader:plain@{url.netloc.rpartition('@')[2]}").geturl())
    )
    try:
        await reading.begin_epoch_if_lost(FeedPosition(written.epoch, 2, b"of a record that was lost"))

        assert (await feed.poll(1, 1)).head.epoch == written.epoch
    finally:
        await reading.close()
        await database.execute("DROP OWNED BY plain_reader; DROP ROLE plain_reader")
