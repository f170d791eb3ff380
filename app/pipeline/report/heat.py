"""The heat map's numbers: at most 30 teams by 40 prefixes; the rest is summed up as others."""

from collections import Counter

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from app.core.kafka.codes import AclOperation
from app.pipeline.report.figures import AccessFigures
from app.pipeline.report.reach import EVERYONE, QUESTIONS, asked_about

MOST_TEAMS, MOST_PREFIXES = 30, 40

OTHERS = "\0others"
"""The row or column for all that had no room; no real name holds U+0000."""

_OPERATIONS = sorted({question.operation for question in QUESTIONS})


def heat_figures(reached: DataFrame, resources: DataFrame, *, open_by_default: int) -> AccessFigures:
    """`reached` is what `reach` returns; it is read several times."""
    asked = _with_prefix(asked_about(resources))
    prefixes, more_prefixes = _largest(asked, "prefix", MOST_PREFIXES)
    teams, more_teams = _largest(reached.where(sf.col("team") != EVERYONE), "team", MOST_TEAMS - 1)
    rows = [EVERYONE, *teams, *([OTHERS] if more_teams else [])]
    columns = [*prefixes, *([OTHERS] if more_prefixes else [])]
    numbers = asked.groupBy("resource_type", _placed("prefix", prefixes).alias("column")).count().collect()
    totals = {(row["resource_type"], row["column"]): int(row["count"]) for row in numbers}
    types = {kind for kind, _ in totals}
    cells = _cells(reached, teams, prefixes)
    return AccessFigures(
        teams=rows,
        prefixes=columns,
        totals={kind: [totals.get((kind, column), 0) for column in columns] for kind in types},
        reach={
            each: [[cells[each.operation, each.resource_type, row, column] for column in columns] for row in rows]
            for each in QUESTIONS
            if each.resource_type in types
        },
        teams_in_others=more_teams,
        prefixes_in_others=more_prefixes,
        open_by_default=open_by_default,
    )


def _cells(reached: DataFrame, teams: list[str], prefixes: list[str]) -> Counter[tuple[str, str, str, str]]:
    """(operation, resource type, team, prefix) -> number of resources."""
    by_team = reached.groupBy(_placed("team", [EVERYONE, *teams]).alias("row"), "resource_type", "resource_name")
    rows = _with_prefix(by_team.agg(sf.bit_or("bits").alias("bits")))
    sums = [
        sf.count_if(sf.col("bits").bitwiseAND(sf.lit(1 << AclOperation[name])) != 0).alias(name) for name in _OPERATIONS
    ]
    cells = rows.groupBy("resource_type", "row", _placed("prefix", prefixes).alias("column")).agg(*sums).collect()
    return Counter(
        {(name, row["resource_type"], row["row"], row["column"]): row[name] for row in cells for name in _OPERATIONS}
    )


def _with_prefix(resources: DataFrame) -> DataFrame:
    """`prefix` is the resource's name up to the first of `.-_`; the whole name if that is empty."""
    prefix = sf.regexp_extract("resource_name", r"^([^.\-_]+)[.\-_]", 1)
    return resources.withColumn("prefix", sf.when(prefix == "", sf.col("resource_name")).otherwise(prefix))


def _largest(table: DataFrame, key: str, most: int) -> tuple[list[str], int]:
    """Up to `most` keys with the most rows, those first that have more; and how many are summed up as others.

    A place is kept for others if there are any.
    """
    weights = table.groupBy(key).agg(sf.count("*").alias("weight"))
    rows = weights.orderBy(sf.desc("weight"), key).limit(most + 1).collect()
    if len(rows) <= most:
        return [row[key] for row in rows], 0
    kept = [row[key] for row in rows[: most - 1]]
    return kept, weights.count() - len(kept)


def _placed(column: str, kept: list[str]) -> Column:
    return sf.when(sf.col(column).isin(kept), sf.col(column)).otherwise(sf.lit(OTHERS))
