"""A home keeps the results at the latest offsets, and whatever the latest of others were made from."""

import shutil
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from app.pipeline.history.retention import remove_old
from app.pipeline.spark.storage import Home, write_document


def _save(spark: SparkSession, home: Home, job: str, offset: int, *, complete: bool = True) -> None:
    folder = home.room(job, f"offset={offset:020}")
    for table in ("acls", "masks"):
        (Path(folder) / table).mkdir(parents=True)
    write_document(spark, f"{folder}/manifest", {"offset": offset, "complete": complete})


def _offsets(home: Home, job: str) -> list[int]:
    return sorted(int(each.name.removeprefix("offset=")) for each in Path(home.root, job).glob("offset=*"))


@pytest.fixture
def home(spark: SparkSession, tmp_path: Path) -> Home:
    home = Home(str(tmp_path))
    for offset in (10, 20, 30, 40, 50):
        _save(spark, home, "snapshots", offset)
    return home


def test_what_the_latest_results_of_others_were_made_from_stays(spark: SparkSession, home: Home) -> None:
    for offset, complete in ((10, True), (20, True), (50, False)):
        _save(spark, home, "effective", offset, complete=complete)
    _save(spark, home, "hygiene", 10)
    # 20 is what effective, and 10 what hygiene was last made from; 30 was asked for just now.
    assert remove_old(spark, home, "snapshots", 1, 30) == [40]
    assert _offsets(home, "snapshots") == [10, 20, 30, 50]
    shutil.rmtree(home.room("hygiene"))
    assert remove_old(spark, home, "snapshots", 2, 50) == [10]
    # One that is being made, or whose job was killed, at the newest offset is left alone.
    assert remove_old(spark, home, "effective", 1, 20) == [10]
    assert _offsets(home, "effective") == [20, 50]


def test_nothing_is_removed_where_fewer_are_there(spark: SparkSession, home: Home) -> None:
    assert remove_old(spark, home, "snapshots", 5, 50) == []
    assert _offsets(home, "snapshots") == [10, 20, 30, 40, 50]
