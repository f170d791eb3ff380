"""The resources that a job looks at: from a file, or as decisions have named them."""

import json
from collections.abc import Callable, Iterable, Iterator

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.types import StringType, StructField, StructType

from app.core.kafka.codes import ResourceType
from app.pipeline.history.decision_lines import unique_keys
from app.pipeline.history.schemas import RESOURCES, columns
from app.pipeline.spark.arrow import batch_of
from app.pipeline.spark.errors import PipelineError

_NAMES = RESOURCES.fieldNames()
_TYPES = [each.name for each in ResourceType if each > ResourceType.ANY]
_BROKEN = "_broken"
_JSON = columns(f"resource_type string, resource_name string, {_BROKEN} string")
_ROWS_SHOWN, _MAX_SHOWN = 3, 100
_KNOWN = (
    "known are .csv (with a header line), .jsonl or .ndjson, .parquet, folders of Parquet, and .txt (a topic a line)"
)


def resource_list(path: str) -> str:
    """The path, if its name shows a known format; else it raises PipelineError."""
    if not path or _extension(path) not in _READERS:
        raise PipelineError(f"`{path}`: unknown format of a resource list; {_KNOWN}")
    if _last(path).startswith(("_", ".")) and _extension(path) != "parquet":
        raise PipelineError(
            f"`{path}`: Spark passes over files whose names begin with `_` or `.`; give it another name"
        )
    return path


def read_resources(spark: SparkSession, path: str) -> DataFrame:
    """The resources in this file or folder, each once (RESOURCES). The end of its name tells the format.

    Raises PipelineError, with the row or column, for anything that is not a list of resources.
    """
    extension = _extension(resource_list(path))
    try:
        found = _READERS[extension](spark, path)
        _check_rows(found, path)
    except (PySparkException, Py4JError) as fault:
        if isinstance(fault, PySparkException) and fault.getCondition() == "PATH_NOT_FOUND":
            raise PipelineError(f"`{path}`: there is no such file or folder") from None
        raise PipelineError(f"`{path}` can't be read as {extension}; {_KNOWN}") from fault
    return found.select(*_NAMES).distinct()


def seen_resources(decisions: DataFrame) -> DataFrame:
    return decisions.select(*_NAMES).distinct()


def _extension(path: str) -> str:
    last = _last(path).lower().removesuffix(".gz")
    return last.rpartition(".")[2] if "." in last else "parquet"


def _last(path: str) -> str:
    return path.rstrip("/").rpartition("/")[2]


def _csv(spark: SparkSession, path: str) -> DataFrame:
    _check_lines(spark, path, quoted=True)
    # A quote within quotes is doubled (RFC 4180); without `escape` Spark would take backslashes for it.
    options = {"header": "true", "multiLine": "true", "escape": '"', "encoding": "UTF-8", "inferSchema": "false"}
    header = spark.read.options(**options).csv(path)
    _check_columns(header, path)
    schema = StructType([StructField(name, StringType()) for name in (*header.columns, _BROKEN)])
    read = spark.read.schema(schema).options(
        **options, columnPruning="false", enforceSchema="true", columnNameOfCorruptRecord=_BROKEN
    )
    found = read.csv(path).select(*_NAMES, _BROKEN)
    # Where a header ends otherwise than the lines below it, each name would keep a part of its line's end.
    torn = sf.when(sf.col("resource_name").endswith("\r"), sf.concat_ws(",", *_NAMES))
    return found.withColumn(_BROKEN, sf.coalesce(_BROKEN, torn))


def _check_lines(spark: SparkSession, path: str, *, quoted: bool) -> None:
    """Raise PipelineError for what Spark would silently read as something else."""
    line = sf.col("value")
    shown = sf.substring(sf.make_valid_utf8(line), 1, _MAX_SHOWN)
    # One within a name is doubled.
    quotes = sf.length(line) - sf.length(sf.replace(line, sf.lit('"'), sf.lit("")))
    files = _lines(spark, path).select("value", "_metadata.file_path").groupBy("file_path")
    found = files.agg(
        sf.any_value(sf.when(~sf.is_valid_utf8(line), shown), ignoreNulls=True).alias("invalid"),
        ((sf.sum(quotes) % 2 == 1) & sf.lit(quoted)).alias("is_open"),
    )
    row = found.where(sf.col("invalid").isNotNull() | sf.col("is_open")).first()
    if row is None:
        return
    if row["invalid"] is not None:
        raise PipelineError(f"`{path}`: not UTF-8: `{row['invalid']}`; write the list in UTF-8")
    # Everything after the quote would be one long name.
    raise PipelineError(f"`{path}`: a quote is never closed; close it, and write one within a name as two, in quotes")


def _lines(spark: SparkSession, path: str) -> DataFrame:
    return spark.read.option("lineSep", "\n").text(path)


def _json(spark: SparkSession, path: str) -> DataFrame:
    # Spark would take numbers for texts, `?` for half of a surrogate pair, and the first of two objects on a line.
    return _lines(spark, path).select(sf.col("value").cast("binary")).mapInArrow(_json_rows, _JSON)


def _json_rows(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield batch_of([_json_row(raw) for raw in batch.column(0).to_pylist() if raw and not raw.isspace()], _JSON)


def _json_row(raw: bytes) -> tuple[str | None, str | None, str | None]:
    """Type and name, or the whole line if it is no object in which they are texts."""
    try:
        fields = json.loads(raw.decode(), object_pairs_hook=unique_keys)
        kind, name = (fields.get(each) for each in _NAMES)
        "".join(each for each in (kind, name) if each is not None).encode()
    except (AttributeError, RecursionError, TypeError, ValueError):
        return None, None, raw.decode(errors="replace")
    return kind, name, None


def _parquet(spark: SparkSession, path: str) -> DataFrame:
    found = spark.read.parquet(path)
    _check_columns(found, path)
    return found.select(*_NAMES).withColumn(_BROKEN, sf.lit(None).cast("string"))


def _text(spark: SparkSession, path: str) -> DataFrame:
    _check_lines(spark, path, quoted=False)
    lines = spark.read.text(path).where(sf.col("value") != "")
    topics = lines.select(
        sf.lit(ResourceType.TOPIC.name).alias("resource_type"), sf.col("value").alias("resource_name")
    )
    return topics.withColumn(_BROKEN, sf.lit(None).cast("string"))


_READERS: dict[str, Callable[[SparkSession, str], DataFrame]] = {
    "csv": _csv,
    "jsonl": _json,
    "ndjson": _json,
    "parquet": _parquet,
    "txt": _text,
}


def _check_columns(found: DataFrame, path: str) -> None:
    for name in _NAMES:
        field = next((each for each in found.schema.fields if each.name == name), None)
        if field is None:
            raise PipelineError(f"`{path}` has no column `{name}`; its columns are {', '.join(found.columns)}")
        if not isinstance(field.dataType, StringType):
            raise PipelineError(f"`{path}`: column `{name}` holds {field.dataType.simpleString()} instead of text")


def _check_rows(found: DataFrame, path: str) -> None:
    bad = found.withColumn("fault", _fault()).where(sf.col("fault").isNotNull())
    rows = bad.select("fault").limit(_ROWS_SHOWN).collect()
    if rows:
        raise PipelineError(f"`{path}`: " + "; ".join(row["fault"] for row in rows))


def _fault() -> Column:
    row = sf.concat(sf.lit("`"), sf.coalesce(_BROKEN, sf.concat_ws(",", *_NAMES)), sf.lit("`"))
    return (
        sf.when(sf.col(_BROKEN).isNotNull(), sf.concat(sf.lit("not a row of the two columns: "), row))
        .when(sf.col("resource_type").isNull(), sf.concat(sf.lit("no `resource_type` in "), row))
        .when(sf.coalesce("resource_name", sf.lit("")) == "", sf.concat(sf.lit("no `resource_name` in "), row))
        .when(
            ~sf.col("resource_type").isin(_TYPES),
            sf.concat(sf.lit("unknown resource type in "), row, sf.lit(f", known are {', '.join(_TYPES)}")),
        )
    )
