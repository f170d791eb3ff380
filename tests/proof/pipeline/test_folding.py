"""A snapshot is folded from the one before it, and is what the whole history adds up to."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from random import Random
from uuid import uuid4

import pytest
from pyspark.sql import SparkSession

from app.pipeline.history.folding import snapshot_at
from app.pipeline.history.snapshot import load_snapshot
from app.pipeline.jobs import export, snapshot
from app.pipeline.spark.storage import Home, read_documents, write_document
from tests.pipeline_jobs import password_of, rows, run_job
from tests.proof.pipeline.histories import feed_records, states, write_history


@pytest.fixture
def store_url(migrated_database_url: str, monkeypatch: pytest.MonkeyPatch) -> str:
    for name, value in password_of(migrated_database_url).items():
        monkeypatch.setenv(name, value)
    return migrated_database_url


def _manifests(spark: SparkSession, home: Path) -> Iterator[tuple[str, dict[str, object]]]:
    for folder in sorted((home / "snapshots").glob("offset=*")):
        path = str(folder / "manifest")
        yield path, read_documents(spark, path)[0]


@pytest.mark.parametrize("seed", range(31, 40))
async def test_folded_from_any_snapshot_it_is_what_core_makes_of_all_records(
    spark: SparkSession, tmp_path: Path, store_url: str, seed: int
) -> None:
    draw, home = Random(seed), Home(str(tmp_path))
    for stretch in range(4):
        await write_history(store_url, 100 * seed + stretch, draw.randint(0, 6))
        run_job(spark, export, tmp_path, store_url)
        if draw.random() < 0.7:
            run_job(spark, snapshot, tmp_path, store_url)
    expected = states(await feed_records(store_url))

    told: list[str] = []
    for at in draw.sample(sorted(expected), min(3, len(expected))):
        found = snapshot_at(spark, home, at, tell=told.append)
        assert (rows(found.acls), found.configs) == (sorted(expected[at].acls), expected[at].configs)
    assert snapshot_at(spark, home, tell=told.append).offset == max(expected)
    assert not told


async def test_records_before_the_last_snapshot_are_not_read_again(
    spark: SparkSession, tmp_path: Path, store_url: str
) -> None:
    for seed in (41, 42):
        await write_history(store_url, seed, 4)
        run_job(spark, export, tmp_path, store_url)
        run_job(spark, snapshot, tmp_path, store_url)
    await write_history(store_url, 43, 4)
    run_job(spark, export, tmp_path, store_url)
    expected = states(await feed_records(store_url))
    for old in list((tmp_path / "export" / "records").glob("day=*/batch=*"))[:-1]:
        number = int(old.name.removeprefix("batch="))
        if number <= load_snapshot(spark, Home(str(tmp_path))).offset:
            shutil.rmtree(old)

    assert f"at offset {max(expected)}" in run_job(spark, snapshot, tmp_path, store_url).said
    saved = load_snapshot(spark, Home(str(tmp_path)))
    assert (rows(saved.acls), saved.configs) == (sorted(expected[max(expected)].acls), expected[max(expected)].configs)
    # Nothing new: the snapshot itself.
    assert f"at offset {max(expected)}" in run_job(spark, snapshot, tmp_path, store_url).said


async def test_a_snapshot_that_is_not_the_exports_is_passed_over_with_a_sentence(
    spark: SparkSession, tmp_path: Path, store_url: str
) -> None:
    home = Home(str(tmp_path))
    await write_history(store_url, 51, 6)
    run_job(spark, export, tmp_path, store_url)
    run_job(spark, snapshot, tmp_path, store_url)
    ((path, whole),) = _manifests(spark, tmp_path)
    await write_history(store_url, 52, 3)
    run_job(spark, export, tmp_path, store_url)
    expected = states(await feed_records(store_url))
    for changed, why in (
        ({**whole, "hash": "00" * 32}, "does not belong to the history"),
        ({**whole, "checksum": 1}, "damaged"),
        ({**whole, "acls": 0}, "damaged"),
        ({**whole, "epochs": [f"{uuid4()}:0"]}, None),
    ):
        write_document(spark, path, changed)
        told: list[str] = []
        found = snapshot_at(spark, home, tell=told.append)
        assert rows(found.acls) == sorted(expected[max(expected)].acls)
        assert [why in each for each in told if why is not None] == [True] * (why is not None), told
