"""Records of the feed: as core's values, and folded to the state that they add up to."""

from collections.abc import Mapping
from functools import reduce
from operator import and_
from typing import Any
from uuid import UUID

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as sf

from app.core.kafka.bindings import AclBinding, StandardAcl
from app.core.kafka.codes import AclOperation, AclPermissionType, PatternType, ResourceType
from app.core.records import AccessControlEntryRecord, ConfigRecord, Record, RemoveAccessControlEntryRecord
from app.pipeline.history.schemas import ACL_FIELDS, BINDING_FIELDS
from app.pipeline.history.source import moment
from app.pipeline.spark.errors import PipelineError

HOUR_S = 3_600

CREATED, REMOVED, CONFIGURED = (
    kind.__name__ for kind in (AccessControlEntryRecord, RemoveAccessControlEntryRecord, ConfigRecord)
)

# Only words that an ACL can have: UNKNOWN, ANY and MATCH belong to filters.
_WORDS: dict[str, tuple[str, ...]] = {
    "resource_type": tuple(code.name for code in ResourceType if code > ResourceType.ANY),
    "pattern_type": (PatternType.LITERAL.name, PatternType.PREFIXED.name),
    "operation": tuple(code.name for code in AclOperation if code > AclOperation.ANY),
    "permission_type": tuple(code.name for code in AclPermissionType if code > AclPermissionType.ANY),
}


def record_of(row: Mapping[str, Any]) -> Record:
    """`row` is of schemas.RECORDS, with `recorded_micros`. Raises AttributeError, KeyError, TypeError or ValueError."""
    recorded_at = moment(row["recorded_micros"])
    offset, tx_last = row["offset"], row["tx_last"]
    said = (recorded_at, row["actor"], bytes(row["hash"]), row["comment"])
    if row["kind"] == CONFIGURED:
        name, value = row["config_name"], row["config_value"]
        if name is None:
            raise ValueError("a ConfigRecord names no property")
        return ConfigRecord(offset, tx_last, name, value, *said)
    ends = None if row["expires_s"] is None else moment(row["expires_s"] * 1_000_000)
    acl = StandardAcl(UUID(row["acl_id"]), binding_of(row), ends, row["owner"])
    if row["kind"] == CREATED:
        return AccessControlEntryRecord(offset, tx_last, acl, *said)
    if row["kind"] == REMOVED:
        return RemoveAccessControlEntryRecord(offset, tx_last, acl, *said)
    raise ValueError(f"`{row['kind']}` is not a kind of record that this version knows")


def binding_of(row: Mapping[str, Any]) -> AclBinding:
    """Raises KeyError for a word that no ACL has, ValueError for a missing name."""
    if None in (row["resource_name"], row["principal"], row["host"]):
        raise ValueError("a field of the ACL is missing")
    for name, words in _WORDS.items():
        if row[name] not in words:
            raise KeyError(row[name])
    return AclBinding.from_words(row[name] for name in BINDING_FIELDS)


def refuse_unreadable(records: DataFrame) -> None:
    """Raise PipelineError for the first record that a newer version of Klamm must have written."""
    has_words = reduce(and_, (sf.col(name).isin(*words) for name, words in _WORDS.items()))
    is_known = (sf.col("kind") == CONFIGURED) | (sf.col("kind").isin(CREATED, REMOVED) & has_words)
    unreadable = records.where(~sf.coalesce(is_known, sf.lit(col=False)))
    row = unreadable.agg(sf.min_by(sf.struct("offset", "kind", *_WORDS), "offset")).collect()[0][0]
    if row is not None:
        words = ", ".join(f"{name} `{row[name]}`" for name in _WORDS if row[name] is not None)
        told = f"`{row['kind']}`" + (f" with {words}" if words else "")
        raise PipelineError(
            f"the record at offset {row['offset']} is {told}, which this version of Klamm can't read; "
            "run the pipeline of the version that wrote it"
        )


def fold_acls(records: DataFrame, base: DataFrame) -> DataFrame:
    changes = records.where(sf.col("kind").isin(CREATED, REMOVED)).select(
        sf.col("acl_id").alias("id"), "offset", (sf.col("kind") == CREATED).alias("is_there"), *ACL_FIELDS
    )
    # Before every record: offsets begin at 1.
    there = base.select("id", sf.lit(0).alias("offset"), sf.expr("true AS is_there"), *ACL_FIELDS)
    latest = (
        there.unionByName(changes)
        .groupBy("id")
        .agg(sf.max_by(sf.struct("is_there", *ACL_FIELDS), "offset").alias("latest"))
    )
    return latest.where("latest.is_there").select("id", *(f"latest.{name}" for name in ACL_FIELDS))


def changes_by_hour(records: DataFrame) -> list[list[int]]:
    """For each hour (its number from 1970 on) with changes of ACLs: when the first and the last was recorded, in
    seconds since 1970, and how many ACLs were created and removed.
    """
    seconds = sf.unix_seconds("recorded_at")
    by_hour = (
        comings_and_goings(records)
        .groupBy(sf.floor(seconds / HOUR_S).cast("bigint").alias("hour"))
        .agg(
            sf.min(seconds),
            sf.max(seconds),
            sf.count_if(sf.col("kind") == CREATED),
            sf.count_if(sf.col("kind") == REMOVED),
        )
    )
    return [list(row) for row in by_hour.collect()]


def comings_and_goings(records: DataFrame) -> DataFrame:
    """The records that create or remove ACLs; one of an ACL that an earlier of these has created changes its terms."""
    changes = records.where(sf.col("kind").isin(CREATED, REMOVED))
    first = sf.min("offset").over(Window.partitionBy("acl_id"))
    return changes.withColumn("first", first).where((sf.col("kind") == REMOVED) | (sf.col("offset") == sf.col("first")))


def fold_configs(records: DataFrame) -> DataFrame:
    """The last value (null: back to the start-up value) of every property that these records name."""
    changes = records.where(sf.col("kind") == CONFIGURED)
    latest = changes.groupBy("config_name").agg(sf.max_by(sf.struct("config_value"), "offset").alias("latest"))
    return latest.select(sf.col("config_name").alias("name"), sf.col("latest.config_value").alias("value"))
