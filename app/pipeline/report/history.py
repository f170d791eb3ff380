"""How the store came to be, and what was decided: counts over time, in a few dozen buckets however long it took."""

from collections.abc import Iterable

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name that PySpark's own pages use

from app.pipeline.report.figures import Bucket, DecisionFigures, GrowthFigures, Timeline

MOST_BUCKETS = 120
MOST_PRINCIPALS = 15

_MINUTE, _HOUR, _DAY = 60, 3_600, 86_400
_STEPS = (1, 2, 5, 10, 30, _MINUTE, 5 * _MINUTE, 15 * _MINUTE, _HOUR, 6 * _HOUR, _DAY, 7 * _DAY, 28 * _DAY)
_CREATE, _REMOVE = "AccessControlEntryRecord", "RemoveAccessControlEntryRecord"


def step_for(seconds: int) -> int:
    """How long a bucket is, in seconds, so that there are at most about 120 of them."""
    for step in _STEPS:
        if seconds <= step * MOST_BUCKETS:
            return step
    return -(-seconds // (MOST_BUCKETS * _DAY)) * _DAY


def timeline(table: DataFrame, time: str, first: Column, second: Column) -> Timeline | None:
    """Sums of two columns over time; None where the table has no row."""
    seconds = F.unix_seconds(time)
    ends = table.agg(F.min(seconds).alias("first"), F.max(seconds).alias("last")).collect()[0]
    if ends["first"] is None:
        return None
    step = step_for(ends["last"] - ends["first"])
    start = F.floor(seconds / F.lit(step)) * F.lit(step)
    sums = table.groupBy(start.cast("long").alias("start")).agg(F.sum(first).alias("one"), F.sum(second).alias("two"))
    known = {row["start"]: (row["one"], row["two"]) for row in sums.collect()}
    return Timeline(step, _without_gaps(known, step))


def _without_gaps(known: dict[int, tuple[float, float]], step: int) -> list[Bucket]:
    return [Bucket(start, *known.get(start, (0, 0))) for start in range(min(known), max(known) + 1, step)]


def growth_figures(records: DataFrame, acls: int, offset: int) -> GrowthFigures | None:
    """How the ACLs grew to be so many at this offset; None if no change of an ACL is among the records.

    How many there were before the first record follows from how many there are now.
    """
    changes = records.where((F.col("offset") <= F.lit(offset)) & F.col("kind").isin(_CREATE, _REMOVE))
    created = (F.col("kind") == F.lit(_CREATE)).cast("long")
    line = timeline(changes, "recorded_at", created, 1 - created)
    if line is None:
        return None
    gained = sum(bucket.first - bucket.second for bucket in line.buckets)
    return GrowthFigures(line, int(acls - gained))


def decision_figures(decisions: DataFrame) -> DecisionFigures | None:
    """What was decided, for whom and when; None without a decision. Sampled requests count for those left out."""
    weight = F.lit(1.0) / F.col("sampled")
    denied = F.when(F.col("result") == F.lit("DENIED"), weight).otherwise(F.lit(0.0))
    allowed = weight - denied
    line = timeline(decisions, "time", allowed, denied)
    if line is None:
        return None
    by_principal = decisions.groupBy("principal").agg(
        F.sum(allowed).alias("allowed"), F.sum(denied).alias("denied"), F.min("sampled").alias("sampled")
    )
    by_principal = by_principal.cache()
    busiest = by_principal.orderBy(F.desc(F.col("allowed") + F.col("denied")), "principal").limit(MOST_PRINCIPALS)
    refused = by_principal.where("denied > 0").orderBy(F.desc("denied"), "principal").limit(MOST_PRINCIPALS)
    principals = {row["principal"]: (row["allowed"], row["denied"]) for row in busiest.collect()}
    denied_most = {row["principal"]: row["denied"] for row in refused.collect()}
    least = by_principal.agg(F.min("sampled")).collect()[0][0]
    by_principal.unpersist()
    return DecisionFigures(
        allowed=_rounded(bucket.first for bucket in line.buckets),
        denied=_rounded(bucket.second for bucket in line.buckets),
        principals=principals,
        denied_most=denied_most,
        timeline=line,
        estimated=least < 1.0,
    )


def _rounded(numbers: Iterable[float]) -> float:
    return round(sum(numbers))
