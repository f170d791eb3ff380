"""What is wrong, and what a change would break: totals, and the rows most worth a look."""

from functools import reduce

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name that PySpark's own pages use

from app.pipeline.report.figures import Finding, Flip, HygieneFigures, WhatIfFigures

MOST_PRINCIPALS = 15
MOST_FINDINGS = 5
"""Of each kind."""
MOST_FLIPS = 20


def hygiene_figures(findings: DataFrame, left_out: str = "") -> HygieneFigures:
    """How many findings of which kind, who has most of them, and the widest of each kind."""
    counts = {row["kind"]: row["count"] for row in findings.groupBy("kind").count().collect()}
    top = findings.groupBy("principal").count().orderBy(F.desc("count"), "principal").limit(MOST_PRINCIPALS).collect()
    principals: dict[str, dict[str, int]] = {row["principal"]: {} for row in top}
    theirs = findings.where(F.col("principal").isin(list(principals))).groupBy("principal", "kind").count()
    for row in theirs.collect():
        principals[row["principal"]][row["kind"]] = row["count"]
    return HygieneFigures(dict(sorted(counts.items())), principals, _worst(findings, sorted(counts)), left_out)


def _worst(findings: DataFrame, kinds: list[str]) -> list[Finding]:
    if not kinds:
        return []
    unused = F.coalesce("covered", F.lit(0)) - F.coalesce("used", F.lit(0))
    widest = [
        findings.where(F.col("kind") == F.lit(kind)).orderBy(F.desc(unused), "principal", "acl_id").limit(MOST_FINDINGS)
        for kind in kinds
    ]
    return [
        Finding(
            kind=row["kind"],
            principal=row["principal"],
            acl=f"{row['permission_type']} {row['operation']} on {row['resource_type']} {row['pattern_type']} "
            f"{row['resource_name']} from {row['host']}",
            why=row["why"],
            mend=tuple(row["mend"]),
        )
        for row in reduce(DataFrame.unionByName, widest).collect()
    ]


def what_if_figures(name: str, offset: int, flips: DataFrame) -> WhatIfFigures:
    """How many decisions a change would turn round, whose, and which most often."""
    is_lost = F.col("after") == F.lit("DENIED")
    lost = F.sum(F.when(is_lost, F.col("decisions")).otherwise(0)).alias("lost")
    opened = F.sum(F.when(is_lost, 0).otherwise(F.col("decisions"))).alias("opened")
    both = flips.agg(lost, opened).collect()[0]
    top = flips.groupBy("principal").agg(lost, opened).orderBy(F.desc(F.col("lost") + F.col("opened")), "principal")
    worst = flips.orderBy(F.desc("decisions"), "principal", "resource_type", "resource_name", "operation")
    return WhatIfFigures(
        name=name,
        offset=offset,
        lost=both["lost"] or 0,
        opened=both["opened"] or 0,
        principals={row["principal"]: (row["lost"], row["opened"]) for row in top.limit(MOST_PRINCIPALS).collect()},
        worst=[
            Flip(
                principal=row["principal"],
                action=f"{row['operation']} on {row['resource_type']} {row['resource_name']}",
                before=row["before"],
                after=row["after"],
                decisions=row["decisions"],
                last_time=row["last_time"],
            )
            for row in worst.limit(MOST_FLIPS).collect()
        ],
    )
