"""What the writer says when PostgreSQL or the way to it fails (fault experiments F5 to F17)."""

import asyncio
from dataclasses import replace
from typing import Literal

import asyncpg
import pytest

from app.core.backoff import Backoff
from app.core.continuity import KnownHistory
from app.core.kafka.errors import RequestTimedOutException, StoreUnavailableException
from app.formats.database_url import DatabaseUrl
from app.store.engine import Connection, StoreTimeouts
from app.store.writing.acl_store import PostgresAclStore
from tests.proxy import COMMIT, proxy_to
from tests.store_on_postgres import SHORT, closed
from tests.updates import create, created, topic

CLOSED_PORT = "postgresql://klamm:planted@127.0.0.1:1/klamm"


async def names(database: Connection) -> list[str]:
    return [row["resource_name"] for row in await database.fetch("SELECT resource_name FROM acl ORDER BY 1")]


async def break_records(database: Connection, sqlstate: str) -> None:
    """From now on PostgreSQL answers an INSERT of records with this."""
    await database.execute(
        f"""CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS
        $$ BEGIN RAISE EXCEPTION 'planted' USING ERRCODE = '{sqlstate}'; END $$"""
    )
    await database.execute("CREATE TRIGGER fail BEFORE INSERT ON acl_record EXECUTE FUNCTION fail()")


async def test_an_unreachable_database_is_told_at_once_and_without_its_url(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.store.engine.retry_backoff", lambda: Backoff(60.0, 60.0))
    store = PostgresAclStore(DatabaseUrl.parse(CLOSED_PORT))

    with pytest.raises(StoreUnavailableException) as refused:
        await store.write([create(topic("a"))], KnownHistory())
    with pytest.raises(StoreUnavailableException, match="a moment ago"):
        await store.write([create(topic("a"))], KnownHistory())

    assert "planted" not in refused.value.message
    await store.close()


async def test_a_closed_store_writes_no_more(store: PostgresAclStore) -> None:
    await store.write([create(topic("a"))], KnownHistory())
    await store.close()
    await store.close()

    with pytest.raises(StoreUnavailableException, match="stopping"):
        await store.write([create(topic("b"))], KnownHistory())


@pytest.mark.parametrize(
    ("sqlstate", "told"),
    [
        ("53100", "disk is full"),
        ("53300", "max_connections"),
        ("57P01", "starting or shutting down"),
        ("57014", "too long"),
        ("55P03", "another writer"),
        ("25006", "hot standby or read-only"),
        ("42501", "privilege"),
        ("40001", "SQLSTATE 40001"),
    ],
)
async def test_faults_of_the_server_are_outages(
    store: PostgresAclStore, database: Connection, sqlstate: str, told: str
) -> None:
    await break_records(database, sqlstate)

    with pytest.raises(StoreUnavailableException, match=told):
        await store.write([create(topic("a"))], KnownHistory())

    assert await names(database) == []
    await database.execute("DROP TRIGGER fail ON acl_record")
    assert (await store.write([create(topic("a"))], KnownHistory())).last_offset == 1


async def test_faults_of_the_group_are_not_outages(store: PostgresAclStore, database: Connection) -> None:
    with pytest.raises(asyncpg.PostgresError):
        await store.write([create(topic("nul\0"))], KnownHistory())
    with pytest.raises(ValueError, match="surrogate"):
        await store.write([create(topic("\ud800"))], KnownHistory())

    await store.write([create(topic("a"))], KnownHistory())
    assert await names(database) == ["a"]


async def test_a_database_without_tables_asks_for_migration(database_url: str) -> None:
    store = PostgresAclStore(DatabaseUrl.parse(database_url))

    with pytest.raises(StoreUnavailableException, match="klamm migrate"):
        await store.write([], KnownHistory())

    await store.close()


async def test_a_head_without_its_row_asks_for_migration(store: PostgresAclStore, database: Connection) -> None:
    await database.execute("DELETE FROM acl_head")

    with pytest.raises(StoreUnavailableException, match="klamm migrate"):
        await store.write([], KnownHistory())


async def test_a_read_only_database_is_told_apart(store: PostgresAclStore, database: Connection) -> None:
    name = await database.fetchval("SELECT current_database()")
    await database.execute(f'ALTER DATABASE "{name}" SET default_transaction_read_only = on')

    with pytest.raises(StoreUnavailableException, match="hot standby or read-only"):
        await store.write([create(topic("a"))], KnownHistory())


async def test_a_writer_that_holds_the_lock_too_long_does_not_hold_up_the_others(
    store_url: str, database: Connection
) -> None:
    store = PostgresAclStore(DatabaseUrl.parse(store_url), replace(SHORT, lock_s=0.3))
    async with database.transaction():
        await database.execute("SELECT * FROM acl_head FOR UPDATE")

        with pytest.raises(StoreUnavailableException, match="another writer"):
            await store.write([create(topic("a"))], KnownHistory())

    assert (await store.write([create(topic("a"))], KnownHistory())).last_offset == 1
    await store.close()


async def test_a_writer_that_stops_in_the_middle_loses_the_lock(store_url: str, store: PostgresAclStore) -> None:
    stuck = await asyncpg.connect(store_url, server_settings={"idle_in_transaction_session_timeout": "300"})
    await stuck.execute("BEGIN; SELECT * FROM acl_head FOR UPDATE")

    assert (await store.write([create(topic("a"))], KnownHistory())).last_offset == 1

    stuck.terminate()


async def test_a_session_that_was_ended_is_made_anew(store: PostgresAclStore, database: Connection) -> None:
    await store.write([create(topic("a"))], KnownHistory())
    ended = await database.fetchval(
        "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name = 'klamm writer' "
        "AND datname = current_database()"
    )
    await closed(store)

    assert ended == 1
    assert (await store.write([create(topic("b"))], KnownHistory())).last_offset == 2


@pytest.mark.parametrize(("then", "kept"), [("drop", False), ("deliver", True), ("silence", True), ("freeze", False)])
async def test_a_lost_reply_to_commit_is_an_unknown_outcome(
    store_url: str, database: Connection, then: Literal["drop", "deliver", "silence", "freeze"], *, kept: bool
) -> None:
    async with proxy_to(store_url) as proxy:
        store = PostgresAclStore(DatabaseUrl.parse(proxy.dsn), SHORT)
        await store.write([create(topic("before"))], KnownHistory())
        proxy.trip, proxy.then = COMMIT, then

        with pytest.raises(RequestTimedOutException, match="unknown"):
            await store.write([create(topic("a"))], KnownHistory())

        proxy.thaw()
        again = await store.write([create(topic("a"))], KnownHistory())
        assert created(again.outcomes[0])[0].created is not kept
        assert again.last_offset == 2
        await store.close()
    assert await names(database) == ["a", "before"]


@pytest.mark.parametrize("words", [b"BEGIN", b"acl_head FOR UPDATE", b"INSERT INTO acl "])
@pytest.mark.parametrize("then", ["drop", "freeze"])
async def test_a_connection_that_breaks_before_commit_kept_nothing(
    store_url: str, database: Connection, words: bytes, then: Literal["drop", "freeze"]
) -> None:
    async with proxy_to(store_url) as proxy:
        store = PostgresAclStore(DatabaseUrl.parse(proxy.dsn), SHORT)
        proxy.trip, proxy.then = words, then

        with pytest.raises(StoreUnavailableException):
            await store.write([create(topic("a"))], KnownHistory())

        assert await names(database) == []
        proxy.thaw()
        await asyncio.sleep(0.2)
        assert (await store.write([create(topic("a"))], KnownHistory())).last_offset == 1
        await store.close()


async def test_a_commit_that_the_server_refuses_kept_nothing(store: PostgresAclStore, database: Connection) -> None:
    await database.execute(
        """CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS
        $$ BEGIN RAISE EXCEPTION 'planted' USING ERRCODE = '53100'; END $$"""
    )
    await database.execute(
        "CREATE CONSTRAINT TRIGGER late AFTER INSERT ON acl_record DEFERRABLE INITIALLY DEFERRED "
        "FOR EACH ROW EXECUTE FUNCTION fail()"
    )

    with pytest.raises(StoreUnavailableException, match="disk is full"):
        await store.write([create(topic("a"))], KnownHistory())

    assert await names(database) == []


async def test_a_group_that_takes_too_long_is_given_up_before_commit(store_url: str, database: Connection) -> None:
    await database.execute(
        """CREATE FUNCTION dawdle() RETURNS trigger LANGUAGE plpgsql AS
        $$ BEGIN PERFORM pg_sleep(0.4); RETURN NEW; END $$"""
    )
    await database.execute("CREATE TRIGGER dawdle BEFORE INSERT ON acl FOR EACH STATEMENT EXECUTE FUNCTION dawdle()")
    store = PostgresAclStore(DatabaseUrl.parse(store_url), StoreTimeouts(transaction_s=0.2))

    with pytest.raises(StoreUnavailableException):
        await store.write([create(topic("a"))], KnownHistory())

    await asyncio.sleep(0.5)
    assert await names(database) == []
    await store.close()


async def test_writes_stand_in_line_and_one_that_waits_too_long_is_refused(
    store_url: str, database: Connection
) -> None:
    store = PostgresAclStore(DatabaseUrl.parse(store_url), StoreTimeouts(lock_s=10.0, transaction_s=3.0))
    async with database.transaction():
        await database.execute("SELECT * FROM acl_head FOR UPDATE")
        outcomes = await asyncio.gather(
            *[store.write([create(topic(name))], KnownHistory()) for name in "abc"], return_exceptions=True
        )
    assert [type(outcome) for outcome in outcomes] == [StoreUnavailableException] * 3
    await asyncio.gather(*[store.write([create(topic(name))], KnownHistory()) for name in "abc"])
    assert await names(database) == ["a", "b", "c"]
    await store.close()


async def test_a_role_that_does_not_wait_for_the_disk_is_overruled(
    store: PostgresAclStore, database: Connection
) -> None:
    name = await database.fetchval("SELECT current_database()")
    await database.execute(f'ALTER DATABASE "{name}" SET synchronous_commit = off')
    await database.execute(
        """CREATE FUNCTION look() RETURNS trigger LANGUAGE plpgsql AS
        $$ BEGIN RAISE EXCEPTION '%', current_setting('synchronous_commit') USING ERRCODE = '22000'; END $$"""
    )
    await database.execute("CREATE TRIGGER look BEFORE INSERT ON acl EXECUTE FUNCTION look()")

    with pytest.raises(asyncpg.PostgresError, match=r"^on$"):
        await store.write([create(topic("a"))], KnownHistory())


async def test_closing_ends_a_write_that_is_under_way(store: PostgresAclStore, database: Connection) -> None:
    async with database.transaction():
        await database.execute("SELECT * FROM acl_head FOR UPDATE")
        writing = asyncio.create_task(store.write([create(topic("a"))], KnownHistory()))
        await asyncio.sleep(0.2)

        await store.close()

        with pytest.raises(StoreUnavailableException):
            await writing
    assert await names(database) == []


async def test_closing_does_not_wait_long_for_a_server_that_is_silent(store_url: str) -> None:
    async with proxy_to(store_url) as proxy:
        store = PostgresAclStore(DatabaseUrl.parse(proxy.dsn), SHORT)
        await store.write([create(topic("a"))], KnownHistory())
        proxy.freeze()

        async with asyncio.timeout(60):
            await store.close()
