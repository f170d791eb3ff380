"""The heat map's numbers: at most 30 teams by 40 prefixes; what has no room is summed up as others."""

from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name that PySpark's own pages use

from app.core.kafka.codes import AclOperation
from app.pipeline.report.access import QUESTIONS, watched
from app.pipeline.report.figures import AccessFigures
from app.pipeline.report.grouping import EVERYONE, OTHERS, largest, placed, prefix_of

MOST_TEAMS, MOST_PREFIXES = 30, 40

_OPERATIONS = sorted({question.operation for question in QUESTIONS})


def heat_figures(reached: DataFrame, resources: DataFrame, *, open_by_default: int = 0) -> AccessFigures:
    """The numbers of the heat map out of what `access.reach` says of these resources."""
    asked = resources.where(watched(F.col("resource_type")) != 0)
    asked = asked.withColumn("prefix", prefix_of(F.col("resource_name")))
    reached = reached.where("bits <> 0")
    prefixes, more_prefixes = largest(_weights(asked, "prefix"), "prefix", MOST_PREFIXES)
    named = reached.where(F.col("team") != EVERYONE)
    teams, more_teams = largest(_weights(named, "team"), "team", MOST_TEAMS - 1)
    rows = [EVERYONE, *teams, *([OTHERS] if more_teams else [])]
    columns = [*prefixes, *([OTHERS] if more_prefixes else [])]
    numbers = asked.groupBy("resource_type", placed("prefix", prefixes).alias("column")).count().collect()
    totals = {(row["resource_type"], row["column"]): int(row["count"]) for row in numbers}
    types = {kind for kind, _ in totals}
    cells = _cells(reached, teams, prefixes)
    return AccessFigures(
        teams=rows,
        prefixes=columns,
        totals={kind: [totals.get((kind, column), 0) for column in columns] for kind in types},
        reach={
            question: _grid(cells.get((question.operation, question.resource_type), {}), rows, columns)
            for question in QUESTIONS
            if question.resource_type in types
        },
        teams_in_others=more_teams,
        prefixes_in_others=more_prefixes,
        open_by_default=open_by_default,
    )


def _weights(table: DataFrame, key: str) -> DataFrame:
    return table.groupBy(key).agg(F.count("*").alias("weight"))


def _cells(
    reached: DataFrame, teams: list[str], prefixes: list[str]
) -> dict[tuple[str, str], dict[tuple[str, str], int]]:
    """(operation, resource type) -> (team, prefix) -> number of resources."""
    by_team = reached.groupBy(placed("team", [EVERYONE, *teams]).alias("row"), "resource_type", "resource_name")
    rows = by_team.agg(F.bit_or("bits").alias("bits")).withColumn("prefix", prefix_of(F.col("resource_name")))
    sums = [
        F.count_if(F.col("bits").bitwiseAND(F.lit(1 << AclOperation[name])) != 0).alias(name) for name in _OPERATIONS
    ]
    cells: dict[tuple[str, str], dict[tuple[str, str], int]] = {}
    for row in rows.groupBy("row", "resource_type", placed("prefix", prefixes).alias("column")).agg(*sums).collect():
        for name in _OPERATIONS:
            cells.setdefault((name, row["resource_type"]), {})[row["row"], row["column"]] = row[name]
    return cells


def _grid(cells: dict[tuple[str, str], int], rows: Sequence[str], columns: Sequence[str]) -> list[list[int]]:
    return [[cells.get((row, column), 0) for column in columns] for row in rows]
