"""What a job has made of one snapshot, by its offset: tables first, and last a manifest that calls them complete."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pyspark.sql import SparkSession

from app.pipeline.history.snapshot import Snapshot
from app.pipeline.spark.manifests import versions
from app.pipeline.spark.storage import Home, read_documents, write_document


@dataclass(frozen=True, slots=True)
class SavedResults:
    """All that one job has saved in this home. Killed half-way, it leaves an offset that `find` passes over."""

    spark: SparkSession
    home: Home
    job: str

    def room(self, offset: int | None, name: str) -> str:
        """The folder of one table at this offset; None stands for all of them."""
        return self.home.room(self.job, "offset=*" if offset is None else f"offset={offset:020}", name)

    def find(self, offset: int | None) -> dict[str, Any] | None:
        """The manifest of what was saved at this offset, or at the latest; None if there is none."""
        documents = read_documents(self.spark, self.room(None, "manifest"))
        saved = {each["offset"]: each for each in documents if each["complete"]}
        if not saved:
            return None
        return saved.get(max(saved) if offset is None else offset)

    def begin(self, snapshot: Snapshot, looked_at: Mapping[str, Any]) -> dict[str, Any]:
        """From now on nothing counts at this offset. The manifest, with `looked_at` in it, for `complete`."""
        manifest = {
            "job": self.job,
            "cluster_id": snapshot.cluster_id,
            "epoch": snapshot.epoch,
            "offset": snapshot.offset,
            "as_of": snapshot.as_of.isoformat(),
            **looked_at,
            **versions(self.spark),
        }
        # INVARIANT: no manifest ever speaks of tables that are being replaced.
        self._write({**manifest, "complete": False})
        return manifest

    def complete(self, manifest: Mapping[str, Any], counts: Mapping[str, int]) -> dict[str, Any]:
        """The tables stand; the manifest with their counts."""
        whole = {**manifest, "complete": True, "counts": dict(counts)}
        self._write(whole)
        return whole

    def _write(self, manifest: Mapping[str, Any]) -> None:
        write_document(self.spark, self.room(manifest["offset"], "manifest"), manifest)
