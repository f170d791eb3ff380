"""Records folded to what they add up to: for each ACL and each property the last record wins."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from app.pipeline.history.records import CONFIGURED, CREATED, REMOVED
from app.pipeline.history.schemas import BINDING_FIELDS


def fold_acls(records: DataFrame, base: DataFrame | None = None) -> DataFrame:
    """The ACLs after these records, which follow a base of ACLs (schemas.ACLS) if there is one."""
    changes = records.where(sf.col("kind").isin(CREATED, REMOVED)).select(
        sf.col("acl_id").alias("id"), "offset", (sf.col("kind") == CREATED).alias("is_there"), *BINDING_FIELDS
    )
    if base is not None:
        # Before every record: offsets begin at 1.
        there = base.select("id", sf.lit(0).alias("offset"), sf.expr("true AS is_there"), *BINDING_FIELDS)
        changes = there.unionByName(changes)
    latest = changes.groupBy("id").agg(sf.max_by(sf.struct("is_there", *BINDING_FIELDS), "offset").alias("latest"))
    return latest.where("latest.is_there").select("id", *(f"latest.{name}" for name in BINDING_FIELDS))


def fold_configs(records: DataFrame) -> DataFrame:
    """The last value (null: back to the start-up value) of every property that these records name."""
    changes = records.where(sf.col("kind") == CONFIGURED)
    latest = changes.groupBy("config_name").agg(sf.max_by(sf.struct("config_value"), "offset").alias("latest"))
    return latest.select(sf.col("config_name").alias("name"), sf.col("latest.config_value").alias("value"))


def ends_of_transactions(records: DataFrame) -> DataFrame:
    """Only the last record of each whole transaction."""
    return records.where(sf.col("offset") == sf.col("tx_last"))
