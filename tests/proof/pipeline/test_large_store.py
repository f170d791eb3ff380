"""Every read over JDBC of a store with more rows than one fetch of the driver brings."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from app.core.continuity import KnownHistory
from app.core.kafka.bindings import NewAcl
from app.core.mutations import CreateAcls
from app.formats.database_url import DatabaseUrl
from app.pipeline.history.manifests import read_exported
from app.pipeline.history.snapshot import load_snapshot
from app.pipeline.history.source import ranges, read_changed_terms, read_head, read_records, read_table
from app.pipeline.jobs import export, reconcile, snapshot
from app.pipeline.spark.jdbc import PASSWORD_VARIABLE, JdbcSource
from app.pipeline.spark.storage import Home
from app.store.reading.change_feed import PostgresChangeFeed
from app.store.writing.acl_store import PostgresAclStore
from tests.pipeline_jobs import jdbc_arguments, password_of, run_job
from tests.updates import ACTOR, topic

ACLS = 25_000
CHANGED = 12_000
"""ACLs whose owner was changed later: a record more each."""

RECORDS = ACLS + CHANGED

_FETCH = int(JdbcSource("jdbc:postgresql://127.0.0.1:5432/any").options()["fetchsize"])
_GROUP = 2_500
_ALL = [NewAcl(topic(f"topic-{number}"), None, None) for number in range(ACLS)]


@dataclass(frozen=True)
class LargeStore:
    """A store, and the one process that writes to it."""

    url: str
    writer: PostgresAclStore

    async def write(self, acls: list[NewAcl]) -> None:
        for first in range(0, len(acls), _GROUP):
            await self.writer.write([CreateAcls(acls[first : first + _GROUP], ACTOR)], KnownHistory())

    @property
    def source(self) -> JdbcSource:
        _, url, _, user = jdbc_arguments(self.url)
        return JdbcSource(url, user, password_of(self.url)[PASSWORD_VARIABLE])


@pytest.fixture
async def store(migrated_database_url: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[LargeStore]:
    """All ACLs, none of them changed."""
    monkeypatch.setenv(PASSWORD_VARIABLE, password_of(migrated_database_url)[PASSWORD_VARIABLE])
    writer = PostgresAclStore(DatabaseUrl.parse(migrated_database_url))
    store = LargeStore(migrated_database_url, writer)
    await store.write(_ALL)
    yield store
    await writer.close()


def change_owners(owner: str) -> list[NewAcl]:
    return [NewAcl(acl.binding, None, owner) for acl in _ALL[:CHANGED]]


def test_the_rows_of_each_read_take_several_fetches() -> None:
    assert CHANGED > _FETCH
    assert ACLS > 2 * _FETCH


async def test_each_read_brings_every_row(spark: SparkSession, store: LargeStore) -> None:
    source = store.source
    await store.write(change_owners("team-a"))

    head = read_head(spark, source, ACLS)
    assert head.last_offset == RECORDS
    assert head.hash_at is not None
    for most in (1, 2):
        records = read_records(spark, source, ranges(0, RECORDS, most))
        assert (records.count(), records.select("offset").distinct().count()) == (RECORDS, RECORDS)
    changed = {row["offset"] for row in read_changed_terms(spark, source, 0, RECORDS).collect()}
    assert changed == set(range(ACLS + 1, RECORDS + 1))
    reading = read_table(spark, source)
    assert (reading.head.last_offset, reading.head.hash) == (RECORDS, head.hash)
    assert head.read_at < reading.head.read_at
    assert reading.acls.select("resource_name").distinct().count() == ACLS
    assert reading.acls.where("owner = 'team-a'").count() == CHANGED


async def test_each_job_reads_it(spark: SparkSession, store: LargeStore, tmp_path: Path) -> None:
    whole = tmp_path / "whole"
    run_job(spark, export, whole, store.url)
    # What is not exported yet takes several fetches as well.
    await store.write(change_owners("team-a"))

    clean = run_job(spark, reconcile, whole, store.url)
    assert clean.status == 0, clean.said
    assert f"{CHANGED} records not exported yet: ok" in clean.said
    run_job(spark, export, whole, store.url)
    exported = read_exported(spark, Home(str(whole)))
    assert exported is not None
    assert exported.last_offset == RECORDS
    assert run_job(spark, reconcile, whole, store.url).status == 0

    of_table = tmp_path / "table"
    assert f"{ACLS:,} ACLs" in run_job(spark, snapshot, of_table, store.url, "--from-table").said
    assert load_snapshot(spark, Home(str(of_table))).acls.count() == ACLS

    feed = PostgresChangeFeed(DatabaseUrl.parse(store.url))
    while await feed.trim(keep_age=timedelta(0), keep_count=None):
        pass
    await feed.close()
    late = tmp_path / "late"
    assert f"base of {ACLS:,} ACLs at offset {RECORDS}" in run_job(spark, export, late, store.url).said
    assert run_job(spark, reconcile, late, store.url).status == 0
