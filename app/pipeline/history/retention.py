"""Which results of one job a home keeps: those at the latest offsets, and those that other jobs' latest rely on."""

from typing import Final

from pyspark.sql import SparkSession

from app.pipeline.history.snapshot import SNAPSHOTS, SavedResults
from app.pipeline.spark.storage import Home, read_documents, remove

KEPT: Final = 30
_TABLES: Final = {
    SNAPSHOTS: ("acls",),
    "effective": ("resources", "masks", "nodes", "expanded"),
    "hygiene": ("parts", "findings", "listed", "last-used"),
}


def remove_old(spark: SparkSession, home: Home, job: str, keep: int, made: int) -> list[int]:
    """Keep this job's results at the `keep` latest offsets and at the one just `made`; returns the offsets removed.

    INVARIANT: what the latest results of the other jobs were made from, or are shown with, stays.
    """
    whole = {room: _offsets(spark, home, room) for room in _TABLES}
    needed = {made, *(max(offsets) for offsets in whole.values() if offsets)}
    kept = needed | set(sorted(whole[job])[-keep:])
    results = SavedResults(spark, home, job)
    gone = [offset for offset in _offsets(spark, home, job, whole=False) if offset < max(kept) and offset not in kept]
    for offset in gone:
        # Nobody reads tables without a manifest.
        for name in ("manifest", *_TABLES[job], ""):
            remove(spark, results.room(offset, name).rstrip("/"))
    return gone


def _offsets(spark: SparkSession, home: Home, job: str, *, whole: bool = True) -> list[int]:
    documents = read_documents(spark, SavedResults(spark, home, job).room(None, "manifest"))
    return sorted(each["offset"] for each in documents if each.get("complete", True) or not whole)
