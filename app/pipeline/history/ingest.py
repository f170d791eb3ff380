"""From the service's log files to the decision log, batch by batch.

Each batch has its own number, and its manifest is written last: a batch without one is never read. Nor is a batch that
a run finished after it had lost the home to another run.
"""

import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

from pyspark import StorageLevel
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf

from app.pipeline.history.decision_lines import MAX_LINE_BYTES
from app.pipeline.history.line_reader import FAULT, PARSED, PLACE, parse_batches
from app.pipeline.history.log_files import NOTHING, Content, LogFile, Taken, files_in
from app.pipeline.history.log_pieces import batch_room, hour, sums
from app.pipeline.history.schemas import FILES, LONG_MAX
from app.pipeline.spark.home_lock import CheckLock
from app.pipeline.spark.storage import Home, versions, write_document

# How far a service's clock may be ahead of this one.
_CLOCKS_APART = timedelta(days=1)
_MOST_BYTES = str(1 << 50)


@dataclass(frozen=True, slots=True)
class Turn:
    """One run: `generation` is greater than that of any run that began before it, and `after` is the last batch that it
    found. `began` is in milliseconds since 1970.
    """

    check_lock: CheckLock
    generation: int
    after: int
    began: int

    @classmethod
    def begin(cls, check_lock: CheckLock, finished: Mapping[int, Mapping[str, Any]]) -> "Turn":
        began = time.time_ns() // 1_000_000
        last = max((manifest["generation"] for manifest in finished.values()), default=0)
        # Of a run that has finished no batch only its beginning tells that it was before.
        return cls(check_lock, max(began, last + 1), max(finished, default=-1), began)

    def batch(self, at: int) -> int:
        """A number that no other run's batch has, so that what a killed run left behind is never read."""
        return max(self.began, self.after + 1) + at


@dataclass(frozen=True, slots=True)
class Ingesting:
    """With `skip_unreadable` a file is taken up to where it breaks off."""

    spark: SparkSession
    home: Home
    folders: Sequence[str]
    taken: Taken
    turn: Turn
    skip_unreadable: bool


@dataclass(frozen=True, slots=True)
class BatchDone:
    manifest: Mapping[str, Any]
    unread: Sequence[LogFile]
    """Files that gave no line."""


def ingest_batch(ingesting: Ingesting, files: Sequence[LogFile], number: int) -> BatchDone:
    """Takes what is new in these files, each stream once. Raises what Spark raises for a file that can't be read."""
    sources = {file.path: at for at, file in enumerate(files)}
    with _whole_files(ingesting.spark, files):
        rows = parsed(_lines_of(ingesting, files), sources).persist(StorageLevel.DISK_ONLY)
        try:
            contents = {
                row["source"]: Content(row["stream"], row["number"], row["digest"])
                for row in rows.where("stream IS NOT NULL").select(*PLACE).collect()
            }
            first = _first_lines(ingesting, files, contents, rows)
            taken = rows.where(sf.col("stream").isNull() & (sf.col("number") >= sf.get(first, sf.col("source"))))
            read = [(*files[at], *content) for at, content in contents.items()]
            manifest = write_batch(
                ingesting.home, taken, ingesting.spark.createDataFrame(read, FILES), number, ingesting.turn
            )
        finally:
            rows.unpersist()
    return BatchDone(manifest, [file for at, file in enumerate(files) if at not in contents])


def parsed(lines: DataFrame, sources: Mapping[str, int]) -> DataFrame:
    """PARSED rows of (value, file). No blank lines."""
    raw = sf.col("value").cast("binary")
    cut = sf.when(sf.octet_length("value") > MAX_LINE_BYTES, sf.substring(raw, 1, MAX_LINE_BYTES + 1)).otherwise(raw)
    latest = datetime.fromtimestamp(time.time(), UTC) + _CLOCKS_APART
    return lines.select(cut.alias("raw"), "file").mapInArrow(partial(parse_batches, latest, dict(sources)), PARSED)


def write_batch(home: Home, rows: DataFrame, files: DataFrame, number: int, turn: Turn) -> dict[str, Any]:
    """Write the decisions by day, the quarantine and the FILES that were read; then the manifest, which is returned."""
    of_turn = {"generation": turn.generation, "after": turn.after}
    manifest = {**_manifest(rows, number), "files": files.count(), **of_turn}
    good = rows.where("reason IS NULL").drop(*FAULT, *PLACE)
    bad = rows.where("reason IS NOT NULL").select(*FAULT)
    for frame, count, room, *by in (
        (good, manifest["decisions"], "log", "day"),
        (bad, manifest["quarantined"], "quarantine"),
        (files.coalesce(1), manifest["files"], "files"),
    ):
        if count:
            numbered = frame.withColumn("batch", sf.lit(number)).write.partitionBy(*by, "batch")
            numbered.mode("overwrite").option("partitionOverwriteMode", "dynamic").parquet(home.room("decisions", room))
    turn.check_lock()
    write_document(rows.sparkSession, batch_room(home, number), manifest)
    return manifest


def _lines_of(ingesting: Ingesting, files: Sequence[LogFile]) -> DataFrame:
    skips = str(ingesting.skip_unreadable).lower()
    lines = files_in(
        ingesting.spark,
        "text",
        ingesting.folders,
        lineSep="\n",
        ignoreCorruptFiles=skips,
        ignoreMissingFiles=skips,
    )
    path = sf.col("_metadata.file_path")
    return lines.where(path.isin([file.path for file in files])).select("value", path.alias("file"))


@contextmanager
def _whole_files(spark: SparkSession, files: Sequence[LogFile]) -> Iterator[None]:
    """Each file is read by one task, so that its lines come in order. The plan is made at the first action."""
    settings = {
        "spark.sql.files.maxPartitionBytes": _MOST_BYTES,
        "spark.sql.files.openCostInBytes": str(max(file.bytes for file in files)),
    }
    before = {name: str(spark.conf.get(name)) for name in settings}
    try:
        for name, value in settings.items():
            spark.conf.set(name, value)
        yield
    finally:
        for name, value in before.items():
            spark.conf.set(name, value)


def _first_lines(
    ingesting: Ingesting, files: Sequence[LogFile], contents: Mapping[int, Content], rows: DataFrame
) -> Column:
    """For each file, the number of the first line to take."""
    ingesting.taken.look_up({content.stream for content in contents.values()})
    first = [LONG_MAX] * len(files)
    # Of two files of one stream the longer one comes later, so that its lines prove that they are one.
    for at in sorted(contents, key=lambda at: contents[at].position):

        def digest_at(number: int, at: int = at) -> int | None:
            row = rows.where(f"stream IS NULL AND source = {at} AND number = {number}").select("digest").first()
            return None if row is None else int(row["digest"])

        after = ingesting.taken.take(files[at], contents[at], digest_at)
        if after != NOTHING:
            first[at] = after + 1
    return sf.array(*map(sf.lit, first))


def _manifest(rows: DataFrame, number: int) -> dict[str, Any]:
    by_day, by_column = Counter[str](), Counter[str | None]()
    hours = []
    counts = rows.groupBy("reason", "column", sf.col("day").cast("string").alias("day"), hour().alias("hour"))
    for reason, column, day, *counted in counts.agg(*sums()).collect():
        decisions = counted[1]
        if reason is None:
            by_day[day] += decisions
            hours.append(counted)
        else:
            by_column[column] += decisions
    return {
        "job": "ingest",
        "batch": number,
        "decisions": sum(by_day.values()),
        "days": dict(by_day),
        "hours": hours,
        "quarantined": sum(by_column.values()),
        "quarantined_by_column": {column or "(line)": count for column, count in sorted(by_column.items())},
        **versions(rows.sparkSession),
    }
