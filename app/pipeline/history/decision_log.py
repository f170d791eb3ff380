"""The decision log as it was ingested, or the part of it between two times."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.types import LongType, StructField, StructType

from app.pipeline.history.ingest import finished_batches
from app.pipeline.history.schemas import DAY, DECISIONS
from app.pipeline.history.source import moment, timestamp
from app.pipeline.spark.errors import NoDecisionsError, PipelineError
from app.pipeline.spark.storage import Home

_STORED = StructType([*DECISIONS.fields, DAY, StructField("batch", LongType())])


@dataclass(frozen=True, slots=True)
class LogWindow:
    """`sampled` is the smallest share of requests that was logged in it."""

    decisions: int
    first_time: datetime | None
    last_time: datetime | None
    sampled: float | None

    def __str__(self) -> str:
        if self.first_time is None or self.last_time is None:
            return "no logged decision"
        is_whole = self.sampled is None or self.sampled >= 1
        of_some = "" if is_whole else f" (only {self.sampled:.0%} of requests are logged)"
        return f"{self.decisions} logged decisions, {self.first_time:%Y-%m-%d} to {self.last_time:%Y-%m-%d}{of_some}"


def read_decisions(
    spark: SparkSession, home: Home, since: datetime | None = None, until: datetime | None = None
) -> DataFrame:
    """From `since` on and before `until` (both with a time zone), of the batches that `ingest` has finished.

    Raises NoDecisionsError if nothing was ingested, PipelineError if some of it has been lost since.
    """
    batches = finished_batches(spark, home)
    if not any(manifest["decisions"] for manifest in batches.values()):
        raise nothing_ingested(home.root)
    finished = [number for number, manifest in batches.items() if manifest["decisions"]]
    rows = spark.read.schema(_STORED).parquet(home.room("decisions", "log")).filter(sf.col("batch").isin(finished))
    _refuse_lost(rows, batches, home)
    if since is not None:
        rows = rows.filter(
            (sf.col("day") >= sf.lit(since.astimezone(UTC).date())) & (sf.col("time") >= timestamp(since))
        )
    if until is not None:
        last_day = (until - timedelta(microseconds=1)).astimezone(UTC).date()
        rows = rows.filter((sf.col("day") <= sf.lit(last_day)) & (sf.col("time") < timestamp(until)))
    return rows.drop("batch")


def nothing_ingested(home: str) -> NoDecisionsError:
    return NoDecisionsError(
        f"`{home}` holds no decisions; run `klamm pipeline ingest --decisions FOLDER` with the folder that "
        "the service's decision.log.path names"
    )


def _refuse_lost(rows: DataFrame, batches: Mapping[int, Mapping[str, Any]], home: Home) -> None:
    """Raise PipelineError if a decision is missing by the manifests: what was used would look unused.

    Whole days may be removed, the oldest first.
    """
    there = {(row["batch"], str(row["day"])): row["count"] for row in rows.groupBy("batch", "day").count().collect()}
    if not there:
        raise nothing_ingested(home.root)
    first_day = min(day for _, day in there)
    for number, manifest in sorted(batches.items()):
        for day, count in sorted(manifest.get("days", {}).items()):
            found = there.get((number, day), 0)
            if day >= first_day and found != count:
                raise PipelineError(
                    f"the decision log is damaged: there are {found} decisions in "
                    f"`{home.room('decisions', 'log', f'day={day}', f'batch={number}')}`, and {count} were ingested; "
                    f"restore it, or remove this and all earlier days (`day=...`) to go on with what came later"
                )


def log_window(decisions: DataFrame) -> LogWindow:
    row = decisions.agg(
        sf.count(sf.lit(1)).alias("decisions"),
        sf.unix_micros(sf.min("time")).alias("first"),
        sf.unix_micros(sf.max("time")).alias("last"),
        sf.min("sampled").alias("sampled"),
    ).first()
    values = (0, None, None, None) if row is None else tuple(row)
    first, last = (None if each is None else moment(each) for each in values[1:3])
    return LogWindow(values[0], first, last, values[3])
