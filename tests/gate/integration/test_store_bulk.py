"""Bulk loading into PostgreSQL: the same rows as the ordinary writer's, beside other writers, and its faults."""

import asyncio

import pytest

from app.core.continuity import KnownHistory
from app.core.kafka.bindings import AclBinding
from app.core.kafka.codes import AclOperation, AclPermissionType, PatternType, ResourceType
from app.core.kafka.errors import RequestTimedOutException, StoreUnavailableException
from app.core.kafka.filters import AclBindingFilter
from app.core.records import GENESIS_HASH, record_hash
from app.formats.database_url import DatabaseUrl
from app.runtime.importing import ImportCounts, Importer, ImportOptions
from app.store.engine import Connection
from app.store.migrate import migrate
from app.store.reading.change_feed import PostgresChangeFeed
from app.store.writing.acl_store import PostgresAclStore
from app.store.writing.bulk_store import PostgresBulkStore
from tests.gate.contract.test_bulk_store import batch
from tests.proxy import COMMIT, proxy_to
from tests.store_on_postgres import PATIENT, SHORT
from tests.updates import ACTOR, create, delete, new, topic

ODD = [
    topic("orders"),
    topic("tab\there \\N \n newline"),
    topic("é\U0001f600", "User:CN=Jürgen,O=\u4e2d"),
    AclBinding(
        ResourceType.TRANSACTIONAL_ID,
        "x" * 30_000,
        PatternType.PREFIXED,
        "Group:a:b",
        "10.0.0.0/8",
        AclOperation.TWO_PHASE_COMMIT,
        AclPermissionType.DENY,
    ),
]

_ACLS = "SELECT * FROM acl ORDER BY natural_key"
_RECORDS = 'SELECT * FROM acl_record ORDER BY "offset"'


async def check_chain(store_url: str) -> int:
    """Proves the whole feed, from its first record to the head; how long it is."""
    feed, chained, offset = PostgresChangeFeed(DatabaseUrl.parse(store_url)), GENESIS_HASH, 0
    while True:
        poll = await feed.poll(offset, 1_000)
        for record in poll.records:
            assert record.offset == offset + 1
            chained, offset = record_hash(chained, record), record.offset
            assert record.hash == chained
        if offset == poll.head.last_offset:
            break
    assert poll.head.hash == chained
    await feed.close()
    return offset


async def test_rows_are_those_of_the_ordinary_writer_in_every_column(
    store: PostgresAclStore, database: Connection, store_url: str
) -> None:
    bulk = PostgresBulkStore(DatabaseUrl.parse(store_url))
    await store.write([create(*ODD)], KnownHistory())
    ordinary = [dict(row) for row in [*await database.fetch(_ACLS), *await database.fetch(_RECORDS)]]
    await store.write([delete(AclBindingFilter())], KnownHistory())

    before = await database.fetchval("SELECT last_offset FROM acl_head")
    await bulk.add(batch(ODD), ACTOR, KnownHistory())

    copied = [*await database.fetch(_ACLS), *await database.fetch(_RECORDS + " OFFSET $1", before)]
    unlike = {"id", "acl_id", "hash", "created_at", "recorded_at"}
    shifted = {"created_offset", "offset", "tx_last"}
    for one, other in zip(ordinary, map(dict, copied), strict=True):
        assert one.keys() == other.keys()
        for column, value in other.items():
            if column not in unlike:
                assert value == (one[column] + before if column in shifted else one[column]), column
        assert all(type(other[column]) is type(one[column]) for column in unlike & one.keys())
    assert len({row["recorded_at"] for row in copied if "recorded_at" in dict(row)}) == 1
    assert await database.fetchval("SELECT count(*) FROM acl JOIN acl_record ON acl_id = id AND kind LIKE 'Acc%'") == 4
    assert await check_chain(store_url) == before + 4
    await bulk.close()


async def test_an_import_beside_other_writers_leaves_no_hole_and_holds_nobody_up(
    store: PostgresAclStore, store_url: str, database: Connection
) -> None:
    bindings = [topic(f"t{n:05d}") for n in range(8_000)]
    importer = Importer(
        PostgresBulkStore(DatabaseUrl.parse(store_url), PATIENT), ACTOR, lambda _: None, ImportOptions(batch_acls=200)
    )
    importing = asyncio.create_task(importer.run(new(bindings)))

    turns = 0
    while not importing.done():
        # Some of them are the import's own, so that both sides meet what the other has done.
        await store.write([create(topic(f"own-{turns}"), topic(f"t{turns * 37 % 8_000:05d}"))], KnownHistory())
        turns += 1
    await importing

    assert turns > 5
    assert importer.counts.created + importer.counts.there == 8_000
    assert await database.fetchval("SELECT count(*) FROM acl") == 8_000 + turns
    assert await check_chain(store_url) == 8_000 + turns


async def test_a_database_without_tables_is_told(database_url: str) -> None:
    bulk = PostgresBulkStore(DatabaseUrl.parse(database_url))

    with pytest.raises(StoreUnavailableException, match="klamm migrate"):
        await bulk.add(batch([topic("a")]), ACTOR, KnownHistory())

    await bulk.close()


async def test_a_standby_or_read_only_session_is_refused(store_url: str, database: Connection) -> None:
    name = await database.fetchval("SELECT current_database()")
    await database.execute(f'ALTER DATABASE "{name}" SET default_transaction_read_only = on')
    bulk = PostgresBulkStore(DatabaseUrl.parse(store_url))

    with pytest.raises(StoreUnavailableException, match="hot standby or read-only"):
        await bulk.add(batch([topic("a")]), ACTOR, KnownHistory())

    await bulk.close()


async def test_commits_are_durable_whatever_the_database_says(store_url: str, database: Connection) -> None:
    name = await database.fetchval("SELECT current_database()")
    await database.execute(f'ALTER DATABASE "{name}" SET synchronous_commit = off')
    bulk = PostgresBulkStore(DatabaseUrl.parse(store_url))
    await bulk.add({}, ACTOR, KnownHistory())

    async with bulk._feed.transaction(KnownHistory()) as transaction:
        assert await transaction.fetchval("SHOW synchronous_commit") == "on"

    await bulk.close()


async def test_a_batch_that_fails_in_its_midst_leaves_nothing(store_url: str, database: Connection) -> None:
    await database.execute(
        """CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS
        $$ BEGIN RAISE EXCEPTION 'planted' USING ERRCODE = '53100'; END $$"""
    )
    await database.execute("CREATE TRIGGER fail BEFORE INSERT ON acl_record EXECUTE FUNCTION fail()")
    bulk = PostgresBulkStore(DatabaseUrl.parse(store_url))

    with pytest.raises(StoreUnavailableException, match="disk is full"):
        await bulk.add(batch([topic("a")]), ACTOR, KnownHistory())

    assert await database.fetchval("SELECT count(*) FROM acl") == 0
    assert await database.fetchval("SELECT last_offset FROM acl_head") == 0
    await bulk.close()


async def test_a_commit_whose_answer_is_lost_is_settled_by_giving_the_batch_again(
    store_url: str, database: Connection
) -> None:
    acls = batch(map(topic, "abc"))
    async with proxy_to(store_url) as proxy:
        bulk = PostgresBulkStore(DatabaseUrl.parse(proxy.dsn), SHORT)
        proxy.trip, proxy.then = COMMIT, "deliver"
        with pytest.raises(RequestTimedOutException):
            await bulk.add(acls, ACTOR, KnownHistory())

        again = await bulk.add(acls, ACTOR, KnownHistory())

        assert sorted(again.created) == [1, 2, 3]
        assert await database.fetchval("SELECT count(*) FROM acl_record") == 3
        await bulk.close()


async def test_an_import_outlives_killed_sessions(store_url: str, database: Connection) -> None:
    bindings = [topic(f"t{n:05d}") for n in range(6_000)]
    killed, at_last_kill = 0, 0
    seen: list[int] = []

    def report(counts: ImportCounts) -> None:
        seen.append(counts.read)

    importer = Importer(PostgresBulkStore(DatabaseUrl.parse(store_url)), ACTOR, report, ImportOptions(batch_acls=100))
    importing = asyncio.create_task(importer.run(new(bindings)))
    while not importing.done():
        await asyncio.sleep(0.05)
        # Who never gets on gives up, and rightly so: it may have written something between two kills.
        if len(seen) > at_last_kill:
            at_last_kill = len(seen)
            killed += await database.fetchval(
                "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity "
                "WHERE datname = current_database() AND application_name = 'klamm import'"
            )
    await importing

    assert killed > 2
    assert (importer.counts.created, importer.counts.there, importer.counts.repeated) == (6_000, 0, 0)
    assert await check_chain(store_url) == 6_000


async def test_a_store_is_born_for_an_import_too(database_url: str) -> None:
    await migrate(DatabaseUrl.parse(database_url), cluster_id="lkc-1")
    importer = Importer(PostgresBulkStore(DatabaseUrl.parse(database_url)), "Import:me", lambda _: None)

    await importer.run(new([topic("a"), topic("a")]))

    assert (importer.counts.created, importer.counts.repeated) == (1, 1)
    assert importer.counts.token is not None
    assert importer.counts.token.offset == 1
