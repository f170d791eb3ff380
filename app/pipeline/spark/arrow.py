"""Python rows as Arrow, the form in which our functions hand them back to Spark."""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType


def batch_of(rows: Sequence[Sequence[object]], schema: StructType) -> pa.RecordBatch:
    arrow = to_arrow_schema(schema, timezone="UTC")
    columns = zip(*rows, strict=True) if rows else [()] * len(schema)
    arrays = [pa.array(values, kind) for values, kind in zip(columns, arrow.types, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=arrow)


def rows_in(batch: pa.RecordBatch, names: Sequence[str] | None = None) -> list[tuple[Any, ...]]:
    wanted = batch.schema.names if names is None else names
    return list(zip(*(batch.column(name).to_pylist() for name in wanted), strict=True))
