"""The store is not what it was: restored from a backup, trimmed behind a follower, damaged. Never a mixture of two.

What each answer may be is judged by the histories themselves: S(v) of the one before or of the one after, and once
the one after has been seen, of that one only.
"""

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from app.core.continuity import KnownHistory
from app.formats.database_url import DatabaseUrl
from app.store.reading.change_feed import PostgresChangeFeed
from app.store.writing.acl_store import PostgresAclStore
from tests.klamm import Process, acl, action, replica, wait_until
from tests.postgres import Frozen, Postgres, run
from tests.proof.e2e.clusters import copy
from tests.proof.e2e.crowd import Answer, Crowd, question_of, seconds_until
from tests.proof.e2e.history import History, offset_of, seven_of
from tests.proof.e2e.outside import Outside
from tests.updates import create, topic

_log = logging.getLogger(__name__)

SHARED = ["shared-1", "shared-2", "shared-3"]
LOST = ["lost-1", "lost-2"]
FOUND = ["found-1", "found-2", "found-3", "found-4"]


def write(dsn: str, names: Sequence[str]) -> None:
    """Create these ACLs, each in a transaction of its own, past all replicas."""

    async def write_all() -> None:
        store = PostgresAclStore(DatabaseUrl.parse(dsn))
        try:
            for name in names:
                await store.write([create(topic(name))], KnownHistory())
        finally:
            await store.close()

    run(write_all())


def equal_to_the_table(replica: Process, outside: Outside) -> bool:
    return {seven_of(acl): acl["id"] for acl in replica.acls()} == outside.acls()


def judge_two(answers: Sequence[Answer], names: Sequence[str], before: History, after: History) -> None:
    """Each answer is of one of the two, and none is of the one before after one that is of the one after only."""
    switched = False
    for answer in answers:
        is_before = answer.results == before.results(names, answer.offset)
        is_after = answer.results == after.results(names, answer.offset)
        assert is_before or is_after, f"of neither history: {answer}"
        assert is_after or not switched, f"back in the lost history: {answer}"
        switched = switched or not is_before
    assert switched


def test_a_file_level_backup_put_in_the_place_of_the_store_is_noticed_and_replaces_it_whole(tmp_path: Path) -> None:
    with Postgres(tmp_path / "data") as server:
        dsn = server.new_store()
        write(dsn, SHARED)
        server.stop()
        cluster, backup = tmp_path / "data" / "postgres", tmp_path / "data" / "backup"
        copy(cluster, backup)
        server.start()
        with replica(dsn) as running, Crowd() as crowd:
            running.ready()
            for name in LOST:
                lost_token = running.create(acl(name))["token"]
            with Outside(dsn) as outside:
                before = outside.history()
            names = [*SHARED, *LOST, *FOUND]
            asking = crowd.start(crowd.ask, running.url, names, gap_s=0.001)
            with Frozen([running.process.pid]):
                server.stop()
                cluster.rename(tmp_path / "data" / "lost")
                backup.rename(cluster)
                server.start()
                write(dsn, FOUND[: len(LOST)])
            with Outside(dsn) as outside:
                took_s = seconds_until(lambda: equal_to_the_table(running, outside), "the backup is noticed")
                after = outside.history()
                assert after.last_offset == before.last_offset
                _log.info("a restored backup of the same length is noticed and loaded: %.2f s", took_s)
                assert running.metric("klamm_feed_mismatches_total") == 1
                assert running.metric("klamm_image_loads_total") == 2
            crowd.stop()
            judge_two(asking.result(), names, before, after)
            refuses_as_of_another_epoch(running, lost_token)


@contextmanager
def backup_of(server: Postgres, dsn: str) -> Iterator[Callable[[], None]]:
    """A copy of the database as it is now; a call puts it in the database's place, and everybody is disconnected."""
    name = urlsplit(dsn).path.removeprefix("/")
    with Outside(server.dsn) as outside:

        def restore() -> None:
            outside.execute(f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS false')
            outside.rows("SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE datname = $1", name)
            outside.execute(f'ALTER DATABASE "{name}" RENAME TO "{name}_lost"')
            outside.execute(f'ALTER DATABASE "{name}_backup" RENAME TO "{name}"')

        outside.execute(f'CREATE DATABASE "{name}_backup" TEMPLATE "{name}"')
        yield restore
        outside.execute(f'DROP DATABASE IF EXISTS "{name}_lost" WITH (FORCE)')
        outside.execute(f'DROP DATABASE IF EXISTS "{name}_backup" WITH (FORCE)')


@pytest.mark.parametrize("found", [0, 1, len(LOST), len(FOUND)], ids=["gone back", "shorter", "same length", "longer"])
def test_a_restored_backup_that_goes_on_by_itself_is_noticed_and_replaces_the_lost_history_whole(
    postgres: Postgres, migrated_database_url: str, found: int
) -> None:
    dsn = migrated_database_url
    write(dsn, SHARED)
    names = [*SHARED, *LOST, *FOUND]
    with backup_of(postgres, dsn) as restore, replica(dsn) as running, Crowd() as crowd:
        tokens = [running.ready().create(acl(name))["token"] for name in LOST]
        with Outside(dsn) as outside:
            before = outside.history()
        asking = crowd.start(crowd.ask, running.url, names, gap_s=0.001)
        with Frozen([running.process.pid]):
            restore()
            write(dsn, FOUND[:found])
        with Outside(dsn) as outside:
            took_s = seconds_until(lambda: equal_to_the_table(running, outside), "the backup is noticed")
            _log.info("a restored backup is noticed and loaded: %.2f s", took_s)
            after = outside.history()
        assert running.metric("klamm_feed_mismatches_total") == 1
        assert running.metric("klamm_image_loads_total") == 2
        # It goes on from there.
        assert offset_of(running.create(acl("next"))["token"]) == after.last_offset + 1
        assert running.authorize("User:alice", action("next")) == ["ALLOWED"]
        crowd.let_ask()
        crowd.stop()
        with Outside(dsn) as outside:
            judge_two(asking.result(), names, before, outside.history())
        for token in tokens:
            refuses_as_of_another_epoch(running, token)


def refuses_as_of_another_epoch(replica: Process, token: str) -> None:
    body = {**question_of(LOST), "at_least": token}
    assert replica.post("/v1/authorize", body, status=409)["code"] == "TOKEN_EPOCH_MISMATCH"


def test_a_follower_that_is_left_behind_by_retention_loads_afresh(migrated_database_url: str) -> None:
    dsn = migrated_database_url
    with replica(dsn) as one, replica(dsn) as other, Outside(dsn) as outside:
        one.ready().create(acl("before"))
        wait_until(lambda: other.ready().metric("klamm_feed_offset") == 1, "both stand at the first record")
        with Frozen([other.process.pid]):
            for name in FOUND:
                one.create(acl(name))
            one.delete({"resource_name": "before"})
            assert trim_all_but(dsn, 2) == 4
        took_s = seconds_until(lambda: equal_to_the_table(other, outside), "the follower has caught up")
        _log.info("a follower behind the start of the log is current again: %.2f s", took_s)
        assert other.metric("klamm_feed_mismatches_total") == 1
        assert other.metric("klamm_image_loads_total") == 2

        # Who is not behind follows on, even from a log that holds the last transaction only.
        assert trim_all_but(dsn, 0) == 1
        token = one.create(acl("next"))["token"]
        assert other.authorize("User:alice", action("next"), at_least=token) == ["ALLOWED"]
        assert other.metric("klamm_image_loads_total") == 2
        assert one.metric("klamm_image_loads_total") == 1
        with replica(dsn) as late:
            assert equal_to_the_table(late.ready(), outside)


def trim_all_but(dsn: str, count: int) -> int:
    """Trim the log to its last records; returns how many went."""

    async def trim() -> int:
        feed = PostgresChangeFeed(DatabaseUrl.parse(dsn))
        try:
            return await feed.trim(keep_age=None, keep_count=count)
        finally:
            await feed.close()

    return run(trim())
