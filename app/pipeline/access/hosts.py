"""Hosts of ACLs as columns of keys that nest like the addresses they mean (`core.access.host_keys`).

One key is a prefix of another if and only if its host covers the other's, so containment is a comparison of texts.
"""

from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.types import StringType, StructField, StructType

from app.core.access.host_keys import END, NOBODY, host_key
from app.core.kafka.codes import WILDCARD


def with_host_keys(frame: DataFrame) -> DataFrame:
    """The frame with `host_key` for its column `host`, as core reads it."""
    schema = StructType([*frame.schema.fields, StructField("host_key", StringType(), nullable=False)])
    everywhere = frame.where(sf.col("host") == WILDCARD).withColumn("host_key", sf.lit(""))
    return everywhere.unionByName(frame.where(sf.col("host") != WILDCARD).mapInArrow(_add_keys, schema))


def range_lengths(keyed: DataFrame) -> DataFrame:
    """By IP version (`host_version`) the lengths of the keys of all ranges that occur: one short row each."""
    key = sf.col("host_key")
    ranges = keyed.where((key != "") & (key != NOBODY) & ~key.endswith(END))
    version = sf.substring(key, 1, 1).alias("host_version")
    return ranges.groupBy(version).agg(sf.collect_set(sf.length(key)).alias("range_lengths"))


def with_covering_keys(frame: DataFrame, lengths: DataFrame) -> DataFrame:
    """Each row once for each key that may cover its `host_key` (`covering_key`): itself, `*`, and ranges."""
    key = sf.col("host_key")
    specific = frame.where(key != "").withColumn("host_version", sf.substring(key, 1, 1))
    specific = specific.join(sf.broadcast(lengths), "host_version", "left")
    own = sf.coalesce(sf.col("range_lengths"), sf.array().cast("array<int>"))
    wider = sf.transform(sf.filter(own, lambda n: n < sf.length(key)), lambda n: _leading(key, n))
    candidates = sf.concat(sf.array(sf.lit(""), key), wider)
    specific = specific.withColumn("covering_key", sf.explode(candidates)).drop("host_version", "range_lengths")
    return frame.where(key == "").withColumn("covering_key", sf.lit("")).unionByName(specific)


def _leading(text: Column, length: Column) -> Column:
    return sf.substring(text, sf.lit(1), length)


def _add_keys(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        hosts = batch.column(batch.schema.get_field_index("host")).to_pylist()
        keys = pa.array(map(host_key, hosts), pa.string())
        yield pa.RecordBatch.from_arrays([*batch.columns, keys], names=[*batch.schema.names, "host_key"])
