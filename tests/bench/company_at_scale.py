"""A company of any size as the pipeline sees it: a snapshot, its resources and a decision log, made by Spark itself.

`python -m tests.bench.company_at_scale HOME ACLS [skewed]`. A fifth as many resources as ACLs, a hundredth as many
principals, ten times as many decisions. Teams have 500 resources, applications 40. Of the ACLs 85 % are literal, 3 %
DENY, 0.2 % for everyone, 10 % for one host; of the decisions four in five are about what an ACL speaks of. Skewed, one
principal makes half of the decisions, about anything.
"""

import sys
from datetime import UTC, datetime
from pathlib import Path
from uuid import UUID

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf

from app.core.epochs import Epochs
from app.pipeline.history.schemas import ACLS, DECISIONS
from app.pipeline.history.snapshot import Snapshot, save_snapshot
from app.pipeline.spark.session import SessionOptions, spark_session
from app.pipeline.spark.storage import Home
from tests.proof.pipeline.logs import save_log

_TEAM, _APP = 500, 40
_DAY_S = 86_400
_DAYS = 30
_BEGAN = datetime(2026, 10, 1, tzinfo=UTC)
_EPOCH = UUID(int=1)


def write_company(spark: SparkSession, home: Home, size: int, *, skewed: bool) -> None:
    """All that the jobs read but the export, and the list of resources as `resources.parquet`."""
    resources = size // 5
    acls = _acls(spark, size, resources)
    checked = _checked(acls, ACLS.fieldNames())
    save_snapshot(spark, home, Snapshot(checked, {}, "bench", Epochs.only(_EPOCH), size, _BEGAN, "00"))
    named = spark.range(resources).select(
        sf.lit("TOPIC").alias("resource_type"), _topic(sf.col("id")).alias("resource_name")
    )
    named.write.mode("overwrite").parquet(home.room("resources.parquet"))
    save_log(home, _decisions(spark, size, resources, skewed=skewed))
    Path(home.room("change.json")).write_text(
        '{"filters": [{"resource_type": "TOPIC", "resource_name": "team1.", "pattern_type": "PREFIXED"},'
        ' {"resource_type": "TOPIC", "resource_name": "team2.app3.", "pattern_type": "PREFIXED"}]}'
    )


def _draw(number: Column, salt: int, below: int) -> Column:
    return sf.pmod(sf.xxhash64(number, sf.lit(salt)), sf.lit(below))


def _topic(number: Column) -> Column:
    team, app = sf.floor(number / _TEAM), sf.floor(sf.pmod(number, sf.lit(_TEAM)) / _APP)
    return sf.concat(sf.lit("team"), team, sf.lit(".app"), app, sf.lit(".topic"), number)


def _prefix(number: Column, *, of_team: Column) -> Column:
    parts = sf.split(_topic(number), r"\.")
    team = sf.concat(parts[0], sf.lit("."))
    return sf.when(of_team, team).otherwise(sf.concat(team, parts[1], sf.lit(".")))


def _principal(number: Column, size: int) -> Column:
    return sf.concat(sf.lit("User:svc-"), _draw(number, 3, max(1, size // 100)))


def _acls(spark: SparkSession, size: int, resources: int) -> DataFrame:
    number = sf.col("id")
    topic, is_literal = _draw(number, 1, resources), _draw(number, 2, 100) < 85
    everyone = _draw(number, 4, 1000) < 2
    host = sf.when(_draw(number, 5, 10) == 0, sf.concat(sf.lit("10.0.0."), _draw(number, 6, 250))).otherwise("*")
    operations = sf.array(*[sf.lit(word) for word in ("READ", "READ", "READ", "WRITE", "WRITE", "DESCRIBE", "ALL")])
    return spark.range(size).select(
        sf.concat(sf.lpad(sf.lower(sf.hex(number)), 8, "0"), sf.lit("-0000-4000-8000-000000000000")).alias("id"),
        sf.lit("TOPIC").alias("resource_type"),
        sf.when(is_literal, _topic(topic))
        .otherwise(_prefix(topic, of_team=_draw(number, 7, 10) == 0))
        .alias("resource_name"),
        sf.when(is_literal, sf.lit("LITERAL")).otherwise(sf.lit("PREFIXED")).alias("pattern_type"),
        sf.when(everyone, sf.lit("User:*")).otherwise(_principal(number, size)).alias("principal"),
        host.alias("host"),
        sf.element_at(operations, (_draw(number, 8, 7) + 1).cast("int")).alias("operation"),
        sf.when(_draw(number, 9, 100) < 3, sf.lit("DENY")).otherwise(sf.lit("ALLOW")).alias("permission_type"),
        sf.lit(None).cast("bigint").alias("expires_s"),
        sf.lit(None).cast("string").alias("owner"),
    )


def _decisions(spark: SparkSession, size: int, resources: int, *, skewed: bool) -> DataFrame:
    number = sf.col("id")
    acl = _draw(number, 11, size)
    of_one = (_draw(number, 17, 2) == 0) & sf.lit(skewed)
    is_known = (_draw(number, 12, 5) > 0) & ~of_one
    topic = sf.when(is_known, _draw(acl, 1, resources)).otherwise(_draw(number, 13, resources))
    at = sf.timestamp_micros(
        sf.lit(int(_BEGAN.timestamp()) * 1_000_000) + _draw(number, 14, _DAYS * _DAY_S) * 1_000_000
    )
    columns = {
        "time": at,
        "epoch": sf.lit(str(_EPOCH)),
        "offset": sf.lit(size).cast("long"),
        "principal": sf.when(of_one, sf.lit("User:svc-0")).otherwise(_principal(acl, size)),
        "host": sf.concat(sf.lit("10.0.0."), _draw(number, 15, 250)),
        "listener_name": sf.lit(None).cast("string"),
        "security_protocol": sf.lit(None).cast("string"),
        "request_type": sf.lit(1),
        "request_version": sf.lit(None).cast("int"),
        "client_id": sf.lit(None).cast("string"),
        "correlation_id": sf.lit(None).cast("int"),
        "caller": sf.lit(None).cast("string"),
        "operation": sf.when(_draw(number, 16, 3) == 0, sf.lit("WRITE")).otherwise(sf.lit("READ")),
        "resource_type": sf.lit("TOPIC"),
        "resource_name": _topic(topic),
        "result": sf.lit("DENIED"),
        "rule": sf.lit("DefaultDeny"),
        "acl_id": sf.lit(None).cast("string"),
        "sampled": sf.lit(1.0),
        "groups": sf.lit(None).cast("array<string>"),
    }
    rows = spark.range(10 * size).select(*[column.alias(name) for name, column in columns.items()])
    return _checked(rows, DECISIONS.fieldNames()).withColumn("day", sf.to_date("time"))


def _checked(frame: DataFrame, names: list[str]) -> DataFrame:
    if frame.columns != names:
        raise ValueError(f"the columns are {frame.columns}")
    return frame


if __name__ == "__main__":
    with_all = SessionOptions(app_name="company", master="local[2]", driver_memory="4g", shuffle_partitions=16)
    write_company(spark_session(with_all), Home(sys.argv[1]), int(sys.argv[2]), skewed="skewed" in sys.argv[3:])
