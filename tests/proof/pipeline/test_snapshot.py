"""Snapshots: the export folded at any offset or time is what core makes of the same records."""

import argparse
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import asyncpg
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from app.pipeline.history.folding import snapshot_at
from app.pipeline.history.manifests import read_exported
from app.pipeline.history.records import fold_acls, fold_configs, refuse_unreadable
from app.pipeline.history.schemas import ACLS, BINDING_FIELDS, RECORDS
from app.pipeline.history.snapshot import load_snapshot, save_snapshot
from app.pipeline.jobs import export, snapshot
from app.pipeline.spark.errors import PipelineError
from app.pipeline.spark.jdbc import PASSWORD_VARIABLE
from app.pipeline.spark.storage import Home
from tests.pipeline_jobs import Run, password_of, rows, run_job
from tests.proof.pipeline.histories import exported_records, feed_records, states, write_history


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(str(tmp_path / "home"))


@pytest.fixture
def store_url(migrated_database_url: str, monkeypatch: pytest.MonkeyPatch) -> str:
    for name, value in password_of(migrated_database_url).items():
        monkeypatch.setenv(name, value)
    return migrated_database_url


def run(spark: SparkSession, home: Home, dsn: str, *arguments: str) -> Run:
    return run_job(spark, snapshot, Path(home.root), dsn, *arguments)


def time_read(spark: SparkSession, home: Home, offset: int) -> datetime:
    """When the export found this to be the store's last record, by its manifest."""
    exported = read_exported(spark, home)
    assert exported is not None
    (read_at,) = [batch.read_at for batch in exported.batches if batch.last_offset == offset]
    assert read_at is not None
    return datetime.fromisoformat(read_at)


async def test_the_fold_at_every_offset_is_what_core_makes_of_the_records(
    spark: SparkSession, home: Home, store_url: str
) -> None:
    await write_history(store_url, 21, 25)
    records = await feed_records(store_url)
    expected = states(records)
    run_job(spark, export, Path(home.root), store_url)

    # Every end of a transaction at once: what was recorded up to it, under its own ids.
    ends = spark.createDataFrame([(end,) for end in expected], "end bigint")
    no_acls = spark.createDataFrame([], ACLS)
    pairs = exported_records(spark, home).crossJoin(sf.broadcast(ends)).where("offset <= end")
    acls = fold_acls(pairs.withColumn("acl_id", sf.concat_ws("@", "acl_id", "end")), no_acls).select(
        sf.substring_index("id", "@", -1).cast("bigint").alias("end"),
        sf.substring_index("id", "@", 1).alias("id"),
        *BINDING_FIELDS,
    )
    found: dict[int, set[tuple[str, ...]]] = {end: set() for end in expected}
    for row in acls.collect():
        assert tuple(row)[1:] not in found[row["end"]]
        found[row["end"]].add(tuple(row)[1:])
    assert found == {end: set(state.acls) for end, state in expected.items()}
    assert len({len(each) for each in found.values()}) > 5
    configs = fold_configs(pairs.withColumn("config_name", sf.concat_ws("@", "config_name", "end"))).collect()
    told: dict[int, dict[str, str]] = {end: {} for end in expected}
    for row in configs:
        name, _, end = row["name"].rpartition("@")
        if row["value"] is not None:
            told[int(end)][name] = row["value"]
    assert told == {end: state.configs for end, state in expected.items()}
    assert any(told.values())

    # And through the job: some offsets, the last, the very first, and times.
    last = records[-1]
    middle = sorted(expected)[len(expected) // 2]
    at = {record.offset: record.recorded_at for record in records}
    before_all = records[0].recorded_at - timedelta(microseconds=1)
    for offset, time, found_at in (
        (0, None, 0),
        (None, before_all, 0),
        (None, before_all + timedelta(days=365), last.offset),
        (None, at[middle], middle),
        (None, at[middle] - timedelta(microseconds=1), max(end for end in expected if end < middle)),
    ):
        assert snapshot_at(spark, home, offset, time).offset == found_at
    assert snapshot_at(spark, home, 0).as_of == datetime(1970, 1, 1, tzinfo=UTC)
    read_at = time_read(spark, home, last.offset)
    assert last.recorded_at <= read_at
    between = at[middle] + (next(record.recorded_at for record in records if record.offset > middle) - at[middle]) / 2
    for time, as_of in (
        (between, between),
        (last.recorded_at, last.recorded_at),
        (read_at - timedelta(microseconds=1), read_at - timedelta(microseconds=1)),
        (read_at + timedelta(days=365), read_at),
    ):
        assert snapshot_at(spark, home, None, time).as_of == as_of
    third = sorted(expected)[2]
    for arguments, offset, as_of in (
        ((), last.offset, read_at),
        (("--offset", str(middle)), middle, at[middle]),
        (("--time", at[third].isoformat()), third, at[third]),
    ):
        assert f"at offset {offset}" in run(spark, home, store_url, *arguments).said
        saved = load_snapshot(spark, home, offset)
        assert rows(saved.acls) == sorted(expected[offset].acls), arguments
        assert saved.configs == expected[offset].configs
        assert saved.as_of == as_of, arguments
    assert load_snapshot(spark, home).offset == last.offset
    with pytest.raises(PipelineError, match="--offset 1000000"):
        load_snapshot(spark, home, 1_000_000)

    # Inside of a transaction there is no state.
    inside = next(record for record in records if record.tx_last - record.offset > 1)
    first = min(record.offset for record in records if record.tx_last == inside.tx_last)
    with pytest.raises(PipelineError, match=rf"take {first - 1} \(before it\) or {inside.tx_last} \(after it\)"):
        snapshot_at(spark, home, inside.offset)
    for offset in (-1, last.offset + 1):
        with pytest.raises(PipelineError, match=f"has 0 to {last.offset}"):
            snapshot_at(spark, home, offset)


async def test_the_tables_are_read_as_of_one_offset(spark: SparkSession, home: Home, store_url: str) -> None:
    with pytest.raises(PipelineError, match="run `klamm pipeline snapshot`"):
        load_snapshot(spark, home)
    await write_history(store_url, 22, 15)
    expected = states(await feed_records(store_url))
    last = max(expected)

    assert f"{len(expected[last].acls)} ACLs" in run(spark, home, store_url, "--from-table").said

    saved = load_snapshot(spark, home)
    assert (saved.offset, saved.configs) == (last, expected[last].configs)
    assert rows(saved.acls) == sorted(expected[last].acls)
    assert abs(saved.as_of - datetime.fromtimestamp(0, UTC)) > timedelta(days=365)

    # Saved once, it stays; and a home has the snapshots of one history.
    save_snapshot(spark, home, replace(saved, acls=saved.acls.limit(0), configs={}))
    assert rows(load_snapshot(spark, home).acls) == sorted(expected[last].acls)
    run_job(spark, export, Path(home.root), store_url)
    connection = await asyncpg.connect(store_url)
    await connection.execute("UPDATE acl_head SET epoch = gen_random_uuid()")
    await connection.execute("UPDATE acl_epoch SET first_offset = first_offset - 1 WHERE first_offset > 0")
    await connection.close()
    with pytest.raises(PipelineError, match="use a new --home"):
        run(spark, home, store_url, "--from-table")


def test_one_state_is_asked_for_and_must_be_exported(spark: SparkSession, home: Home, store_url: str) -> None:
    parser = argparse.ArgumentParser(exit_on_error=False)
    snapshot.add_arguments(parser)
    with pytest.raises(argparse.ArgumentError):
        parser.parse_args(["--from-table", "--offset", "1"])
    with pytest.raises(PipelineError, match="nothing has been exported"):
        run(spark, home, store_url)
    assert PASSWORD_VARIABLE


def test_records_of_a_newer_version_are_named(spark: SparkSession) -> None:
    when = datetime(2026, 11, 22, tzinfo=UTC)
    known = ("TOPIC", "a", "LITERAL", "User:a", "*", "READ", "ALLOW")

    def frame(*changed: tuple[int, str, tuple[str | None, ...]]) -> DataFrame:
        told = [
            (offset, 9, kind, "id", *words, None, None, when, "x", b"h", *[None] * 3) for offset, kind, words in changed
        ]
        return spark.createDataFrame(told, RECORDS)

    created, config = "AccessControlEntryRecord", "ConfigRecord"
    refuse_unreadable(frame((1, created, known), (2, config, (None,) * 7)))
    for offset, kind, words, said in (
        (4, "FutureRecord", (None,) * 7, "offset 4 is `FutureRecord`"),
        (5, created, (*known[:5], "UNKNOWN", "ALLOW"), "offset 5 is .* operation `UNKNOWN`"),
        (6, created, ("ANY", *known[1:]), "offset 6 is .*resource_type `ANY`"),
        (7, created, (None, *known[1:]), "offset 7"),
    ):
        with pytest.raises(PipelineError, match=said):
            refuse_unreadable(frame((1, created, known), (8, "LaterRecord", known), (offset, kind, words)))
