"""The export: what is copied, once and in order, as the role that may only read the views."""

import asyncio
import itertools
import json
import re
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from random import Random

import asyncpg
import pytest
from pyspark.sql import SparkSession

from app.core.continuity import KnownHistory
from app.core.records import Record
from app.formats.database_url import DatabaseUrl
from app.pipeline.history import source as source_module
from app.pipeline.history.folding import snapshot_at
from app.pipeline.history.manifests import Exported, read_exported
from app.pipeline.history.records import record_of
from app.pipeline.history.snapshot import load_snapshot
from app.pipeline.jobs import export, reconcile, snapshot
from app.pipeline.spark.errors import PipelineError
from app.pipeline.spark.jdbc import PASSWORD_VARIABLE, READER
from app.pipeline.spark.storage import Home, write_document
from app.store.embedded.server import EmbeddedPostgres
from app.store.reading.change_feed import PostgresChangeFeed
from app.store.writing.acl_store import PostgresAclStore
from tests.database_roles import PASSWORD, DatabaseRoles, connected, new_store_with_roles
from tests.pipeline_jobs import Run, rows, run_job, run_job_beside
from tests.postgres import new_folder
from tests.proof.pipeline.histories import exported_records, feed_records, random_group, states, write_history

_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedPostgres]:
    """A server of its own: roles belong to all of its databases."""
    with EmbeddedPostgres(new_folder(tmp_path_factory.mktemp("postgres") / "data")) as server:
        yield server


@pytest.fixture
async def roles(server: EmbeddedPostgres, monkeypatch: pytest.MonkeyPatch) -> DatabaseRoles:
    """A newborn store, and the password of the role that reads it."""
    roles = await new_store_with_roles(server.dsn, f"export_{next(_numbers)}")
    monkeypatch.setenv(PASSWORD_VARIABLE, PASSWORD)
    return roles


@dataclass(frozen=True)
class Keeping:
    """An export of this store into this home."""

    spark: SparkSession
    path: Path
    roles: DatabaseRoles

    def run(self, *arguments: str) -> Run:
        return run_job(self.spark, export, self.path, self.roles.spark, *arguments)

    def records(self) -> list[Record]:
        """What was exported, as core has it."""
        frame = exported_records(self.spark, Home(str(self.path)))
        found = frame.selectExpr("*", "unix_micros(recorded_at) AS recorded_micros").orderBy("offset").collect()
        assert all(row["day"].isoformat() for row in found)
        return [record_of(row.asDict()) for row in found]

    def manifests(self) -> Exported:
        exported = read_exported(self.spark, Home(str(self.path)))
        assert exported is not None
        return exported


@pytest.fixture
def keeping(spark: SparkSession, roles: DatabaseRoles, tmp_path: Path) -> Keeping:
    return Keeping(spark, tmp_path / "home", roles)


@pytest.fixture
async def admin(roles: DatabaseRoles) -> AsyncIterator["asyncpg.Connection[asyncpg.Record]"]:
    async with connected(roles.admin) as connection:
        yield connection


async def test_every_record_comes_once_and_a_run_takes_only_what_is_new(
    keeping: Keeping, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Several batches of two ranges each, so that batches end inside transactions.
    monkeypatch.setattr(source_module, "ROWS_PER_RANGE", 7)
    empty = keeping.run()
    assert "nothing new since offset 0" in empty.said
    assert empty.counts == {"base_acls_written": 0}
    assert keeping.records() == []

    await write_history(keeping.roles.serve, 1, 8)
    first = keeping.run("--ranges", "2")
    stored = await feed_records(keeping.roles.serve)
    assert keeping.records() == stored
    assert first.counts == {"records_exported": len(stored)}
    batches = keeping.manifests().batches
    assert [batch.first_offset for batch in batches] == list(range(1, len(stored) + 1, 14))
    assert len(batches) > 1

    assert "nothing new" in keeping.run().said
    await write_history(keeping.roles.serve, 2, 3)
    keeping.run()
    stored = await feed_records(keeping.roles.serve)
    assert keeping.records() == stored
    exported = keeping.manifests()
    assert exported.faults() == []
    assert exported.hash == stored[-1].hash
    assert sum(n for batch in exported.batches for n in batch.counts.values()) == len(stored)


async def test_what_a_killed_run_left_is_overwritten_and_counts_for_nothing(keeping: Keeping) -> None:
    await write_history(keeping.roles.serve, 3, 4)
    keeping.run()
    before = keeping.records()
    (keeping.path / "export" / "manifests" / "batch=1").rename(keeping.path / "gone")
    with pytest.raises(PipelineError, match="nothing has been exported"):
        keeping.records()

    await write_history(keeping.roles.serve, 4, 2)
    keeping.run()

    stored = await feed_records(keeping.roles.serve)
    assert keeping.records() == stored
    assert len(stored) > len(before)
    written = keeping.spark.read.parquet(str(keeping.path / "export" / "records"))
    assert written.count() == len(stored)


async def test_a_write_storm_changes_nothing_of_the_cut_and_is_never_waited_for(
    keeping: Keeping, admin: "asyncpg.Connection[asyncpg.Record]"
) -> None:
    await write_history(keeping.roles.serve, 5, 30)
    store, draw = PostgresAclStore(DatabaseUrl.parse(keeping.roles.serve)), Random(6)
    is_over = asyncio.Event()
    seen: set[tuple[int, object, str]] = set()
    modes: set[str] = set()

    async def storm() -> int:
        written = 0
        while not is_over.is_set():
            await store.write(random_group(draw), KnownHistory())
            written += 1
        return written

    async def watch() -> None:
        while not is_over.is_set():
            for row in await admin.fetch(
                """SELECT pid, xact_start, query, backend_xid FROM pg_stat_activity
                WHERE usename = 'klamm_report' AND application_name = $1 AND xact_start IS NOT NULL""",
                READER,
            ):
                assert row["backend_xid"] is None
                seen.add((row["pid"], row["xact_start"], row["query"]))
            for row in await admin.fetch(
                """SELECT DISTINCT mode FROM pg_locks JOIN pg_stat_activity USING (pid)
                WHERE usename = 'klamm_report' AND application_name = $1 AND locktype <> 'virtualxid'""",
                READER,
            ):
                modes.add(row["mode"])
            await asyncio.sleep(0.001)

    storming, watching = asyncio.create_task(storm()), asyncio.create_task(watch())
    run = await run_job_beside(keeping.spark, export, keeping.path, keeping.roles.spark)
    is_over.set()
    assert await storming > 5
    await watching
    await store.close()

    cut = keeping.manifests().last_offset
    stored = await feed_records(keeping.roles.serve)
    assert run.status == 0
    assert cut < stored[-1].offset
    assert keeping.records() == stored[:cut]
    run_job(keeping.spark, snapshot, keeping.path, keeping.roles.spark)
    assert rows(load_snapshot(keeping.spark, Home(str(keeping.path))).acls) == sorted(states(stored)[cut].acls)
    clean = run_job(keeping.spark, reconcile, keeping.path, keeping.roles.spark)
    assert (clean.status, "everything agrees" in clean.said) == (0, True), clean.said

    asked = {query for _, _, query in seen if re.search(r"_v[12]\b", query)}
    assert any("acl_record_v" in query for query in asked), "the watch came too late to see anything"
    # One statement a transaction, and nothing but reading the views.
    transactions = [(pid, began) for pid, began, query in seen if query in asked]
    assert len(transactions) == len(set(transactions))
    assert all(query.startswith("SELECT") for query in asked)
    # Whether a lock of a few milliseconds is seen at all is chance; whatever is seen stands in nobody's way.
    assert modes <= {"AccessShareLock"}
    left = "SELECT count(*) FROM pg_stat_activity WHERE usename = 'klamm_report'"
    async with asyncio.timeout(60):
        while await admin.fetchval(left):  # noqa: ASYNC110 - PostgreSQL tells nobody of it
            await asyncio.sleep(0.05)


async def test_an_export_goes_on_across_epochs_without_a_new_base(
    keeping: Keeping, admin: "asyncpg.Connection[asyncpg.Record]"
) -> None:
    await write_history(keeping.roles.serve, 31, 3)
    keeping.run()
    run_job(keeping.spark, snapshot, keeping.path, keeping.roles.spark)
    first = keeping.manifests()
    as_the_version_before_wrote_them(keeping)
    # Another process writes, and a third.
    await write_history(keeping.roles.serve, 32, 3)
    await write_history(keeping.roles.serve, 33, 3)

    found = keeping.run()

    exported, stored = keeping.manifests(), await feed_records(keeping.roles.serve)
    assert (found.status, exported.base, exported.faults()) == (0, None, [])
    assert keeping.records() == stored
    noted = await admin.fetch("SELECT epoch, first_offset FROM acl_epoch_v1 ORDER BY number DESC LIMIT 3")
    assert [(str(each.id), each.first_offset) for each in exported.epochs.rows[-3:]] == [
        (str(row["epoch"]), row["first_offset"]) for row in reversed(noted)
    ]
    assert exported.epochs.has(first.token, exported.last_offset)
    assert exported.token.epoch != first.token.epoch
    told = await admin.fetchrow("SELECT epoch, last_offset FROM exporter")
    assert told is not None
    assert (str(told["epoch"]), told["last_offset"]) == (str(exported.token.epoch), exported.token.offset)
    assert "everything agrees" in run_job(keeping.spark, reconcile, keeping.path, keeping.roles.spark).said
    # The snapshot of the epoch before is the beginning of the next, beside which it stays.
    warned: list[str] = []
    assert snapshot_at(keeping.spark, Home(str(keeping.path)), tell=warned.append).token == exported.token
    assert warned == []
    run_job(keeping.spark, snapshot, keeping.path, keeping.roles.spark)
    expected, saved = states(stored), load_snapshot(keeping.spark, Home(str(keeping.path)))
    assert rows(saved.acls) == sorted(expected[saved.offset].acls)
    assert (saved.token, saved.epochs) == (exported.token, exported.epochs)
    assert "ACLs" in run_job(keeping.spark, snapshot, keeping.path, keeping.roles.spark, "--from-table").said


def as_the_version_before_wrote_them(keeping: Keeping) -> None:
    """Its manifests name the one epoch of the whole export."""
    found = [each for each in keeping.path.rglob("part-*") if "manifest" in str(each) and each.suffix == ".txt"]
    assert len(found) == 2
    for path in found:
        document = json.loads(path.read_text())
        assert len(document.pop("epochs")) > 0
        write_document(keeping.spark, str(path.parent), document)


async def test_another_history_is_refused_with_a_way_out(
    keeping: Keeping, admin: "asyncpg.Connection[asyncpg.Record]"
) -> None:
    await write_history(keeping.roles.serve, 7, 3)
    keeping.run()
    last = keeping.manifests().last_offset
    await write_history(keeping.roles.serve, 8, 3)

    await admin.execute("CREATE TABLE kept AS SELECT * FROM acl_head")
    await admin.execute("CREATE TABLE kept_records AS SELECT * FROM acl_record")

    await admin.execute("CREATE TABLE kept_epochs AS SELECT * FROM acl_epoch")

    async def refused(damage: str, *values: object, advice: str = "new --home") -> str:
        await admin.execute(damage, *values)
        with pytest.raises(PipelineError, match=advice) as fault:
            keeping.run()
        await admin.execute(
            """UPDATE acl_head AS h SET (cluster_id, epoch, last_offset) = (k.cluster_id, k.epoch, k.last_offset)
            FROM kept AS k"""
        )
        await admin.execute(
            "UPDATE acl_epoch AS e SET first_offset = k.first_offset FROM kept_epochs AS k WHERE k.number = e.number"
        )
        await admin.execute(
            'UPDATE acl_record AS r SET hash = k.hash FROM kept_records AS k WHERE k."offset" = r."offset"'
        )
        return str(fault.value)

    # The second history was written in an epoch of its own.
    said = await refused("UPDATE acl_epoch SET first_offset = $1 WHERE first_offset = $1 + 1", last - 1)
    assert f"after offset {last - 1}: it was failed over or restored from a backup" in said
    assert f"and offsets {last} to {last} mean other records now" in said
    assert "of cluster" in await refused("UPDATE acl_head SET cluster_id = 'x'")
    said = await refused("UPDATE acl_head SET last_offset = $1", last - 1, advice="run this again later")
    assert "new --home" not in said
    said = await refused('UPDATE acl_record SET hash = sha256(hash) WHERE "offset" = $1', last)
    assert f"another record at offset {last}" in said
    assert keeping.manifests().last_offset == last

    keeping.run()
    assert keeping.records() == await feed_records(keeping.roles.serve)


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        ('DELETE FROM acl_record WHERE "offset" = {middle}', "expected"),
        ("UPDATE acl_record SET actor = 'x' WHERE \"offset\" = {first}", "does not follow"),
        ("UPDATE acl_head SET hash = sha256(hash)", "head names"),
        ("UPDATE acl_record SET kind = 'FutureRecord' WHERE \"offset\" = {first}", "can't be read by this version"),
    ],
)
async def test_a_damaged_feed_gets_no_manifest(
    keeping: Keeping, admin: "asyncpg.Connection[asyncpg.Record]", damage: str, said: str
) -> None:
    await write_history(keeping.roles.serve, 9, 2)
    keeping.run()
    last = keeping.manifests().last_offset
    await write_history(keeping.roles.serve, 10, 3)
    await admin.execute(damage.format(first=last + 1, middle=last + 2))

    with pytest.raises(PipelineError, match=said):
        keeping.run()

    assert keeping.manifests().last_offset == last


async def test_a_first_export_of_a_trimmed_store_begins_with_its_state(keeping: Keeping) -> None:
    await write_history(keeping.roles.serve, 11, 10)
    whole = await feed_records(keeping.roles.serve)
    await trim_all(keeping.roles.serve)

    run = keeping.run()
    assert f"base of {len(states(whole)[whole[-1].offset].acls)} ACLs at offset {whole[-1].offset}" in run.said
    assert keeping.records() == []
    assert "nothing new" in keeping.run().said
    await write_history(keeping.roles.serve, 12, 4)
    keeping.run()
    whole += await feed_records(keeping.roles.serve, whole[-1].offset)

    run_job(keeping.spark, snapshot, keeping.path, keeping.roles.spark)
    saved = load_snapshot(keeping.spark, Home(str(keeping.path)))
    expected = states(whole)[whole[-1].offset]
    assert (saved.offset, saved.configs) == (whole[-1].offset, expected.configs)
    assert rows(saved.acls) == sorted(expected.acls)
    clean = run_job(keeping.spark, reconcile, keeping.path, keeping.roles.spark)
    assert clean.status == 0, clean.said

    await write_history(keeping.roles.serve, 13, 4)
    await trim_all(keeping.roles.serve)
    with pytest.raises(PipelineError, match="has trimmed records"):
        keeping.run()


async def test_two_runs_at_once_are_refused(keeping: Keeping) -> None:
    await write_history(keeping.roles.serve, 14, 5)

    results = await asyncio.gather(
        *(run_job_beside(keeping.spark, export, keeping.path, keeping.roles.spark) for _ in range(2)),
        return_exceptions=True,
    )

    assert sorted(type(result).__name__ for result in results) == ["PipelineError", "Run"], results
    assert keeping.records() == await feed_records(keeping.roles.serve)


async def test_what_has_not_been_exported_is_not_trimmed(
    keeping: Keeping, admin: "asyncpg.Connection[asyncpg.Record]"
) -> None:
    await write_history(keeping.roles.serve, 15, 4)
    keeping.run()
    taken = keeping.manifests().last_offset
    await write_history(keeping.roles.serve, 16, 4)
    feed = PostgresChangeFeed(DatabaseUrl.parse(keeping.roles.serve))

    while await feed.trim(keep_age=timedelta(0), keep_count=None, exporters_known_for=timedelta(days=1)):
        pass
    assert (await feed.poll(0, 1)).head.log_start_offset == taken + 1
    keeping.run()
    assert keeping.manifests().last_offset > taken
    assert await feed.trim(keep_age=timedelta(0), keep_count=None, exporters_known_for=timedelta(days=1)) > 0

    # An export stands also where the store can't be told of it.
    told = keeping.manifests().last_offset
    await admin.execute("REVOKE EXECUTE ON FUNCTION tell_exported FROM klamm_spark")
    await write_history(keeping.roles.serve, 17, 1)
    assert keeping.run().status == 0
    assert keeping.manifests().last_offset > told
    assert [row["last_offset"] for row in await admin.fetch("SELECT last_offset FROM exporter")] == [told]
    await feed.close()


async def trim_all(dsn: str) -> None:
    feed = PostgresChangeFeed(DatabaseUrl.parse(dsn))
    assert await feed.trim(keep_age=timedelta(0), keep_count=None) > 0
    await feed.close()
