"""Which Parquet of the decision log counts. Batches are ingested; the batches of a day are merged, then forgotten.

A merged day has a number below 0, and takes the place of all batches up to `through` that have decisions of this day.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as sf

from app.pipeline.history.ingest import finished_batches
from app.pipeline.history.records import HOUR_S
from app.pipeline.spark.storage import Home, read_documents

_DAY_HOURS = 86_400 // HOUR_S
_EPOCH = date(1970, 1, 1)


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
        """Then there are its uses, too."""
        return self.batch < 0


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
    """Of rows with `day` and `batch`: whether they are of one of these pieces. Spark reads no others."""
    place = sf.concat_ws("/", sf.col("day").cast("string"), sf.col("batch").cast("string"))
    return place.isin([f"{each.day}/{each.batch}" for each in pieces])


def _by_day(hours: Iterable[Sequence[Any]]) -> dict[str, list[Sequence[Any]]]:
    found: dict[str, list[Sequence[Any]]] = defaultdict(list)
    for each in hours:
        found[str(date.fromordinal(_EPOCH.toordinal() + each[0] // _DAY_HOURS))].append(each)
    return found
