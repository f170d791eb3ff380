"""The change feed over PostgreSQL: damage, lost connections, snapshots that break, and retention."""

import asyncio
from collections.abc import Callable
from datetime import timedelta
from uuid import uuid4

import asyncpg
import pytest

from app.core.continuity import KnownHistory
from app.core.kafka.errors import PoisonedRecordException, StoreUnavailableException
from app.core.kafka.filters import AclBindingFilter
from app.formats.database_url import DatabaseUrl
from app.store.engine import Connection, StoreTimeouts
from app.store.reading.change_feed import PostgresChangeFeed
from app.store.writing.acl_store import PostgresAclStore
from tests.klamm import until
from tests.proxy import proxy_to
from tests.store_on_postgres import SHORT
from tests.updates import alter, create, delete, topic

CLOSED_PORT = "postgresql://klamm:planted@127.0.0.1:1/klamm"
PATIENT_S = 120.0


async def three_transactions(store: PostgresAclStore) -> None:
    """Offsets 1 to 5: two new ACLs, a config, then a removal and a new ACL."""
    await store.write([create(topic("a"), topic("b"))], KnownHistory())
    await store.write([alter(("super.users", "User:root"))], KnownHistory())
    await store.write([delete(AclBindingFilter(resource_name="a")), create(topic("c"))], KnownHistory())


async def sessions(database: Connection, name: str) -> int:
    """How many sessions of this name the database has."""
    counted = await database.fetchval(
        "SELECT count(*) FROM pg_stat_activity WHERE application_name = $1 AND datname = current_database()", name
    )
    return int(counted)


async def read_all(
    feed: PostgresChangeFeed, between: Callable[[], None] = lambda: None, *, pause_s: float = 0.01
) -> int:
    """How many rows a snapshot has. The reader takes a pause between its slices."""
    rows = 0
    async with feed.snapshot() as reader:
        async for some in reader.slices():
            rows += len(some.rows)
            between()
            await asyncio.sleep(pause_s)
    return rows


@pytest.mark.parametrize(
    ("damage", "offset"),
    [
        ("UPDATE acl_record SET kind = 'FeatureLevelRecord' WHERE \"offset\" = 2", 2),
        ('UPDATE acl_record SET operation = 99 WHERE "offset" = 2', 2),
        ('UPDATE acl_record SET resource_type = 1 WHERE "offset" = 1', 1),
        ('UPDATE acl_record SET pattern_type = 2 WHERE "offset" = 1', 1),
        ('UPDATE acl_record SET permission_type = NULL WHERE "offset" = 4', 4),
        ('UPDATE acl_record SET principal = NULL WHERE "offset" = 4', 4),
        ('UPDATE acl_record SET acl_id = NULL WHERE "offset" = 5', 5),
        ('UPDATE acl_record SET config_name = NULL WHERE "offset" = 3', 3),
        ('DELETE FROM acl_record WHERE "offset" = 1', 1),
        ('DELETE FROM acl_record WHERE "offset" = 2', 2),
        ('DELETE FROM acl_record WHERE "offset" = 3', 3),
        ('DELETE FROM acl_record WHERE "offset" = 5', 5),
        ('DELETE FROM acl_record WHERE "offset" > 0', 1),
        ('UPDATE acl_record SET tx_last = 1 WHERE "offset" = 2', 2),
        ('UPDATE acl_record SET tx_last = 3 WHERE "offset" = 1', 2),
        ('UPDATE acl_record SET tx_last = 1000 WHERE "offset" = 4', 4),
        ('UPDATE acl_record SET tx_last = 4 WHERE "offset" = 5', 5),
        ("UPDATE acl_head SET last_offset = 4", 5),
    ],
)
async def test_damage_is_poison_at_its_offset(
    store: PostgresAclStore, feed: PostgresChangeFeed, database: Connection, damage: str, offset: int
) -> None:
    await three_transactions(store)
    await database.execute(damage)

    with pytest.raises(PoisonedRecordException) as poison:
        await feed.poll(0, 100)

    assert poison.value.offset == offset


async def test_a_long_transaction_comes_whole_though_it_is_read_in_parts(
    store: PostgresAclStore, feed: PostgresChangeFeed, database: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.store.reading.change_feed._ROWS_AT_ONCE", 3)
    await store.write([create(*(topic(f"t{at}") for at in range(10)))], KnownHistory())
    await store.write([create(topic("u"))], KnownHistory())

    assert [record.offset for record in (await feed.poll(0, 1)).records] == list(range(1, 11))
    assert [record.offset for record in (await feed.poll(0, 11)).records] == list(range(1, 11))
    assert [record.offset for record in (await feed.poll(10, 1)).records] == [11]
    for damage, offset in (
        ('DELETE FROM acl_record WHERE "offset" = 8', 8),
        ('DELETE FROM acl_record WHERE "offset" BETWEEN 4 AND 10', 4),
        ('UPDATE acl_record SET tx_last = 1000000 WHERE "offset" = 5', 5),
        ('UPDATE acl_record SET tx_last = 1000000 WHERE "offset" <= 10', 11),
    ):
        await database.execute("CREATE TEMP TABLE sound AS SELECT * FROM acl_record")
        await database.execute(damage)
        with pytest.raises(PoisonedRecordException) as poison:
            await feed.poll(0, 1)
        assert poison.value.offset == offset
        await database.execute("DELETE FROM acl_record; INSERT INTO acl_record SELECT * FROM sound; DROP TABLE sound")


async def test_records_before_the_damage_can_still_be_had(
    store: PostgresAclStore, feed: PostgresChangeFeed, database: Connection
) -> None:
    await three_transactions(store)
    await database.execute('UPDATE acl_record SET operation = 99 WHERE "offset" = 5')

    assert len((await feed.poll(0, 3)).records) == 3
    with pytest.raises(PoisonedRecordException):
        await feed.poll(3, 3)
    await database.execute('UPDATE acl_record SET operation = 3 WHERE "offset" = 5')
    assert len((await feed.poll(3, 3)).records) == 2


async def test_an_acl_that_this_version_cannot_read_poisons_the_snapshot(
    store: PostgresAclStore, feed: PostgresChangeFeed, database: Connection
) -> None:
    await three_transactions(store)
    await database.execute("UPDATE acl SET operation = 99 WHERE resource_name = 'b'")

    async with feed.snapshot() as reader:
        with pytest.raises(PoisonedRecordException):
            [some async for some in reader.slices()]


async def test_an_unreachable_database_is_an_outage_for_polls_and_snapshots() -> None:
    feed = PostgresChangeFeed(DatabaseUrl.parse(CLOSED_PORT))

    with pytest.raises(StoreUnavailableException):
        await feed.poll(0, 1)
    with pytest.raises(StoreUnavailableException):
        await read_all(feed)
    await feed.wait(0.2)
    await feed.close()


async def test_a_database_without_head_asks_for_migration(feed: PostgresChangeFeed, database: Connection) -> None:
    await database.execute("DELETE FROM acl_head")

    with pytest.raises(StoreUnavailableException, match="klamm migrate"):
        await feed.poll(0, 1)
    with pytest.raises(StoreUnavailableException, match="klamm migrate"):
        await read_all(feed)
    with pytest.raises(StoreUnavailableException, match="klamm migrate"):
        await feed.trim(keep_age=None, keep_count=0)


async def test_a_frozen_connection_does_not_hold_up_a_poll_for_good(store_url: str, store: PostgresAclStore) -> None:
    async with proxy_to(store_url) as proxy:
        feed = PostgresChangeFeed(DatabaseUrl.parse(proxy.dsn), SHORT)
        await feed.poll(0, 1)
        proxy.freeze()

        with pytest.raises(StoreUnavailableException):
            await feed.poll(0, 1)

        proxy.thaw()
        await store.write([create(topic("a"))], KnownHistory())
        assert len((await feed.poll(0, 1)).records) == 1
        await feed.close()


async def test_a_wait_ends_as_soon_as_listen_stands_for_commits_before_that_gave_no_hint(
    feed: PostgresChangeFeed,
) -> None:
    async with asyncio.timeout(PATIENT_S / 2):
        await feed.wait(PATIENT_S)


async def test_the_loss_of_the_listening_connection_wakes_at_once(
    feed: PostgresChangeFeed, database: Connection
) -> None:
    await feed.wait(PATIENT_S)
    waiting = asyncio.create_task(feed.wait(PATIENT_S))
    await asyncio.sleep(0.1)

    await database.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'klamm listener' "
        "AND datname = current_database()"
    )

    async with asyncio.timeout(PATIENT_S / 2):
        await waiting


async def test_a_half_open_listening_connection_is_found_and_made_anew(store_url: str, store: PostgresAclStore) -> None:
    async with proxy_to(store_url) as proxy:
        feed = PostgresChangeFeed(DatabaseUrl.parse(proxy.dsn), SHORT)
        await feed.wait(PATIENT_S)
        proxy.freeze()
        await store.write([create(topic("lost"))], KnownHistory())

        async with asyncio.timeout(PATIENT_S / 2):
            await feed.wait(PATIENT_S)
        proxy.thaw()
        opened = proxy.opened

        async def is_made_anew() -> bool:
            return proxy.opened > opened

        await until(is_made_anew)
        await feed.wait(1.0)
        waiting = asyncio.create_task(feed.wait(PATIENT_S))
        await asyncio.sleep(0.5)
        await store.write([create(topic("heard"))], KnownHistory())
        async with asyncio.timeout(PATIENT_S / 2):
            await waiting
        await feed.close()


async def test_closing_wakes_who_waits(store_url: str) -> None:
    feed = PostgresChangeFeed(DatabaseUrl.parse(store_url))
    await feed.wait(PATIENT_S)
    waiting = asyncio.create_task(feed.wait(PATIENT_S))
    await asyncio.sleep(0.05)

    await feed.close()

    async with asyncio.timeout(PATIENT_S / 2):
        await waiting
    await feed.wait(0.01)


async def test_an_unchanged_store_sends_no_hint(store: PostgresAclStore, database: Connection) -> None:
    heard: list[object] = []
    await database.add_listener("klamm_feed", lambda *told: heard.append(told[-1]))
    await store.write([delete(AclBindingFilter(resource_name="a"))], KnownHistory())
    first = await store.write([create(topic("a")), alter(("audit.level", "INFO"))], KnownHistory())
    await store.write(
        [create(topic("a")), delete(AclBindingFilter(resource_name="z")), alter(("audit.level", "INFO"))],
        KnownHistory(),
    )
    third = await store.write([create(topic("b")), delete(AclBindingFilter(resource_name="b"))], KnownHistory())

    async def is_heard() -> bool:
        return len(heard) > 1

    await until(is_heard)

    assert heard == [f"{first.epoch}:2", f"{third.epoch}:4"]


async def big_store(store: PostgresAclStore) -> None:
    """Some megabytes, more than sockets and queues hold."""
    await store.write([create(*[topic(f"{n:04}" + "x" * 16_000) for n in range(1_000)])], KnownHistory())


async def test_a_snapshot_that_is_left_in_the_middle_leaves_nothing_behind(
    store: PostgresAclStore, feed: PostgresChangeFeed, database: Connection
) -> None:
    await big_store(store)

    async with feed.snapshot() as reader:
        async for _ in reader.slices():
            await asyncio.sleep(0.2)
            break

    async def is_gone() -> bool:
        return await sessions(database, "klamm snapshot") == 0

    await until(is_gone)


async def test_a_slow_reader_gets_all_of_a_snapshot(store: PostgresAclStore, store_url: str) -> None:
    await big_store(store)
    feed = PostgresChangeFeed(DatabaseUrl.parse(store_url), StoreTimeouts(statement_s=1.0, idle_in_transaction_s=1.0))

    assert await read_all(feed, pause_s=0.02) == 1_000
    async with feed.snapshot() as reader:
        await asyncio.sleep(1.5)
        assert len([some async for some in reader.slices()]) > 1
    await feed.close()


@pytest.mark.parametrize("how", ["cut", "freeze"])
async def test_a_snapshot_whose_connection_breaks_is_an_outage(
    store_url: str, store: PostgresAclStore, how: str
) -> None:
    await big_store(store)
    async with proxy_to(store_url) as proxy:
        feed = PostgresChangeFeed(DatabaseUrl.parse(proxy.dsn), StoreTimeouts(slice_s=0.5, answer_s=0.3))
        with pytest.raises(StoreUnavailableException):
            await read_all(feed, getattr(proxy, how))
        await feed.close()


async def test_retention_by_count_keeps_whole_transactions(store: PostgresAclStore, feed: PostgresChangeFeed) -> None:
    await three_transactions(store)

    assert await feed.trim(keep_age=None, keep_count=4) == 0
    assert await feed.trim(keep_age=None, keep_count=1) == 3
    poll = await feed.poll(3, 10)

    assert poll.head.log_start_offset == 4
    assert poll.hash_at is None
    assert (await feed.poll(0, 10)).records == ()
    assert (await store.write([create(topic("d"))], KnownHistory())).last_offset == 6
    assert [record.offset for record in (await feed.poll(5, 10)).records] == [6]


async def test_retention_by_age_stops_at_the_first_young_record(
    store: PostgresAclStore, feed: PostgresChangeFeed, database: Connection
) -> None:
    await three_transactions(store)
    await database.execute("UPDATE acl_record SET recorded_at = recorded_at - interval '2 days' WHERE \"offset\" <= 3")

    assert await feed.trim(keep_age=timedelta(days=3), keep_count=None) == 0
    assert await feed.trim(keep_age=timedelta(days=1), keep_count=None) == 3
    assert await feed.trim(keep_age=timedelta(0), keep_count=None) == 0

    poll = await feed.poll(5, 10)
    assert poll.head.log_start_offset == 4
    assert poll.hash_at == poll.head.hash


async def test_retention_leaves_the_last_transaction_so_that_followers_at_the_head_go_on(
    store: PostgresAclStore, feed: PostgresChangeFeed
) -> None:
    await three_transactions(store)
    while await feed.trim(keep_age=timedelta(0), keep_count=0):
        pass
    await store.write([create(topic("d"))], KnownHistory())

    poll = await feed.poll(5, 10)
    assert poll.hash_at is not None
    assert [record.offset for record in poll.records] == [6]


async def test_retention_waits_for_exporters_that_were_heard_of_lately(
    store: PostgresAclStore, feed: PostgresChangeFeed, database: Connection
) -> None:
    await three_transactions(store)
    epoch = (await feed.poll(0, 1)).head.epoch
    patience = timedelta(days=1)
    far, near = uuid4(), uuid4()
    assert await database.fetchval("SELECT tell_exported($1, $2, 3)", far, epoch)
    assert await database.fetchval("SELECT tell_exported($1, $2, 1)", near, epoch)
    assert await feed.trim(keep_age=None, keep_count=0, exporters_known_for=patience) == 0
    assert await database.fetchval("SELECT tell_exported($1, $2, 2)", near, epoch)
    assert await feed.trim(keep_age=None, keep_count=0, exporters_known_for=patience) == 2
    await database.execute("UPDATE exporter SET told_at = told_at - interval '2 days' WHERE id = $1", near)
    assert await feed.trim(keep_age=None, keep_count=0, exporters_known_for=patience) == 1
    # Of another history: whoever copied it has lost its position anyway.
    await database.execute("UPDATE exporter SET epoch = gen_random_uuid(), last_offset = 0, told_at = now()")
    await store.write([create(topic("d"))], KnownHistory())
    assert await feed.trim(keep_age=None, keep_count=0, exporters_known_for=patience) == 2


async def test_retention_waits_for_an_exporter_of_an_epoch_before(
    store_url: str, store: PostgresAclStore, feed: PostgresChangeFeed, database: Connection
) -> None:
    await three_transactions(store)
    epoch, exporter, patience = (await feed.poll(0, 1)).head.epoch, uuid4(), timedelta(days=1)
    another = PostgresAclStore(DatabaseUrl.parse(store_url))
    later = (await another.write([create(topic("later"))], KnownHistory())).epoch
    await another.close()

    assert later != epoch
    assert await database.fetchval("SELECT tell_exported($1, $2, 3)", exporter, epoch)
    assert await feed.trim(keep_age=None, keep_count=0, exporters_known_for=patience) == 3
    for of_epoch, through in ((epoch, 6), (later, 7)):
        with pytest.raises(asyncpg.InvalidParameterValueError, match="only offsets of this history"):
            await database.fetchval("SELECT tell_exported($1, $2, $3)", exporter, of_epoch, through)
    # What lies beyond where the next epoch began is lost, and keeps nothing.
    await database.execute("UPDATE exporter SET last_offset = 6")
    await store.write([create(topic("e"))], KnownHistory())
    await database.execute("INSERT INTO exporter SELECT gen_random_uuid(), $1, 5, now()", later)
    assert await feed.trim(keep_age=None, keep_count=0, exporters_known_for=patience) == 2


async def test_only_what_can_have_been_exported_is_noted(
    store: PostgresAclStore, feed: PostgresChangeFeed, database: Connection
) -> None:
    await three_transactions(store)
    epoch = (await feed.poll(0, 1)).head.epoch

    nonsense = ((uuid4(), epoch, 6), (uuid4(), uuid4(), 1), (uuid4(), epoch, -1), (None, epoch, 1))
    for exporter, of_epoch, through in nonsense:
        with pytest.raises(asyncpg.InvalidParameterValueError, match="only offsets of this history"):
            await database.fetchval("SELECT tell_exported($1, $2, $3)", exporter, of_epoch, through)
    many = "INSERT INTO exporter SELECT gen_random_uuid(), $1, 0, now() - $2::interval FROM generate_series(1, $3)"
    await database.execute(many, epoch, timedelta(days=800), 600)
    await database.execute(many, epoch, timedelta(0), 400)
    # Those of more than a year ago are forgotten, and make room.
    assert await database.fetchval("SELECT tell_exported($1, $2, 1)", uuid4(), epoch)
    assert await database.fetchval("SELECT count(*) FROM exporter") == 401
    await database.execute(many, epoch, timedelta(0), 599)
    with pytest.raises(asyncpg.PostgresError, match="1000 exporters"):
        await database.fetchval("SELECT tell_exported($1, $2, 1)", uuid4(), epoch)


async def test_retention_without_rules_keeps_everything(store: PostgresAclStore, feed: PostgresChangeFeed) -> None:
    await three_transactions(store)

    assert await feed.trim(keep_age=None, keep_count=None) == 0
    assert len((await feed.poll(0, 10)).records) == 5


async def test_retention_goes_in_pieces_but_never_cuts_a_transaction(
    store: PostgresAclStore, feed: PostgresChangeFeed
) -> None:
    await store.write(
        [create(*[topic(f"a{n}") for n in range(6_000)]), create(*[topic(f"b{n}") for n in range(6_000)])],
        KnownHistory(),
    )
    await store.write([create(*[topic(f"c{n}") for n in range(4_000)])], KnownHistory())
    await store.write([create(*[topic(f"d{n}") for n in range(7_000)])], KnownHistory())

    removed = [await feed.trim(keep_age=None, keep_count=0) for _ in range(4)]

    assert removed == [12_000, 4_000, 0, 0]
    assert (await feed.poll(0, 1)).head.log_start_offset == 16_001


async def test_a_store_without_statistics_is_looked_at_by_index(
    store: PostgresAclStore, feed: PostgresChangeFeed, database: Connection
) -> None:
    async def scans(kind: str) -> int:
        counted = f"SELECT sum({kind}) FROM pg_stat_user_tables WHERE relname IN ('acl', 'acl_record')"  # noqa: S608
        return int(await database.fetchval(counted))

    async def told() -> bool:
        return await scans("idx_scan") >= 60

    of_migration = await scans("seq_scan")
    for at in range(30):
        await store.write([create(*(topic(f"t{at}-{n}") for n in range(20)))], KnownHistory())
        await store.write([delete(AclBindingFilter(resource_name=f"t{at}-0"))], KnownHistory())
        assert (await feed.poll(21 * at, 100)).records
    # What sessions have counted is told at the latest when they end.
    await store.close()
    await feed.close()
    await until(told)
    assert await scans("seq_scan") == of_migration
