"""A hot standby takes no updates; after its promotion the first writer begins a new epoch (F11 to F13)."""

import asyncio
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import asyncpg
import pytest

from app.core.continuity import KnownHistory
from app.core.kafka.errors import StoreUnavailableException
from app.formats.database_url import DatabaseUrl
from app.store.embedded.binaries import find_binaries
from app.store.embedded.process import Launcher
from app.store.embedded.server import EmbeddedPostgres
from app.store.engine import Connection
from app.store.migrate import migrate
from app.store.reading.change_feed import PostgresChangeFeed
from app.store.writing.acl_store import PostgresAclStore
from tests.postgres import new_folder
from tests.store_on_postgres import closed
from tests.updates import create, created, topic


@contextmanager
def standby(cluster: Path, dsn: str) -> Iterator[str]:
    """The cluster, which was shut down well, as a hot standby of nobody; its DSN."""
    launcher = Launcher.for_cluster(cluster)
    (cluster / "standby.signal").touch()
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with (cluster.parent / "standby.log").open("wb") as log:
        command = [find_binaries(launcher).program("postgres"), "-p", str(port)]
        options = ["--listen_addresses=127.0.0.1", "--unix_socket_directories="]
        server = launcher.spawn([*command, *options], cluster, log=log)
    try:
        url = urlsplit(dsn)
        yield url._replace(netloc=f"{url.netloc.rpartition(':')[0]}:{port}").geturl()
    finally:
        server.send_signal(signal.SIGINT)
        try:
            server.wait(10)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()


async def connected(dsn: str) -> Connection:
    async with asyncio.timeout(30):
        while True:
            try:
                return await asyncpg.connect(dsn, timeout=5)
            except (OSError, asyncpg.CannotConnectNowError):
                await asyncio.sleep(0.05)


async def test_a_standby_takes_no_updates_and_a_promoted_one_begins_a_new_epoch(tmp_path: Path) -> None:
    with EmbeddedPostgres(new_folder(tmp_path / "data")) as server:
        dsn = server.dsn
        await migrate(DatabaseUrl.parse(dsn))
        store = PostgresAclStore(DatabaseUrl.parse(dsn))
        before = await store.write([create(topic("a"))], KnownHistory())
        await store.close()
    stopped_at = time.time()
    with standby(tmp_path / "data" / "postgres", dsn) as standby_dsn:
        admin = await connected(standby_dsn)
        store, feed = (
            PostgresAclStore(DatabaseUrl.parse(standby_dsn)),
            PostgresChangeFeed(DatabaseUrl.parse(standby_dsn)),
        )

        with pytest.raises(StoreUnavailableException, match="hot standby"):
            await store.write([create(topic("b"))], KnownHistory())
        await migrate(DatabaseUrl.parse(standby_dsn))
        asked_at = time.time()
        poll = await feed.poll(0, 10)
        assert poll.head.epoch == before.epoch
        assert poll.age_s >= asked_at - stopped_at, "nothing was replayed since the primary stopped"
        async with feed.snapshot() as reader:
            assert len([row async for some in reader.slices() for row in some.rows]) == 1

        assert await admin.fetchval("SELECT pg_promote()")
        await asyncio.sleep(1.0)  # the store does not knock again at once
        after = await store.write([create(topic("b"))], KnownHistory())
        again = await store.write([create(topic("b"))], KnownHistory())

        assert after.epoch != before.epoch
        assert after.last_offset == 2
        assert again.epoch == after.epoch
        assert (await feed.poll(1, 10)).head.epoch == after.epoch
        await admin.close()
        await feed.close()
        await store.close()


async def test_a_first_writer_takes_down_the_server(store: PostgresAclStore, database: Connection) -> None:
    await store.write([create(topic("a"))], KnownHistory())

    row = await database.fetchrow("SELECT system_identifier, timeline FROM acl_head")
    assert row is not None
    known = await database.fetchval("SELECT system_identifier FROM pg_control_system()")
    assert (row["system_identifier"], row["timeline"]) == (known, 1)


@pytest.mark.parametrize(("identifier", "timeline"), [(1, 0), (0, 1)])
async def test_another_server_or_timeline_begins_a_new_epoch_even_without_changes(
    store: PostgresAclStore, feed: PostgresChangeFeed, database: Connection, identifier: int, timeline: int
) -> None:
    first = await store.write([create(topic("a"))], KnownHistory())
    await database.execute(
        "UPDATE acl_head SET system_identifier = system_identifier + $1, timeline = timeline + $2", identifier, timeline
    )

    after = await store.write([create(topic("a"))], KnownHistory())

    assert [each.created for each in created(after.outcomes[0])] == [False]
    assert after.epoch != first.epoch
    assert after.last_offset == 1
    assert (await feed.poll(1, 1)).head.epoch == after.epoch
    assert (await store.write([], KnownHistory())).epoch == after.epoch


async def test_a_role_that_may_not_ask_for_the_server_writes_in_the_old_epoch(
    store_url: str, database: Connection, caplog: pytest.LogCaptureFixture
) -> None:
    await database.execute("REVOKE EXECUTE ON FUNCTION pg_control_system() FROM PUBLIC")
    await database.execute("DROP ROLE IF EXISTS plain_writer")
    await database.execute("CREATE ROLE plain_writer LOGIN PASSWORD 'plain'")
    await database.execute("GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO plain_writer")
    url = urlsplit(store_url)
    dsn = url._replace(netloc=f"plain_writer:plain@{url.netloc.rpartition('@')[2]}").geturl()
    store = PostgresAclStore(DatabaseUrl.parse(dsn))
    try:
        first = await store.write([create(topic("a"))], KnownHistory())
        await database.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'plain_writer'")
        await closed(store)
        second = await store.write([create(topic("b"))], KnownHistory())

        assert (second.epoch, second.last_offset) == (first.epoch, 2)
        assert [record.message for record in caplog.records].count("server_identity_not_readable") == 1
    finally:
        await store.close()
        await database.execute("DROP OWNED BY plain_writer; DROP ROLE plain_writer")
