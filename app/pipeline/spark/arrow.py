"""Python rows as Arrow, the form in which our functions hand them back to Spark."""

from collections.abc import Sequence
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.types import StructType

_TYPES: Final = {
    "string": pa.string(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "double": pa.float64(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "array<string>": pa.list_(pa.string()),
    "array<array<string>>": pa.list_(pa.list_(pa.string())),
}


def batch_of(rows: Sequence[Sequence[object]], schema: StructType) -> pa.RecordBatch:
    columns = zip(*rows, strict=True) if rows else [()] * len(schema)
    kinds = (_TYPES[each.dataType.simpleString()] for each in schema)
    arrays = [pa.array(values, kind) for values, kind in zip(columns, kinds, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, names=schema.fieldNames())


def rows_in(batch: pa.RecordBatch, names: Sequence[str] | None = None) -> list[tuple[Any, ...]]:
    wanted = batch.schema.names if names is None else names
    return list(zip(*(batch.column(name).to_pylist() for name in wanted), strict=True))
