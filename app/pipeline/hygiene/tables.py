"""The saved findings of `hygiene`, by the offset of the snapshot they are about."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from app.pipeline.history.saved import SavedResults
from app.pipeline.history.schemas import FINDINGS, FOUND
from app.pipeline.history.snapshot import Snapshot
from app.pipeline.hygiene.findings import mended
from app.pipeline.spark.storage import Home

KINDS = ("VOID", "REDUNDANT", "OVER_BROAD", "UNUSED", "DETACHED")
"""In the order of lists, which is one to mend in: an ALLOW goes before the DENY that holds it down."""

_JOB = "hygiene"


@dataclass(frozen=True)
class HygieneFindings:
    """What was found (FINDINGS); the manifest has `counts` by kind and what was looked at."""

    findings: DataFrame
    manifest: dict[str, Any]


def load_findings(spark: SparkSession, home: Home, offset: int | None = None) -> HygieneFindings | None:
    """The findings saved at this offset, or the latest; None if there are none."""
    saved = SavedResults(spark, home, _JOB)
    manifest = saved.find(offset)
    # Without a tool they are of a version that proposed to remove DENYs that nobody had run into.
    if manifest is None or "tool" not in manifest:
        return None
    return HygieneFindings(spark.read.schema(FINDINGS).parquet(saved.room(manifest["offset"], "findings")), manifest)


def save_findings(
    home: Home,
    snapshot: Snapshot,
    first: DataFrame,
    others: Callable[[Callable[[], DataFrame]], Iterable[DataFrame]],
    looked_at: Mapping[str, Any],
    tool: str,
) -> HygieneFindings:
    """Save what was found (FOUND) in a snapshot, in place of what is at its offset, with this tool's commands.

    `others` are made of what was saved so far, which they can read. `looked_at` goes into the manifest.
    """
    spark = first.sparkSession
    results = SavedResults(spark, home, _JOB)
    manifest = results.begin(snapshot, {**looked_at, "tool": tool})
    # Part after part: a plan of all of them at once takes Spark longer to make than to run.
    parts, path = (results.room(snapshot.offset, name) for name in ("parts", "findings"))
    first.write.mode("overwrite").parquet(parts)

    def saved() -> DataFrame:
        return spark.read.schema(FOUND).parquet(parts)

    for part in others(saved):
        part.write.mode("append").parquet(parts)
    mended(_consistent(saved()), tool).write.mode("overwrite").parquet(path)
    spark.createDataFrame([], FOUND).write.mode("overwrite").parquet(parts)
    findings = spark.read.schema(FINDINGS).parquet(path)
    counted = {row["kind"]: row["count"] for row in findings.groupBy("kind").count().collect()}
    return HygieneFindings(findings, results.complete(manifest, {kind: counted.get(kind, 0) for kind in KINDS}))


def _consistent(findings: DataFrame) -> DataFrame:
    """Without ACLs that are REDUNDANT only by one that is OVER_BROAD: in another order both would go."""
    broad = findings.where(sf.col("kind") == "OVER_BROAD").select(sf.col("acl_id").alias("by_acl_id")).distinct()
    redundant = sf.col("kind") == "REDUNDANT"
    left = findings.where(redundant).join(broad, "by_acl_id", "left_anti").select(*FOUND.fieldNames())
    return findings.where(~redundant).unionByName(left)


def in_order(findings: DataFrame) -> DataFrame:
    """By kind, what covers most first; the same findings in the same order every time."""
    place = sf.array_position(sf.array(*map(sf.lit, KINDS)), sf.col("kind"))
    order = ("resource_type", "resource_name", "pattern_type", "principal", "host", "operation", "permission_type")
    return findings.orderBy(place, sf.col("covered").desc_nulls_last(), *order)
