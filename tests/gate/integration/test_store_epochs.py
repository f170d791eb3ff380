"""The table of epochs: when one begins, what a follower's position is to the store, and what nobody can bring about."""

import asyncio
import gc
import socket
from collections.abc import AsyncIterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from uuid import UUID, uuid4

import pytest

from app.core.continuity import FeedPosition, KnownHistory
from app.core.epochs import Epochs, Standing, is_later, next_epoch
from app.core.kafka.errors import StoreUnavailableException
from app.core.token import Token
from app.formats.database_url import DatabaseUrl
from app.store.engine import Connection, StoreTimeouts
from app.store.epochs import read_epochs
from app.store.reading.change_feed import PostgresChangeFeed
from app.store.writing.acl_store import PostgresAclStore
from app.store.writing.positions import Positions
from tests.store_on_postgres import PATIENT
from tests.updates import create, topic

HUGE = (1 << 63) - 1


@pytest.fixture
async def another(store_url: str) -> AsyncIterator[PostgresAclStore]:
    """Another process that writes."""
    store = PostgresAclStore(DatabaseUrl.parse(store_url), PATIENT)
    yield store
    await store.close()


@pytest.fixture
async def another_feed(store_url: str) -> AsyncIterator[PostgresChangeFeed]:
    feed = PostgresChangeFeed(DatabaseUrl.parse(store_url), PATIENT)
    yield feed
    await feed.close()


async def whys(database: Connection) -> list[str]:
    """Of the epochs that began in the test: its store is a copy, which begins with one of its own."""
    rows = await database.fetch("SELECT why FROM acl_epoch_v1 ORDER BY number")
    return [row["why"] for row in rows if row["why"] != "the store was created"][1:]


async def put_back_head(database: Connection) -> None:
    """What a restore in place leaves: the same row, written by another transaction."""
    await database.execute("CREATE TEMPORARY TABLE backup AS TABLE acl_head")
    async with database.transaction():
        await database.execute("DELETE FROM acl_head")
        await database.execute("INSERT INTO acl_head SELECT * FROM backup")
    await database.execute("DROP TABLE backup")


async def test_nobody_who_asked_is_left_when_a_read_of_the_head_fails() -> None:
    faults: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, fault: faults.append(fault))
    # A server that is silent: the read ends after those who asked for it.
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        positions = Positions(
            DatabaseUrl.parse(f"postgresql://klamm@127.0.0.1:{port}/none"), StoreTimeouts(connect_s=0.5)
        )
        asked = asyncio.create_task(positions.standing_of(Token(uuid4(), 1)))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        (read,) = (each for each in asyncio.all_tasks() if each.get_name() == "klamm-positions")
        asked.cancel()
        await asyncio.wait({read})
        del read
        gc.collect()
    await positions.close()
    assert faults == []


async def test_first_write_of_each_process_begins_an_epoch(
    store: PostgresAclStore, another: PostgresAclStore, feed: PostgresChangeFeed, database: Connection
) -> None:
    born = (await feed.poll(0, 1)).head
    assert (await store.write([], KnownHistory())).epoch == born.epoch

    first = await store.write([create(topic("a"))], KnownHistory())
    again = await store.write([create(topic("b"))], KnownHistory())
    other = await another.write([create(topic("b"))], KnownHistory())
    second = await another.write([create(topic("c"))], KnownHistory())

    assert again.epoch == other.epoch == first.epoch
    assert is_later(second.epoch, first.epoch)
    poll = await feed.poll(1, 10)
    assert [(row.id, row.first_offset) for row in poll.head.epochs.rows[-3:]] == [
        (born.epoch, 0),
        (first.epoch, 0),
        (second.epoch, 2),
    ]
    assert await whys(database) == ["the first write of a process"] * 2
    async with feed.snapshot() as snapshot:
        assert snapshot.head.epochs == poll.head.epochs


async def test_failed_writes_begin_no_epoch(store: PostgresAclStore, database: Connection) -> None:
    await store.write([create(topic("a"))], KnownHistory())
    await database.execute("ALTER TABLE acl_record ADD CONSTRAINT full_disk CHECK (resource_name <> 'no room')")
    for _ in range(20):
        with pytest.raises(Exception, match="full_disk"):
            await store.write([create(topic("no room"))], KnownHistory())

    await store.write([create(topic("b"))], KnownHistory())

    assert len(await whys(database)) == 1


async def test_writers_side_by_side_see_no_row_that_was_put_back(
    store: PostgresAclStore, another: PostgresAclStore, database: Connection
) -> None:
    for number in range(20):
        await asyncio.gather(
            store.write([create(topic(f"a{number}"))], KnownHistory()),
            another.write([create(topic(f"b{number}"))], KnownHistory()),
        )
    await database.execute("VACUUM (FREEZE) acl_head")
    await database.execute("VACUUM FULL acl_head")
    await database.execute("ALTER TABLE acl_head ADD COLUMN of_a_later_version text")
    await store.write([create(topic("c"))], KnownHistory())

    assert await whys(database) == ["the first write of a process"] * 2


async def test_head_put_back_begins_an_epoch_with_the_next_write(store: PostgresAclStore, database: Connection) -> None:
    before = await store.write([create(topic("a"))], KnownHistory())
    await put_back_head(database)

    after = await store.write([], KnownHistory())

    assert is_later(after.epoch, before.epoch)
    assert after.last_offset == 1
    assert (await whys(database))[-1] == "the row of the head was put back"
    assert (await store.write([create(topic("b"))], KnownHistory())).epoch == after.epoch


async def test_head_put_back_without_its_epochs_is_of_none_that_began_later(
    store: PostgresAclStore, another: PostgresAclStore, database: Connection
) -> None:
    early = await store.write([create(topic("a"))], KnownHistory())
    await database.execute("CREATE TEMPORARY TABLE backup AS TABLE acl_head")
    late = await another.write([create(topic("b"))], KnownHistory())
    await database.execute("DELETE FROM acl_head")
    await database.execute("INSERT INTO acl_head SELECT * FROM backup")

    epochs = await read_epochs(database)

    assert epochs.last == early.epoch
    assert epochs.judge(Token(late.epoch, 2), 1) is Standing.AHEAD


async def test_epochs_that_do_not_fit_are_left_out_with_all_before(
    store: PostgresAclStore, another: PostgresAclStore, database: Connection
) -> None:
    await store.write([create(topic("a"))], KnownHistory())
    last = await another.write([create(topic("b"))], KnownHistory())
    await database.execute(
        "UPDATE acl_epoch SET first_offset = 7 WHERE number = (SELECT max(number) - 1 FROM acl_epoch)"
    )
    assert [row.id for row in (await read_epochs(database)).rows] == [last.epoch]
    await database.execute("DELETE FROM acl_epoch")
    assert await read_epochs(database) == Epochs.only(last.epoch)


async def test_position_of_an_older_epoch(
    store: PostgresAclStore, another: PostgresAclStore, feed: PostgresChangeFeed
) -> None:
    early = await store.write([create(topic("a"))], KnownHistory())
    late = await another.write([create(topic("b"), topic("c"))], KnownHistory())

    cases = {
        Token(early.epoch, 1): Standing.PART,
        Token(early.epoch, 2): Standing.LOST,
        Token(early.epoch, HUGE): Standing.LOST,
        Token(late.epoch, 3): Standing.PART,
        Token(uuid4(), 1): Standing.LOST,
        Token(next_epoch(datetime(3000, 1, 1, tzinfo=UTC), [], uuid4()), 1): Standing.INVALID,
    }
    assert {position: await feed.standing_of(position) for position in cases} == cases
    assert (await feed.poll(3, 1)).head.epoch == late.epoch


async def test_position_ahead_of_the_store_begins_an_epoch_and_is_lost(
    store: PostgresAclStore, feed: PostgresChangeFeed, database: Connection
) -> None:
    written = await store.write([create(topic("a"))], KnownHistory())

    assert await feed.standing_of(Token(written.epoch, 9)) is Standing.LOST

    head = (await feed.poll(1, 1)).head
    assert is_later(head.epoch, written.epoch)
    assert await feed.standing_of(Token(written.epoch, 1)) is Standing.PART
    assert await feed.standing_of(Token(head.epoch, 1)) is Standing.PART
    assert (await whys(database))[-1].startswith("a follower has shown")


async def test_forged_positions_in_a_loop_begin_one_epoch_in_ten_minutes_and_one_for_each_process(
    store_url: str,
    store: PostgresAclStore,
    feed: PostgresChangeFeed,
    another_feed: PostgresChangeFeed,
    database: Connection,
) -> None:
    tokens = [Token((await store.write([create(topic("a"))], KnownHistory())).epoch, 1)]
    for reader in (feed, another_feed):
        for _ in range(20):
            with suppress(StoreUnavailableException):
                await reader.standing_of(Token((await feed.poll(1, 1)).head.epoch, HUGE))
    begun = [why for why in await whys(database) if why.startswith("a follower has shown")]
    # The one that was due, and one more of each process.
    assert len(begun) == 3
    assert {await feed.standing_of(each) for each in tokens} == {Standing.PART}

    await database.execute("UPDATE acl_epoch SET began_at = began_at - interval '11 minutes'")
    # A process that was refused asks the store again when it was told to.
    patient = PostgresChangeFeed(DatabaseUrl.parse(store_url), PATIENT)
    assert await patient.standing_of(Token((await feed.poll(1, 1)).head.epoch, HUGE)) is Standing.LOST
    await patient.close()
    assert len([why for why in await whys(database) if why.startswith("a follower has shown")]) == 4


async def test_epoch_that_was_refused_meanwhile_is_overtaken(
    store: PostgresAclStore, feed: PostgresChangeFeed, another_feed: PostgresChangeFeed, database: Connection
) -> None:
    written = await store.write([create(topic("a"))], KnownHistory())
    now = await database.fetchval("SELECT clock_timestamp()")
    for _ in range(2):
        await feed.standing_of(Token((await feed.poll(1, 1)).head.epoch, HUGE))
    forged = next_epoch(now + timedelta(hours=12), [], uuid4())
    for _ in range(3):
        with pytest.raises(StoreUnavailableException):
            await feed.standing_of(Token(forged, 7))
    noted = await database.fetchval("SELECT refused_epoch FROM acl_head")
    assert is_later(UUID(bytes=noted.bytes), forged)

    await database.execute("UPDATE acl_epoch SET began_at = began_at - interval '11 minutes'")
    head = (await feed.poll(1, 1)).head
    assert await another_feed.standing_of(Token(head.epoch, HUGE)) is Standing.LOST

    assert is_later((await feed.poll(1, 1)).head.epoch, forged)
    assert await feed.standing_of(Token(forged, 7)) is Standing.LOST
    assert await database.fetchval("SELECT refused_epoch FROM acl_head") is None
    assert await feed.standing_of(Token(written.epoch, 1)) is Standing.PART


async def test_epoch_of_a_clock_that_was_days_ahead_is_never_invalid(
    store: PostgresAclStore, another: PostgresAclStore, feed: PostgresChangeFeed, database: Connection
) -> None:
    now = await database.fetchval("SELECT clock_timestamp()")
    ahead = next_epoch(now + timedelta(days=3), [], uuid4())
    await store.write([create(topic("a"))], KnownHistory())
    await database.execute("UPDATE acl_head SET epoch = $1", ahead)

    assert await feed.standing_of(Token(ahead, 1)) is Standing.PART
    after = await another.write([create(topic("b"))], KnownHistory())
    assert is_later(after.epoch, ahead)
    assert await feed.standing_of(Token(ahead, 1)) is Standing.PART


async def test_epoch_after_a_restore_is_later_than_those_it_lost_though_a_forged_one_is_ahead(
    store_url: str, database: Connection
) -> None:
    now = await database.fetchval("SELECT clock_timestamp()")
    await database.execute("UPDATE acl_head SET epoch = $1", next_epoch(now + timedelta(hours=12), [], uuid4()))
    copy = await database.fetchrow("SELECT * FROM acl_head")
    assert copy is not None
    # Three epochs begin within a minute; then the store is put back, and the next one begins 40 s later.
    lost = [await _epoch_of_another_process(store_url, database, seconds) for seconds in (20, 21, 40)]
    await database.execute("DELETE FROM acl_record")
    await database.execute("DELETE FROM acl")
    await database.execute(
        "UPDATE acl_head SET epoch = $1, last_offset = $2, hash = $3, digest = $4, digest_offset = $5",
        *(copy[name] for name in ("epoch", "last_offset", "hash", "digest", "digest_offset")),
    )
    begun = await _epoch_of_another_process(store_url, database, 80)

    assert all(is_later(begun, each) for each in lost)


async def _epoch_of_another_process(store_url: str, database: Connection, seconds: int) -> UUID:
    """That of its first write, so many seconds after the copy was made."""
    await database.execute("UPDATE acl_epoch SET began_at = began_at - $1::float8 * interval '1 s'", float(seconds))
    store = PostgresAclStore(DatabaseUrl.parse(store_url), PATIENT)
    written = await store.write([create(topic(f"t{seconds}"))], KnownHistory())
    await store.close()
    await database.execute("UPDATE acl_epoch SET began_at = began_at + $1::float8 * interval '1 s'", float(seconds))
    return written.epoch


async def test_all_who_ask_at_once_share_a_read(
    store: PostgresAclStore, feed: PostgresChangeFeed, database: Connection
) -> None:
    written = await store.write([create(topic("a"))], KnownHistory())
    name = "klamm positions"
    asked = await asyncio.gather(*(feed.standing_of(Token(written.epoch, 1)) for _ in range(50)))
    assert set(asked) == {Standing.PART}
    sessions = "SELECT count(*) FROM pg_stat_activity WHERE application_name = $1 AND datname = current_database()"
    assert await database.fetchval(sessions, name) == 1


async def test_writer_of_the_version_before_is_noted(store: PostgresAclStore, database: Connection) -> None:
    first = await store.write([create(topic("a"))], KnownHistory())
    later = next_epoch(datetime(2026, 1, 1, tzinfo=UTC), [first.epoch], uuid4())
    await database.execute("UPDATE acl_head SET epoch = $1", later)

    epochs = await read_epochs(database)

    assert [epochs.rows[-1].id, epochs.rows[-1].first_offset] == [later, 1]
    assert (await whys(database))[-1] == "a writer of an older version began it"


async def test_epochs_rise_over_many_processes(store_url: str, database: Connection) -> None:
    known = KnownHistory()
    for number in range(12):
        store = PostgresAclStore(DatabaseUrl.parse(store_url), PATIENT)
        await store.write([create(topic(f"t{number}"))], known)
        await store.close()
    epochs = await read_epochs(database)
    rows = epochs.rows[-13:]
    assert all(is_later(after.id, before.id) for before, after in pairwise(rows))
    assert [epochs.judge(Token(row.id, number), 12) for number, row in enumerate(rows)] == [Standing.PART] * 13


async def test_store_that_lost_records_keeps_the_tokens_before(
    store: PostgresAclStore, another: PostgresAclStore, feed: PostgresChangeFeed
) -> None:
    kept = await store.write([create(topic("a"))], KnownHistory())

    after = await another.write([], KnownHistory(FeedPosition(kept.epoch, 5, b"of a record that was lost")))

    assert await feed.standing_of(Token(kept.epoch, 1)) is Standing.PART
    assert await feed.standing_of(Token(kept.epoch, 5)) is Standing.LOST
    assert (after.epoch, after.last_offset) == ((await feed.poll(1, 1)).head.epoch, 1)
