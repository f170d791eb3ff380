"""Principals by team, resources by prefix, and which of them a chart has room for."""

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name that PySpark's own pages use
from pyspark.sql.types import StringType, StructField, StructType

from app.core.kafka.codes import WILDCARD_PRINCIPAL
from app.pipeline.spark.errors import PipelineError

EVERYONE = "\0everyone"
"""The team of `User:*`; no real name holds U+0000."""

OTHERS = "\0others"
"""What there was no room for."""

_TEAMS = StructType([StructField("principal", StringType()), StructField("team", StringType())])


def derived_team(principal: Column) -> Column:
    """The text after `User:` up to the first of `-._@`; the whole principal where that is nothing."""
    name = F.regexp_extract(principal, r"^[^:]*:([^\-._@]+)", 1)
    return F.when(principal == WILDCARD_PRINCIPAL, F.lit(EVERYONE)).when(name == "", principal).otherwise(name)


def prefix_of(name: Column) -> Column:
    """The resource's name up to the first of `.-_`; the whole name where that is nothing."""
    prefix = F.regexp_extract(name, r"^([^.\-_]+)[.\-_]", 1)
    return F.when(prefix == "", name).otherwise(prefix)


def read_teams(spark: SparkSession, path: str) -> DataFrame:
    """A CSV file with the columns principal and team, one row a principal. Raises PipelineError if it is not one."""
    try:
        table = spark.read.csv(path, header=True, multiLine=True, quote='"', escape='"')
    except AnalysisException:
        raise PipelineError(f"can't read the teams in `{path}`: --teams takes a CSV file with a header") from None
    for column in _TEAMS.names:
        if column not in table.columns:
            raise PipelineError(f"`{path}` has no column `{column}`; its first line must be `principal,team`")
    teams = table.select("principal", "team").where("principal is not null and team is not null").distinct()
    twice = teams.groupBy("principal").count().where("count > 1").limit(1).collect()
    if twice:
        raise PipelineError(f"`{path}` has more than one team for `{twice[0]['principal']}`; leave one of them")
    return teams


def with_team(table: DataFrame, teams: DataFrame | None) -> DataFrame:
    """The table with the column `team`: as given, else as derived from the principal."""
    derived = derived_team(F.col("principal"))
    if teams is None:
        return table.withColumn("team", derived)
    given = F.when(F.col("principal") == WILDCARD_PRINCIPAL, derived).otherwise(F.coalesce("team", derived))
    return table.join(teams, "principal", "left").withColumn("team", given)


def largest(weights: DataFrame, key: str, most: int) -> tuple[list[str], int]:
    """Up to `most` keys with the highest `weight`, and how many have to be summed up as others.

    Where not all have room, one place is kept for the others.
    """
    rows = weights.orderBy(F.desc("weight"), key).limit(most + 1).collect()
    if len(rows) <= most:
        return sorted(row[key] for row in rows), 0
    kept = sorted(row[key] for row in rows[: most - 1])
    return kept, weights.count() - len(kept)


def placed(column: str, kept: list[str]) -> Column:
    """The column's value where it is among the kept ones, else OTHERS."""
    return F.when(F.col(column).isin(kept), F.col(column)).otherwise(F.lit(OTHERS))
