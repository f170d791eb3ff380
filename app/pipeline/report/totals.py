"""Totals for the page: how the store grew, what was decided, what hygiene found, and what a change would break."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from app.core.readable import readable
from app.pipeline.history.decision_log import weighted
from app.pipeline.history.log_pieces import LoggedHour
from app.pipeline.history.records import CREATED, HOUR_S, comings_and_goings
from app.pipeline.report.figures import (
    Bucket,
    DecisionFigures,
    Finding,
    Flip,
    GrowthFigures,
    HygieneFigures,
    Timeline,
    WhatIfFigures,
)

MOST_BUCKETS = 120
MOST_PRINCIPALS = 15
MOST_FINDINGS = 5
"""How many of each kind are shown."""
MOST_FLIPS = 20

_MINUTE, _DAY = 60, 86_400
_STEPS = (1, 2, 5, 10, 30, _MINUTE, 5 * _MINUTE, 15 * _MINUTE, HOUR_S, 6 * HOUR_S, _DAY, 7 * _DAY, 28 * _DAY)


def step_for(seconds: int) -> int:
    whole_days = -(-seconds // (MOST_BUCKETS * _DAY)) * _DAY
    return next((step for step in _STEPS if seconds <= step * MOST_BUCKETS), whole_days)


def timeline(table: DataFrame, seconds: Column, step: int, first: Column, second: Column) -> Timeline | None:
    start = sf.floor(seconds / sf.lit(step)) * sf.lit(step)
    sums = table.groupBy(start.cast("long").alias("start")).agg(sf.sum(first).alias("one"), sf.sum(second).alias("two"))
    return _line(step, ((row["start"], row["one"], row["two"]) for row in sums.collect()))


def _line(step: int, sums: Iterable[tuple[int, float, float]]) -> Timeline | None:
    """Of sums by their seconds since 1970, of which several may be of one bucket."""
    ones, twos = defaultdict[int, float](float), defaultdict[int, float](float)
    for seconds, one, two in sums:
        start = seconds // step * step
        ones[start] += one
        twos[start] += two
    if not ones:
        return None
    starts = range(min(ones), max(ones) + 1, step)
    return Timeline(step, [Bucket(start, ones[start], twos[start]) for start in starts])


def growth_figures(
    by_hour: Sequence[Sequence[int]], records: Callable[[], DataFrame], acls: int, offset: int
) -> GrowthFigures | None:
    """How the ACLs grew to be so many at this offset, by `changes_by_hour`; None if no ACL has changed.

    The records themselves are read only if an hour is too long for a bucket.
    """
    if not by_hour:
        return None
    step = step_for(max(each[2] for each in by_hour) - min(each[1] for each in by_hour))
    if step >= HOUR_S:
        line = _line(step, ((hour * HOUR_S, created, removed) for hour, _, _, created, removed in by_hour))
    else:
        changes = comings_and_goings(records().where(sf.col("offset") <= sf.lit(offset)))
        created = (sf.col("kind") == sf.lit(CREATED)).cast("long")
        line = timeline(changes, sf.unix_seconds("recorded_at"), step, created, 1 - created)
    if line is None:
        return None
    gained = sum(bucket.first - bucket.second for bucket in line.buckets)
    return GrowthFigures(line, int(acls - gained))


def decision_figures(
    hours: Sequence[LoggedHour], uses: DataFrame, decisions: Callable[[], DataFrame]
) -> DecisionFigures | None:
    """From a log's hours and USES. The decisions are read only if an hour is too long for a bucket."""
    if not hours:
        return None
    weight = sf.col("decisions") / sf.col("sampled")
    denied = sf.when(sf.col("result") == sf.lit("DENIED"), weight).otherwise(sf.lit(0.0))
    allowed = weight - denied
    step = step_for(int(hours[-1].last_time.timestamp()) - int(hours[0].first_time.timestamp()))
    if step >= HOUR_S:
        line = _line(step, ((int(each.began.timestamp()), each.allowed, each.denied) for each in hours))
    else:
        line = timeline(weighted(decisions()), sf.unix_seconds("time"), step, allowed, denied)
    if line is None:
        return None
    by_principal = uses.groupBy("principal").agg(sf.sum(allowed).alias("allowed"), sf.sum(denied).alias("denied"))
    by_principal.cache()
    busiest = by_principal.orderBy(sf.desc(sf.col("allowed") + sf.col("denied")), "principal").limit(MOST_PRINCIPALS)
    refused = by_principal.where("denied > 0").orderBy(sf.desc("denied"), "principal").limit(MOST_PRINCIPALS)
    principals = {row["principal"]: (row["allowed"], row["denied"]) for row in busiest.collect()}
    denied_most = {row["principal"]: row["denied"] for row in refused.collect()}
    by_principal.unpersist()
    return DecisionFigures(
        allowed=round(sum(bucket.first for bucket in line.buckets)),
        denied=round(sum(bucket.second for bucket in line.buckets)),
        principals=principals,
        denied_most=denied_most,
        timeline=line,
        estimated=any(each.sampled < 1.0 for each in hours),
    )


def hygiene_figures(findings: DataFrame, left_out: str = "") -> HygieneFigures:
    counts = {row["kind"]: row["count"] for row in findings.groupBy("kind").count().collect()}
    top = findings.groupBy("principal").count().orderBy(sf.desc("count"), "principal").limit(MOST_PRINCIPALS).collect()
    principals: dict[str, dict[str, int]] = {row["principal"]: {} for row in top}
    theirs = findings.where(sf.col("principal").isin(list(principals))).groupBy("principal", "kind").count()
    for row in theirs.collect():
        principals[row["principal"]][row["kind"]] = row["count"]
    return HygieneFigures(dict(sorted(counts.items())), principals, _worst(findings, sorted(counts)), left_out)


def _worst(findings: DataFrame, kinds: list[str]) -> list[Finding]:
    if not kinds:
        return []
    unused = sf.coalesce("covered", sf.lit(0)) - sf.coalesce("used", sf.lit(0))
    widest = [
        findings.where(sf.col("kind") == sf.lit(kind))
        .orderBy(sf.desc(unused), "principal", "acl_id")
        .limit(MOST_FINDINGS)
        for kind in kinds
    ]
    return [
        Finding(
            kind=row["kind"],
            principal=readable(row["principal"]),
            acl=f"{row['permission_type']} {row['operation']} on {row['resource_type']} {row['pattern_type']} "
            f"{readable(row['resource_name'])} from {readable(row['host'])}",
            why=row["why"],
            mend=tuple(row["mend"]),
        )
        for row in reduce(DataFrame.unionByName, widest).collect()
    ]


def what_if_figures(name: str, offset: int, flips: DataFrame) -> WhatIfFigures:
    is_lost = sf.col("after") == sf.lit("DENIED")
    lost = sf.sum(sf.when(is_lost, sf.col("decisions")).otherwise(0)).alias("lost")
    opened = sf.sum(sf.when(is_lost, 0).otherwise(sf.col("decisions"))).alias("opened")
    both = flips.agg(lost, opened).collect()[0]
    top = flips.groupBy("principal").agg(lost, opened).orderBy(sf.desc(sf.col("lost") + sf.col("opened")), "principal")
    worst = flips.orderBy(sf.desc("decisions"), "principal", "resource_type", "resource_name", "operation")
    return WhatIfFigures(
        name=name,
        offset=offset,
        lost=both["lost"] or 0,
        opened=both["opened"] or 0,
        principals={row["principal"]: (row["lost"], row["opened"]) for row in top.limit(MOST_PRINCIPALS).collect()},
        worst=[
            Flip(
                principal=row["principal"],
                action=f"{row['operation']} on {row['resource_type']} {readable(row['resource_name'])}",
                before=row["before"],
                after=row["after"],
                decisions=row["decisions"],
                last_time=row["last_time"],
            )
            for row in worst.limit(MOST_FLIPS).collect()
        ],
    )
