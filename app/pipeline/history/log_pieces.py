"""Which Parquet of the decision log counts, and what its hours hold: manifests say so, so a log of any length is
counted without being read.

Batches are ingested; the batches of a day are merged, then forgotten. A merged day has a number below 0, and takes the
place of all batches up to `through` that have decisions of this day.
"""

import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf

from app.pipeline.history.records import HOUR_S
from app.pipeline.history.source import moment
from app.pipeline.spark.storage import Home, read_documents


@dataclass(frozen=True, slots=True)
class Piece:
    """Decisions of one day that were written together."""

    day: str
    batch: int
    decisions: int
    hours: Sequence[Sequence[Any]]
    """As `logged_hours` has them."""

    @property
    def is_merged(self) -> bool:
        """If so, its uses exist too."""
        return self.batch < 0


def batch_room(home: Home, batch: int | str) -> str:
    return home.room("decisions", "manifests", f"batch={batch}")


def finished_batches(spark: SparkSession, home: Home) -> dict[int, dict[str, Any]]:
    return in_turn({manifest["batch"]: manifest for manifest in read_documents(spark, batch_room(home, "*"))})


def in_turn(manifests: Mapping[int, dict[str, Any]]) -> dict[int, dict[str, Any]]:
    """Without batches that a run wrote late: a later run had not found them, and has read the same files."""
    kept: dict[int, dict[str, Any]] = {}
    found_later = sys.maxsize
    ordered = sorted(manifests.items(), key=_generation, reverse=True)
    for _, group in groupby(ordered, key=_generation):
        there = {number: each for number, each in group if number <= found_later}
        kept |= there
        found_later = min([found_later, *(each["after"] for each in there.values())])
    return dict(sorted(kept.items()))


def _generation(item: tuple[int, Mapping[str, Any]]) -> int:
    return int(item[1]["generation"])


def merged_days(spark: SparkSession, home: Home) -> dict[str, dict[str, Any]]:
    return {manifest["day"]: manifest for manifest in read_documents(spark, merged_room(home, "*"))}


def merged_room(home: Home, day: str) -> str:
    return home.room("decisions", "merged", f"day={day}")


def pieces_of(spark: SparkSession, home: Home) -> list[Piece]:
    merged = merged_days(spark, home)
    found = [Piece(day, each["batch"], each["decisions"], each["hours"]) for day, each in merged.items()]
    for number, manifest in finished_batches(spark, home).items():
        hours = _by_day(manifest["hours"])
        for day, decisions in manifest["days"].items():
            if day not in merged or merged[day]["through"] < number:
                found.append(Piece(day, number, decisions, hours[day]))
    return found


def is_among(pieces: Iterable[Piece]) -> Column:
    """Whether rows with `day` and `batch` belong to one of these pieces. Spark reads no others."""
    place = sf.concat_ws("/", sf.col("day").cast("string"), sf.col("batch").cast("string"))
    return place.isin([f"{each.day}/{each.batch}" for each in pieces])


def _by_day(hours: Iterable[Sequence[Any]]) -> dict[str, list[Sequence[Any]]]:
    found: dict[str, list[Sequence[Any]]] = defaultdict(list)
    for each in hours:
        found[str(_began(each[0]).date())].append(each)
    return found


@dataclass(frozen=True, slots=True)
class LoggedHour:
    began: datetime
    decisions: int
    first_time: datetime
    last_time: datetime
    sampled: float
    """The smallest share of requests logged in it."""
    allowed: float
    denied: float
    """How many decisions there were, logged or not: each that was logged stands for 1 / its share."""


def hour() -> Column:
    return sf.floor(sf.unix_seconds("time") / HOUR_S).cast("bigint")


def _began(number: int) -> datetime:
    return moment(number * HOUR_S * 1_000_000)


def sums() -> tuple[Column, ...]:
    """An hour as manifests keep it, after its number."""
    weight = sf.lit(1.0) / sf.col("sampled")
    is_allowed = sf.col("result") == "ALLOWED"
    return (
        sf.count(sf.lit(1)).alias("decisions"),
        sf.unix_micros(sf.min("time")).alias("first"),
        sf.unix_micros(sf.max("time")).alias("last"),
        sf.min("sampled").alias("sampled"),
        sf.sum(sf.when(is_allowed, weight).otherwise(0.0)).alias("allowed"),
        sf.sum(sf.when(is_allowed, 0.0).otherwise(weight)).alias("denied"),
    )


def hours_of(decisions: DataFrame) -> list[Sequence[Any]]:
    rows = decisions.groupBy(hour().alias("hour")).agg(*sums()).collect()
    return [list(row) for row in rows]


def logged_hours(kept: Iterable[Sequence[Any]]) -> list[LoggedHour]:
    """In order; an hour that is in several batches comes once."""
    found: dict[int, LoggedHour] = {}
    for number, decisions, first, last, sampled, allowed, denied in kept:
        each = LoggedHour(_began(number), decisions, moment(first), moment(last), sampled, allowed, denied)
        there = found.get(number)
        found[number] = each if there is None else _together(there, each)
    return [found[number] for number in sorted(found)]


def _together(one: LoggedHour, other: LoggedHour) -> LoggedHour:
    return LoggedHour(
        one.began,
        one.decisions + other.decisions,
        min(one.first_time, other.first_time),
        max(one.last_time, other.last_time),
        min(one.sampled, other.sampled),
        one.allowed + other.allowed,
        one.denied + other.denied,
    )
