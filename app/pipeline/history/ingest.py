"""From the service's log files to the decision log, batch by batch.

A batch written twice replaces itself. Its manifest is written last; a batch without one is never read.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pyarrow as pa
from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.types import StructField, StructType

from app.pipeline.history.decision_lines import MAX_LINE_BYTES, LineFault, parse_line
from app.pipeline.history.schemas import DAY, DECISIONS, columns
from app.pipeline.spark.arrow import batch_of
from app.pipeline.spark.storage import Home, read_documents, versions, write_document

# How far a service's clock may be ahead of the clock here.
_CLOCKS_APART = timedelta(days=1)
# Rows of one Arrow batch. Each repeats what the decisions of a line share, such as a principal of 32 KB.
_ROWS_AT_ONCE = 1_000

_FAULT_FIELDS = ("file", "column", "reason", "line")
_NOTHING = (None,) * (len(DECISIONS.fields) + 1)
_PARSED = StructType(
    [
        *(StructField(each.name, each.dataType) for each in (*DECISIONS.fields, DAY)),
        *columns(", ".join(f"{name} string" for name in _FAULT_FIELDS)).fields,
    ]
)


def lines_of(spark: SparkSession, folder: str, *, files_at_once: int, skip_unreadable: bool) -> DataFrame:
    """The stream of lines in the folder's closed files.

    A file that has disappeared or is torn (gzip) fails the batch, unless unreadable files are skipped from there on.
    """
    return (
        spark.readStream.format("text")
        .option("lineSep", "\n")
        # Open files begin with `_` and are left alone.
        .option("pathGlobFilter", "{decisions-*.jsonl,decisions-*.jsonl.gz}")
        .option("maxFilesPerTrigger", files_at_once)
        # By default Spark ignores files that are a week older than the newest one.
        .option("maxFileAge", "36500d")
        .option("ignoreCorruptFiles", str(skip_unreadable).lower())
        .option("ignoreMissingFiles", str(skip_unreadable).lower())
        .load(folder)
        .select("value", sf.col("_metadata.file_path").alias("file"))
    )


def parsed(lines: DataFrame) -> DataFrame:
    """The columns of DECISIONS and day, or else those of _FAULT_FIELDS. No blank lines."""
    raw = sf.col("value").cast("binary")
    cut = sf.when(sf.octet_length("value") > MAX_LINE_BYTES, sf.substring(raw, 1, MAX_LINE_BYTES + 1)).otherwise(raw)
    latest = datetime.fromtimestamp(time.time(), UTC) + _CLOCKS_APART
    return lines.select(cut.alias("raw"), "file").mapInArrow(partial(_parse_batches, latest), _PARSED)


def batch_writer(root: str) -> Callable[[DataFrame, int], None]:
    return partial(write_batch, Home(root))


def write_batch(home: Home, batch: DataFrame, number: int) -> None:
    """Write the decisions by day, the quarantine, and the manifest."""
    rows = parsed(batch).persist(StorageLevel.DISK_ONLY)
    try:
        good = rows.filter(sf.col("reason").isNull()).drop(*_FAULT_FIELDS).withColumn("batch", sf.lit(number))
        bad = rows.filter(sf.col("reason").isNotNull()).select(*_FAULT_FIELDS).withColumn("batch", sf.lit(number))
        _overwrite(good, home.room("decisions", "log"), "day", "batch")
        _overwrite(bad, home.room("decisions", "quarantine"), "batch")
        write_document(batch.sparkSession, _manifests(home, f"batch={number}"), _manifest(rows, number))
    finally:
        rows.unpersist()


def finished_batches(spark: SparkSession, home: Home) -> dict[int, dict[str, Any]]:
    return {manifest["batch"]: manifest for manifest in read_documents(spark, _manifests(home, "*"))}


def _manifests(home: Home, name: str) -> str:
    return home.room("decisions", "manifests", name)


def _overwrite(rows: DataFrame, path: str, *partitions: str) -> None:
    writer = rows.write.mode("overwrite").option("partitionOverwriteMode", "dynamic")
    writer.partitionBy(*partitions).parquet(path)


def _manifest(rows: DataFrame, number: int) -> dict[str, Any]:
    by_day: dict[str, int] = {}
    by_column: dict[str | None, int] = {}
    counts = rows.groupBy("reason", "column", sf.col("day").cast("string").alias("day")).count()
    for reason, column, day, count in counts.collect():
        if reason is None:
            by_day[day] = count
        else:
            by_column[column] = by_column.get(column, 0) + count
    return {
        "job": "ingest",
        "batch": number,
        "decisions": sum(by_day.values()),
        "days": by_day,
        "quarantined": sum(by_column.values()),
        "quarantined_by_column": {column or "(line)": count for column, count in sorted(by_column.items())},
        **versions(rows.sparkSession),
    }


def _parse_batches(latest: datetime, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        rows: list[Sequence[object]] = []
        raws, files = (batch.column(at).to_pylist() for at in (0, 1))
        for raw, file in zip(raws, files, strict=True):
            if raw and not raw.isspace():
                rows += _rows_of(raw, file, latest)
            while len(rows) >= _ROWS_AT_ONCE:
                yield batch_of(rows[:_ROWS_AT_ONCE], _PARSED)
                del rows[:_ROWS_AT_ONCE]
        if rows:
            yield batch_of(rows, _PARSED)


def _rows_of(raw: bytes, file: str, latest: datetime) -> list[Sequence[object]]:
    line = parse_line(raw, latest)
    if isinstance(line, LineFault):
        text = raw[:MAX_LINE_BYTES].decode(errors="backslashreplace")
        return [(*_NOTHING, file, line.column, line.reason, text)]
    return [(*row, row[0].date(), None, None, None, None) for row in line]  # type: ignore[union-attr]  # `time`
