"""What an hour of the decision log holds. Manifests keep it, so a log of any length is counted without being read."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from app.pipeline.history.records import HOUR_S
from app.pipeline.history.source import moment

_BEGAN = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class LoggedHour:
    began: datetime
    decisions: int
    first_time: datetime
    last_time: datetime
    sampled: float
    """The smallest share of requests that was logged in it."""
    allowed: float
    denied: float
    """How many decisions there were, logged or not: each that was logged stands for 1 / its share."""


def hour() -> Column:
    return sf.floor(sf.unix_seconds("time") / HOUR_S).cast("bigint")


def sums() -> tuple[Column, ...]:
    """An hour as manifests keep it, behind its number."""
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
    """In order; an hour that several batches have is one."""
    found: dict[int, LoggedHour] = {}
    for number, decisions, first, last, sampled, allowed, denied in kept:
        began = _BEGAN + timedelta(seconds=number * HOUR_S)
        each = LoggedHour(began, decisions, moment(first), moment(last), sampled, allowed, denied)
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
