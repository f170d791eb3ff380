"""What an earlier version has read of the decision log: it kept paths, in a checkpoint of Structured Streaming."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession

from app.pipeline.history.log_files import LogFile, stem_of
from app.pipeline.spark.errors import PipelineError
from app.pipeline.spark.storage import Home, existing


@dataclass(frozen=True, slots=True)
class EarlierReads:
    """The paths of which it is not known yet what the files held."""

    paths: frozenset[str]

    @classmethod
    def find(
        cls, spark: SparkSession, home: Home, finished: Mapping[int, Mapping[str, object]], known: DataFrame
    ) -> "EarlierReads":
        """Raises PipelineError if such a version has ingested something, and its checkpoint is gone."""
        numbers = {number for number, manifest in finished.items() if "files" not in manifest}
        if not numbers:
            return cls(frozenset())
        lines = existing(spark, home.room("decisions", "checkpoint", "sources", "0"), "text")
        if lines is None:
            raise PipelineError(
                f"`{home.room('decisions')}` holds decisions of an earlier version of Klamm, but its checkpoint is "
                "gone, so nobody knows which files were read: restore the folder checkpoint, or move the whole folder "
                "away to ingest all files anew"
            )
        # The first line of each file is its version.
        entries = (json.loads(line) for (line,) in lines.where("value LIKE '{%'").collect())
        read = {entry["path"] for entry in entries if entry["batchId"] in numbers}
        return cls(frozenset(read - {was for (was,) in known.where("was IS NOT NULL").select("was").collect()}))

    def among(self, files: Iterable[LogFile]) -> dict[str, str]:
        """Which of these files they were: the earlier path by the path of now. A moved one is known by its name."""
        by_stem: dict[str, list[LogFile]] = {}
        for file in files:
            by_stem.setdefault(file.stem, []).append(file)
        found = {}
        for was in sorted(self.paths):
            there: Sequence[LogFile] = by_stem.get(stem_of(was), ())
            same = next((file for file in there if _plain(file.path) == _plain(was)), there[0] if there else None)
            if same is not None:
                found[same.path] = was
        return found


def _plain(path: str) -> str:
    return path.removeprefix("file://").removeprefix("file:")
