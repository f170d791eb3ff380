"""The saved tables of `effective`: by the offset of the snapshot they were made from."""

from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from app.pipeline.effective import expanded, masks_of, nodes_of
from app.pipeline.manifests import versions
from app.pipeline.schemas import MASKS, NODES, RESOURCES
from app.pipeline.snapshot import Snapshot
from app.pipeline.storage import Home, read_documents, write_document

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
    saved = {each["offset"]: each for each in read_documents(spark, _room(home, None, "manifest")) if each["complete"]}
    if not saved or (offset is not None and offset not in saved):
        return None
    wanted = max(saved) if offset is None else offset
    return EffectiveTables(
        spark.read.schema(MASKS).parquet(_room(home, wanted, "masks")),
        spark.read.schema(NODES).parquet(_room(home, wanted, "nodes")),
        spark.read.schema(RESOURCES).parquet(_room(home, wanted, "resources")),
        saved[wanted],
    )


def save_effective(
    spark: SparkSession, home: Home, snapshot: Snapshot, resources: DataFrame, *, pairs: bool
) -> dict[str, Any]:
    """Make and save the tables of a snapshot, in place of those at its offset; the manifest, with their counts.

    With `pairs` the expanded table as well. Killed half-way, it leaves an offset that `load_effective` passes over.
    """
    document = {
        "job": _JOB,
        "cluster_id": snapshot.cluster_id,
        "epoch": snapshot.epoch,
        "offset": snapshot.offset,
        "as_of": snapshot.as_of.isoformat(),
        **versions(spark),
    }
    manifest = _room(home, snapshot.offset, "manifest")
    # INVARIANT: no manifest ever speaks of tables that are being replaced.
    write_document(spark, manifest, {**document, "complete": False})
    saved = _Saved(spark, home, snapshot.offset)
    resources = saved.table("resources", resources)
    masks = saved.table("masks", masks_of(snapshot.acls))
    nodes = saved.table("nodes", nodes_of(resources, masks))
    if pairs:
        saved.table("expanded", expanded(nodes, masks))
    document = {**document, "complete": True, "counts": saved.counts}
    write_document(spark, manifest, document)
    return document


class _Saved:
    def __init__(self, spark: SparkSession, home: Home, offset: int) -> None:
        self._spark, self._home, self._offset = spark, home, offset
        self.counts: dict[str, int] = {}

    def table(self, name: str, frame: DataFrame) -> DataFrame:
        """Write it, count it, and go on with what was written."""
        path = _room(self._home, self._offset, name)
        frame.write.mode("overwrite").parquet(path)
        written = self._spark.read.schema(frame.schema).parquet(path)
        self.counts[name] = written.count()
        return written


def _room(home: Home, offset: int | None, name: str) -> str:
    return home.room("effective", "offset=*" if offset is None else f"offset={offset:020}", name)
