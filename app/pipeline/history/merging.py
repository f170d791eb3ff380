"""Merges the batches of a day into one, and writes the sums of its decisions beside it.

Crash-safe: tables first, the manifest last, so a day is read either from its batches or merged. The batches stay until
the next run, for readers that have begun with them.
"""

import re
from collections import defaultdict
from collections.abc import Sequence

from pyspark.sql import SparkSession

from app.pipeline.history.decision_log import DecisionLog, open_log, uses_of
from app.pipeline.history.log_pieces import Piece, hours_of, merged_room, pieces_of
from app.pipeline.history.schemas import DECISIONS
from app.pipeline.spark.errors import NoDecisionsError, PipelineError
from app.pipeline.spark.home_lock import CheckLock
from app.pipeline.spark.storage import Home, existing, remove, versions, write_document

_MOST_BATCHES = 8
"""A day that is not over is merged when it has this many."""
_ROWS_PER_FILE = 1_000_000
_PLACE = re.compile(r"/day=(\d{4}-\d\d-\d\d)/batch=(-?\d+)/[^/]+\.parquet$")


def merge_days(spark: SparkSession, home: Home, check_lock: CheckLock) -> list[str]:
    """The days that were merged: those that are over, and those with many batches."""
    try:
        log = open_log(spark, home)
    except NoDecisionsError:
        return []
    by_day: dict[str, list[Piece]] = defaultdict(list)
    for piece in log.pieces:
        by_day[piece.day].append(piece)
    worth = sorted(day for day, pieces in by_day.items() if _is_worth_it(pieces, is_over=day < max(by_day)))
    for day in worth:
        _merge(log, day, by_day[day], check_lock)
    return worth


def remove_merged(spark: SparkSession, home: Home) -> None:
    """Remove the Parquet that no manifest names: batches that were merged, and what a killed run left.

    Call this when nobody writes, before anything is merged.
    """
    pieces = pieces_of(spark, home)
    named = {(piece.day, piece.batch) for piece in pieces}
    for table in ("log", "uses"):
        there = existing(spark, home.room("decisions", table))
        found = () if there is None else (_PLACE.search(file) for file in there.inputFiles())
        for day, number in {(place[1], int(place[2])) for place in found if place is not None}:
            if (day, number) not in named:
                remove(spark, home.room("decisions", table, f"day={day}", f"batch={number}"))


def _is_worth_it(pieces: Sequence[Piece], *, is_over: bool) -> bool:
    fresh = [piece for piece in pieces if not piece.is_merged]
    # A single late batch is left alone until there is another one, as a day takes long to write.
    return len(fresh) >= _MOST_BATCHES or (is_over and (len(fresh) > 1 or len(fresh) == len(pieces)))


def _merge(log: DecisionLog, day: str, pieces: Sequence[Piece], check_lock: CheckLock) -> None:
    spark, home = log.spark, log.home
    through = max(piece.batch if not piece.is_merged else -piece.batch - 1 for piece in pieces)
    # A number that no other state of the day has had, as its files may be being read.
    number = -through - 1
    wanted = sum(piece.decisions for piece in pieces)
    files = -(-wanted // _ROWS_PER_FILE)
    rooms = {name: home.room("decisions", name, f"day={day}", f"batch={number}") for name in ("log", "uses")}
    log.day_of(day).coalesce(files).write.mode("overwrite").parquet(rooms["log"])
    written = spark.read.schema(DECISIONS).parquet(rooms["log"])
    hours = hours_of(written)
    found = sum(each[1] for each in hours)
    if found != wanted:
        raise PipelineError(
            f"the {wanted} decisions of {day} became {found} when they were merged, so they stay as they are; run "
            "`klamm pipeline ingest` again"
        )
    uses_of(written).coalesce(files).write.mode("overwrite").parquet(rooms["uses"])
    check_lock()
    manifest = {
        "job": "ingest",
        "day": day,
        "batch": number,
        "through": through,
        "decisions": wanted,
        "hours": hours,
        **versions(spark),
    }
    write_document(spark, merged_room(home, day), manifest)
