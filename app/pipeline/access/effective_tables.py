"""The saved tables of `effective`: by the offset of the snapshot they were made from."""

from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from app.pipeline.access.effective import expanded, masks_of, nodes_of
from app.pipeline.history.saved import SavedResults
from app.pipeline.history.schemas import MASKS, NODES, RESOURCES
from app.pipeline.history.snapshot import Snapshot
from app.pipeline.spark.errors import NotYetError
from app.pipeline.spark.storage import Home

_JOB = "effective"


@dataclass(frozen=True)
class EffectiveTables:
    """Masks, nodes and the resources they were made for, at one offset. `manifest` has their counts."""

    masks: DataFrame
    nodes: DataFrame
    resources: DataFrame
    manifest: dict[str, Any]


def load_effective(spark: SparkSession, home: Home, offset: int | None = None) -> EffectiveTables | None:
    """The tables saved at this offset, or the latest; None if there are none."""
    saved = SavedResults(spark, home, _JOB)
    manifest = saved.find(offset)
    if manifest is None:
        return None
    masks, nodes, resources = (
        spark.read.schema(schema).parquet(saved.room(manifest["offset"], name))
        for name, schema in (("masks", MASKS), ("nodes", NODES), ("resources", RESOURCES))
    )
    return EffectiveTables(masks, nodes, resources, manifest)


def not_yet_at(offset: int) -> NotYetError:
    """What to say where there are none at this offset."""
    return NotYetError(
        f"effective has not been run at offset {offset}; run `klamm pipeline effective`, then this again"
    )


def save_effective(
    spark: SparkSession, home: Home, snapshot: Snapshot, resources: DataFrame, *, pairs: bool
) -> dict[str, Any]:
    """Make and save the tables of a snapshot, in place of those at its offset; the manifest, with their counts.

    With `pairs` the expanded table as well.
    """
    saved = SavedResults(spark, home, _JOB)
    manifest = saved.begin(snapshot, {})
    counts: dict[str, int] = {}

    def table(name: str, frame: DataFrame) -> DataFrame:
        """Write it, count it, and go on with what was written."""
        path = saved.room(snapshot.offset, name)
        frame.write.mode("overwrite").parquet(path)
        written = spark.read.schema(frame.schema).parquet(path)
        counts[name] = written.count()
        return written

    resources = table("resources", resources)
    masks = table("masks", masks_of(snapshot.acls))
    nodes = table("nodes", nodes_of(resources, masks))
    if pairs:
        table("expanded", expanded(nodes, masks))
    return saved.complete(manifest, counts)
