"""How much time the decision log covers: what speaks of use needs a log of the time it speaks of.

Nothing in a log says that nobody asked: a silent hour may be one that was never logged, or whose files were deleted
before they were ingested. So an hour counts if a decision of it is there, once, however many services wrote, and as
the least share of requests that was logged in it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from app.pipeline.history.decision_log import LogWindow
from app.pipeline.history.export import base_acls, exported_records
from app.pipeline.history.records import CREATED
from app.pipeline.history.source import moment, timestamp
from app.pipeline.spark.manifests import read_exported
from app.pipeline.spark.storage import Home

_HOUR_S = 3_600
_HOURS_A_DAY = 24
_BEGAN = datetime(1970, 1, 1, tzinfo=UTC)
_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class LoggedHour:
    """An hour of which decisions were logged. `sampled` is the least share of requests that was."""

    began: datetime
    decisions: int
    first_time: datetime
    last_time: datetime
    sampled: float


@dataclass(frozen=True, slots=True)
class Coverage:
    """The hours that a log covers, the latest last."""

    hours: Sequence[LoggedHour]

    @property
    def covered_hours(self) -> float:
        """An hour of which a tenth of the requests is logged is a tenth of an hour."""
        return sum(each.sampled for each in self.hours)

    @property
    def window(self) -> LogWindow:
        """What there is in all."""
        if not self.hours:
            return LogWindow(0, None, None, None)
        decisions, sampled = sum(each.decisions for each in self.hours), min(each.sampled for each in self.hours)
        return LogWindow(decisions, self.hours[0].first_time, self.hours[-1].last_time, sampled)

    def last_days(self, days: int) -> "Coverage":
        """The part of so many days before its last decision; an hour is whole or is left out."""
        if not self.hours:
            return self
        began = self.hours[-1].last_time - timedelta(days=days)
        return Coverage([each for each in self.hours if each.began > began - timedelta(seconds=_HOUR_S)])

    def reaching_back(self, days: int) -> datetime | None:
        """The latest time from which on it covers so many days; None if it covers less."""
        covered = 0.0
        for each in reversed(self.hours):
            covered += each.sampled
            if covered + _ROUNDING >= days * _HOURS_A_DAY:
                return each.began
        return None

    def __str__(self) -> str:
        hours = self.covered_hours
        if hours < 2 * _HOURS_A_DAY:
            return "1 hour" if hours == 1 else f"{hours:.3g} hours"
        return f"{hours / _HOURS_A_DAY:.1f} days"


def coverage_of(decisions: DataFrame) -> Coverage:
    """The hours that these decisions cover; one pass over them."""
    number = sf.floor(sf.unix_seconds("time") / _HOUR_S).cast("bigint").alias("number")
    by_hour = decisions.groupBy(number).agg(
        sf.count(sf.lit(1)).alias("decisions"),
        sf.unix_micros(sf.min("time")).alias("first"),
        sf.unix_micros(sf.max("time")).alias("last"),
        sf.min("sampled").alias("sampled"),
    )
    rows = sorted(tuple(row) for row in by_hour.collect())
    return Coverage(
        [
            LoggedHour(_BEGAN + timedelta(seconds=number * _HOUR_S), count, moment(first), moment(last), sampled)
            for number, count, first, last, sampled in rows
        ]
    )


def there_at(spark: SparkSession, home: Home, time: datetime) -> DataFrame | None:
    """The ACLs (`acl_id`) that an export shows to have been there by this time; None if there is no export.

    Of those that an export begins with it is known only that they were there when it was begun.
    """
    exported = read_exported(spark, home)
    if exported is None:
        return None
    created = exported_records(spark, home).filter(sf.col("kind") == CREATED)
    old = created.filter(sf.col("recorded_at") <= timestamp(time)).select("acl_id")
    base = base_acls(spark, home, exported)
    if base is None or exported.base is None or datetime.fromisoformat(exported.base.taken_at) > time:
        return old
    return old.unionByName(base.select(sf.col("id").alias("acl_id")))
