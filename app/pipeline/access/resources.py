"""The resources that a job works on: from a file, or as named in decisions."""

import csv
import gzip
import io
import json
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import islice

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StringType

from app.core.kafka.codes import ResourceType
from app.pipeline.history.decision_lines import unique_keys
from app.pipeline.history.schemas import RESOURCES, columns
from app.pipeline.spark.arrow import batch_of, rows_in
from app.pipeline.spark.errors import PipelineError

_NAMES = RESOURCES.fieldNames()
_TYPES = [each.name for each in ResourceType if each > ResourceType.ANY]
_CHECKED = columns("resource_type string, resource_name string, fault string")
_FAULTS_SHOWN, _MAX_SHOWN, _ROWS_AT_ONCE = 3, 100, 10_000
_KNOWN = (
    "known are .csv (with a header line), .jsonl or .ndjson, .parquet, folders of Parquet, and .txt (one topic per "
    "line)"
)

_Row = tuple[str | None, str | None]


class _WrongRowError(Exception):
    """Its text says what is not a resource, or why the rest of the file can't be read."""


def resource_list(path: str) -> str:
    """The path, if its name shows a known format; else it raises PipelineError."""
    if not path or _extension(path) not in (*_READERS, "parquet"):
        raise PipelineError(f"`{path}`: unknown format of a resource list; {_KNOWN}")
    if _last(path).startswith(("_", ".")) and _extension(path) != "parquet":
        raise PipelineError(f"`{path}`: Spark ignores files whose names begin with `_` or `.`; give it another name")
    return path


def read_resources(spark: SparkSession, path: str) -> DataFrame:
    """The resources in this file or folder, each once (RESOURCES). The name's suffix tells the format.

    Raises PipelineError, with the row or column, for anything that is not a list of resources.
    """
    extension = _extension(resource_list(path))
    try:
        found = _parquet(spark, path) if extension == "parquet" else _text(spark, path, extension)
        faults = found.where("fault IS NOT NULL").select("fault").limit(_FAULTS_SHOWN).collect()
    except (PySparkException, Py4JError) as fault:
        if isinstance(fault, PySparkException) and fault.getCondition() == "PATH_NOT_FOUND":
            raise PipelineError(f"`{path}`: there is no such file or folder") from None
        raise PipelineError(f"`{path}` can't be read as {extension}; {_KNOWN}") from fault
    if faults:
        raise PipelineError(f"`{path}`: " + "; ".join(row["fault"] for row in faults))
    return found.select(*_NAMES).distinct()


def seen_resources(decisions: DataFrame) -> DataFrame:
    return decisions.select(*_NAMES).distinct()


def _extension(path: str) -> str:
    last = _last(path).lower().removesuffix(".gz")
    return last.rpartition(".")[2] if "." in last else "parquet"


def _last(path: str) -> str:
    return path.rstrip("/").rpartition("/")[2]


def _parquet(spark: SparkSession, path: str) -> DataFrame:
    found = spark.read.parquet(path)
    for name in _NAMES:
        if name not in found.columns:
            raise PipelineError(f"`{path}` {_without(name, found.columns)}")
        if not isinstance(found.schema[name].dataType, StringType):
            raise PipelineError(
                f"`{path}`: column `{name}` holds {found.schema[name].dataType.simpleString()} instead of text"
            )
    return found.select(*_NAMES).mapInArrow(_checked_batches, _CHECKED)


def _text(spark: SparkSession, path: str, extension: str) -> DataFrame:
    # Whole files, which Python reads exactly: Spark's readers guess if a line is malformed.
    files = spark.read.format("binaryFile").load(path).select("path", "content")
    return files.mapInArrow(partial(_checked_files, extension), _CHECKED)


def _checked_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield batch_of([_checked(row) for row in rows_in(batch)], _CHECKED)


def _checked_files(extension: str, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for path, content in (row for batch in batches for row in rows_in(batch)):
        rows = _rows_of(extension, gzip.decompress(content) if path.endswith(".gz") else content)
        while some := list(islice(rows, _ROWS_AT_ONCE)):
            yield batch_of(some, _CHECKED)


def _rows_of(extension: str, content: bytes) -> Iterator[tuple[str | None, str | None, str | None]]:
    try:
        for row in _READERS[extension](content):
            yield _checked(row)
    except UnicodeDecodeError as wrong:
        line = content[content.rfind(b"\n", 0, wrong.start) + 1 :].split(b"\n", 1)[0]
        yield None, None, f"not UTF-8: `{line.decode(errors='replace')[:_MAX_SHOWN]}`; write the list in UTF-8"
    except _WrongRowError as wrong:
        yield None, None, str(wrong)


def _checked(row: _Row) -> tuple[str | None, str | None, str | None]:
    missing = [name for name, value in zip(_NAMES, row, strict=True) if not value]
    if not missing and row[0] in _TYPES:
        return *row, None
    shown = f"`{','.join(each for each in row if each)}`"
    if missing:
        return None, None, f"no `{missing[0]}` in {shown}"
    return None, None, f"unknown resource type in {shown}, known are {', '.join(_TYPES)}"


def _csv(content: bytes) -> Iterator[_Row]:
    reader = csv.reader(io.StringIO(content.decode(), newline=""), strict=True)
    try:
        header = next(reader, [])
        for name in _NAMES:
            if name not in header:
                raise _WrongRowError(_without(name, header))
        at_kind, at_name = map(header.index, _NAMES)
        for row in filter(None, reader):
            if len(row) != len(header):
                raise _WrongRowError(f"the row does not match the columns: `{','.join(row)[:_MAX_SHOWN]}`")
            yield row[at_kind], row[at_name]
    except csv.Error:
        raise _WrongRowError(
            f"line {reader.line_num}: unclosed quote; close it, and double a quote inside a quoted name"
        ) from None


def _json(content: bytes) -> Iterator[_Row]:
    for raw in content.split(b"\n"):
        if raw and not raw.isspace():
            try:
                fields = json.loads(raw.decode(), object_pairs_hook=unique_keys)
                kind, name = (fields.get(each) for each in _NAMES)
                "".join(each for each in (kind, name) if each is not None).encode()
            except (AttributeError, RecursionError, TypeError, ValueError):
                shown = raw.decode(errors="replace")[:_MAX_SHOWN]
                raise _WrongRowError(f"the row does not match the columns: `{shown}`") from None
            yield kind, name


def _topics(content: bytes) -> Iterator[_Row]:
    for line in io.StringIO(content.decode(), newline=None):
        if topic := line.removesuffix("\n"):
            yield ResourceType.TOPIC.name, topic


_READERS: dict[str, Callable[[bytes], Iterator[_Row]]] = {"csv": _csv, "jsonl": _json, "ndjson": _json, "txt": _topics}


def _without(name: str, there: Iterable[str]) -> str:
    return f"has no column `{name}`; its columns are {', '.join(there)}"
