"""Reconcile: a whole export is clean, and nothing can be changed in it or in the store without being named."""

import shutil
from pathlib import Path

import asyncpg
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from app.core.records import GENESIS_HASH
from app.pipeline.history import reconcile as checks
from app.pipeline.history.manifests import read_exported
from app.pipeline.history.reconcile import follow_chain
from app.pipeline.jobs import export, reconcile
from app.pipeline.spark.errors import PipelineError
from app.pipeline.spark.storage import Home
from tests.pipeline_jobs import Run, password_of, run_job
from tests.proof.pipeline.histories import exported_records, feed_records, write_history


@pytest.fixture
async def store_url(migrated_database_url: str, monkeypatch: pytest.MonkeyPatch) -> str:
    for name, value in password_of(migrated_database_url).items():
        monkeypatch.setenv(name, value)
    return migrated_database_url


@pytest.fixture
async def home(spark: SparkSession, store_url: str, tmp_path: Path) -> Path:
    """Two batches."""
    for seed in (31, 32):
        await write_history(store_url, seed, 10)
        run_job(spark, export, tmp_path / "home", store_url)
    return tmp_path / "home"


def run(spark: SparkSession, home: Path, dsn: str) -> Run:
    return run_job(spark, reconcile, home, dsn)


def rewrite(spark: SparkSession, home: Path, batch: int, change: str, where: str = "true") -> None:
    """Change the records of a batch as somebody with access to the files could: `change` is a column's new value."""
    path = folder(home, batch)
    name, _, value = change.partition("=")
    frame = spark.read.parquet(str(path))
    changed = frame.withColumn(name.strip(), sf.expr(f"CASE WHEN {where} THEN {value} ELSE {name} END"))
    put(changed, path)


def folder(home: Path, batch: int) -> Path:
    (path,) = home.glob(f"export/records/day=*/batch={batch}")
    return path


def put(frame: DataFrame, path: Path) -> None:
    frame.write.parquet(str(path.with_name("changed")))
    shutil.rmtree(path)
    path.with_name("changed").rename(path)


async def test_an_export_is_compared_with_the_store_of_now(spark: SparkSession, home: Path, store_url: str) -> None:
    # The store is ahead of the export: its tail is read for the comparison, and not kept.
    await write_history(store_url, 33, 5)
    exported = read_exported(spark, Home(str(home)))
    assert exported is not None
    head = (await feed_records(store_url))[-1].offset

    clean = run(spark, home, store_url)

    assert clean.status == 0, clean.said
    assert clean.counts["differences"] == 0
    assert f"hash chain: {head} records followed: ok" in clean.said
    assert f", {head - exported.last_offset} records not exported yet: ok" in clean.said
    assert read_exported(spark, Home(str(home))) == exported


async def test_what_was_changed_in_the_files_is_named(spark: SparkSession, home: Path, store_url: str) -> None:
    exported = read_exported(spark, Home(str(home)))
    assert exported is not None
    second = exported.batches[1].first_offset
    shutil.copytree(home, home.with_name("kept"))

    def broken() -> str:
        found = run(spark, home, store_url)
        shutil.rmtree(home)
        shutil.copytree(home.with_name("kept"), home)
        assert found.status == 1, found.said
        assert found.counts["differences"] > 0
        return found.said

    rewrite(spark, home, 1, "actor = 'User:mallory'", "offset = 3")
    said = broken()
    assert "offset 3: its hash does not cover" in said
    assert "hash chain" in said.partition("1 differences")[0]

    rewrite(spark, home, 1, "principal = 'User:mallory'", "acl_id IS NOT NULL AND kind LIKE 'Access%'")
    said = broken()
    assert "User:mallory" in said.partition("ACLs: ")[2]

    path = folder(home, second)
    frame = spark.read.parquet(str(path))
    put(frame.where(f"offset <> {second + 1}"), path)
    said = broken()
    assert f"offset {second + 2}: the record before it is missing" in said
    assert f"batch={second} has" in said

    path = folder(home, 1)
    frame = spark.read.parquet(str(path))
    put(frame.unionByName(frame.where("offset = 5")), path)
    said = broken()
    assert "offset 5: is there twice" in said
    assert "batch=1 has 1 records twice" in said

    # The first manifest gone: what follows has nothing to follow.
    shutil.rmtree(home / "export" / "manifests" / "batch=1")
    assert "follows offset 0" in broken()


async def test_what_was_changed_in_the_tables_is_named(spark: SparkSession, home: Path, store_url: str) -> None:
    connection = await asyncpg.connect(store_url)
    await connection.execute(
        """UPDATE acl SET principal = 'User:mallory' WHERE id = (SELECT min(id::text)::uuid FROM acl);
        DELETE FROM acl WHERE id = (SELECT max(id::text)::uuid FROM acl);
        INSERT INTO acl SELECT gen_random_uuid(), resource_type, pattern_type, operation, permission_type, 'planted',
            principal, host, sha256('planted'), 1, now(), 'x' FROM acl LIMIT 1;
        INSERT INTO config VALUES ('planted', 'x', 1)"""
    )
    await connection.close()

    found = run(spark, home, store_url)

    assert found.status == 1
    assert found.counts["differences"] == 4
    for words in ("User:mallory", "is not in the table", "does not exist by the records", "`planted` is unset"):
        assert words in found.said, words

    connection = await asyncpg.connect(store_url)
    await connection.execute("UPDATE acl_head SET epoch = gen_random_uuid()")
    await connection.execute("UPDATE acl_epoch SET first_offset = first_offset - 1 WHERE first_offset > 0")
    await connection.close()
    with pytest.raises(PipelineError, match="new epoch"):
        run(spark, home, store_url)
    with pytest.raises(PipelineError, match="nothing has been exported"):
        run(spark, home.with_name("other"), store_url)


async def test_the_chain_is_followed_across_stretches(
    spark: SparkSession, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    records = exported_records(spark, Home(str(home)))
    count = records.count()
    monkeypatch.setattr(checks, "_STRETCH", 4)
    frame = records.drop("day")

    assert follow_chain(frame, 0, GENESIS_HASH) == checks.ChainFacts(count, 0, [])
    assert follow_chain(frame, 0, bytes(31) + b"\1").examples[0][0] == 1
    for offset in (3, 4, 7, 8, 9):
        broken = follow_chain(frame.where(f"offset <> {offset}"), 0, GENESIS_HASH)
        assert broken == checks.ChainFacts(count - 1, 1, [(offset + 1, "the record before it is missing")])
