"""Findings of hygiene in their one shape, with the command that mends each."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from app.pipeline.kafka_acls import with_removals
from app.pipeline.schemas import BINDING_FIELDS, FINDINGS


def findings_of(
    acls: DataFrame, kind: Column, *, why: Column, by_acl_id: Column | None = None, covered: Column | None = None
) -> DataFrame:
    """A finding for each of these ACLs (columns of ACLS, others are dropped) that its removal mends (FINDINGS)."""
    named = acls.select(
        kind.alias("kind"),
        sf.col("id").alias("acl_id"),
        *BINDING_FIELDS,
        why.alias("why"),
        (sf.lit(None).cast("string") if by_acl_id is None else by_acl_id).alias("by_acl_id"),
        (sf.lit(None) if covered is None else covered).cast("bigint").alias("covered"),
        sf.lit(None).cast("bigint").alias("used"),
        sf.array().cast("array<string>").alias("mend"),
    )
    return named.mapInArrow(with_removals, FINDINGS)
