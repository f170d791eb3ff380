"""Days of the decision log are merged without a decision being lost, doubled or counted otherwise."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from app.pipeline.access.replay import QUESTION, questions
from app.pipeline.history import merging
from app.pipeline.history.decision_log import log_window, open_log, read_decisions, uses_of
from app.pipeline.history.log_pieces import merged_days, merged_room
from app.pipeline.history.merging import merge_days, remove_merged
from app.pipeline.history.schemas import DECISIONS, USES
from app.pipeline.spark.errors import PipelineError
from app.pipeline.spark.home_lock import unlocked
from app.pipeline.spark.storage import Home, read_documents, remove
from tests.proof.pipeline.logs import BEGAN, loaded, log_frame, logged, random_questions, save_log
from tests.proof.pipeline.random_stores import random_acls


class Batches:
    """A decision log as ingest leaves it, without its files."""

    def __init__(self, spark: SparkSession, root: Path) -> None:
        self.spark = spark
        self.home = Home(str(root))
        self.rows: list[dict[str, Any]] = []

    def add(self, number: int, days: list[int]) -> None:
        """A batch with a few decisions of these days."""
        rows = logged(loaded(random_acls(2, 12), allow_everyone=False), random_questions(number % 5, 30))
        for at, row in enumerate(rows):
            row["time"] = BEGAN + timedelta(days=days[at % len(days)], minutes=at * 40)
            row["sampled"] = 1.0 if at % 3 else 0.5
        self.rows += rows
        save_log(self.home, log_frame(self.spark, rows), number)

    def stored(self) -> list[str]:
        return _shown(read_decisions(self.spark, self.home).select(DECISIONS.fieldNames()))

    def files(self) -> set[str]:
        found = (Path(self.home.root) / "decisions").glob("*/day=*/batch=*")
        return {f"{each.parents[1].name} {each.parent.name[-2:]} {each.name}" for each in found}

    def pieces(self) -> set[tuple[str, int]]:
        return {(each.day, each.batch) for each in open_log(self.spark, self.home).pieces}


@pytest.fixture
def batches(spark: SparkSession, tmp_path: Path) -> Batches:
    return Batches(spark, tmp_path / "home")


def _shown(frame: DataFrame) -> list[str]:
    return sorted(json.dumps(row.asDict(), default=str) for row in frame.collect())


def test_merged_days_hold_what_their_batches_held(spark: SparkSession, batches: Batches) -> None:
    for number, days in enumerate(([0, 1], [1, 2], [2], [2, 0])):
        batches.add(number, days)
    raw = log_frame(spark, batches.rows)
    before, window, hours = batches.stored(), log_window(raw), open_log(spark, batches.home).hours()
    assert before == _shown(raw)

    # The last day goes on, and is left alone. Nothing that somebody may be reading is taken away.
    assert merge_days(spark, batches.home, unlocked) == ["2026-11-01", "2026-11-02"]
    assert "log 01 batch=0" in batches.files()
    assert batches.stored() == before
    remove_merged(spark, batches.home)
    assert batches.files() == {
        *("log 03 batch=1", "log 03 batch=2", "log 03 batch=3"),
        *("log 01 batch=-4", "log 02 batch=-2", "uses 01 batch=-4", "uses 02 batch=-2"),
    }
    log = open_log(spark, batches.home)
    assert (batches.stored(), log_window(log.uses()), log.hours()) == (before, window, hours)
    for since, until in ((None, None), (BEGAN + timedelta(hours=5), BEGAN + timedelta(days=2, hours=3))):
        wanted = [
            row for row in batches.rows if (not since or row["time"] >= since) and (not until or row["time"] < until)
        ]
        part = log_frame(spark, wanted)
        asked = [*QUESTION, "decisions", "allowed", "first_time", "last_time"]
        assert _shown(questions(log.uses(since, until)).select(asked)) == _shown(questions(part).select(asked))
        assert log.uses(since, until).agg({"decisions": "sum"}).collect()[0][0] == len(wanted)
    assert _shown(uses_of(log.uses())) == _shown(uses_of(raw).select(USES.fieldNames()))

    # One late line is left for itself, the second begins the day anew, under another number.
    batches.add(4, [0])
    assert merge_days(spark, batches.home, unlocked) == []
    batches.add(5, [0])
    assert merge_days(spark, batches.home, unlocked) == ["2026-11-01"]
    remove_merged(spark, batches.home)
    assert {each for each in batches.files() if " 01 " in each} == {"log 01 batch=-6", "uses 01 batch=-6"}
    assert batches.stored() == _shown(log_frame(spark, batches.rows))


def test_a_merge_that_is_killed_changes_nothing_and_one_that_lost_something_is_noticed(
    spark: SparkSession, batches: Batches, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(3):
        batches.add(number, [0, 1])
    before = batches.stored()
    with monkeypatch.context() as patch:
        patch.setattr(merging, "write_document", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            merge_days(spark, batches.home, unlocked)
    assert batches.stored() == before
    remove_merged(spark, batches.home)
    assert not any("batch=-" in each for each in batches.files())
    assert merge_days(spark, batches.home, unlocked) == ["2026-11-01"]
    remove_merged(spark, batches.home)
    assert batches.stored() == before

    # What it amounts to must add up to the day; a day may be removed as a whole, the oldest first.
    ((day, manifest),) = merged_days(spark, batches.home).items()
    path = batches.home.room("decisions", "uses", f"day={day}", f"batch={manifest['batch']}")
    part = spark.read.schema(USES).parquet(path).limit(2).localCheckpoint()
    part.write.mode("overwrite").parquet(path)
    with pytest.raises(PipelineError, match="does not add up to the 45 decisions of that day"):
        open_log(spark, batches.home).uses()
    remove(spark, batches.home.room("decisions", "log", f"day={day}"))
    left = [row for row in batches.rows if row["time"] >= datetime(2026, 11, 2, tzinfo=UTC)]
    assert _shown(uses_of(open_log(spark, batches.home).uses())) == _shown(uses_of(log_frame(spark, left)))
    assert read_documents(spark, merged_room(batches.home, day))


def test_a_day_of_many_batches_is_merged_while_it_goes_on(spark: SparkSession, batches: Batches) -> None:
    for number in range(7):
        batches.add(number, [0])
    assert merge_days(spark, batches.home, unlocked) == []
    batches.add(7, [0])
    assert merge_days(spark, batches.home, unlocked) == ["2026-11-01"]
    assert batches.pieces() == {("2026-11-01", -8)}
