"""Which patterns cover a name, and which hosts cover a host: found by joins on equal texts.

A prefix is looked up at the lengths that prefixes have. Hosts become keys that nest like the addresses they mean
(`core.access.host_keys`): one key is a prefix of another if and only if its host covers the other's.
"""

from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.types import StringType, StructType

from app.core.access.host_keys import END, NOBODY, host_key
from app.core.kafka.codes import WILDCARD, PatternType

RESOURCE = ("resource_type", "resource_name")
PATTERN = ("resource_type", "pattern_type", "pattern_name")
LITERAL, PREFIXED = PatternType.LITERAL.name, PatternType.PREFIXED.name


def patterns_of(frame: DataFrame) -> DataFrame:
    return frame.select(*PATTERN).distinct()


def by_pattern(acls: DataFrame) -> DataFrame:
    """ACLs with the column names of PATTERN."""
    return acls.withColumnRenamed("resource_name", "pattern_name")


def covering(resources: DataFrame, by_patterns: DataFrame) -> DataFrame:
    """Each resource once for each of the rows `by_patterns` whose pattern covers it."""
    return covering_patterns(resources, patterns_of(by_patterns)).join(by_patterns, list(PATTERN))


def covering_patterns(resources: DataFrame, patterns: DataFrame) -> DataFrame:
    """Each resource once for each of the patterns that covers it: `pattern_type`, `pattern_name`."""
    name = sf.col("resource_name")
    texts = sf.array_compact(
        sf.array(_pattern(LITERAL, name), sf.when(name != WILDCARD, _pattern(LITERAL, sf.lit(WILDCARD))))
    )
    found = _covered(resources, patterns, sf.concat(texts, _prefixes(name, sf.length(name))))
    return found.withColumnsRenamed({"covering_type": "pattern_type", "covering_name": "pattern_name"})


def wider_patterns(asked: DataFrame, patterns: DataFrame) -> DataFrame:
    """Each pattern (columns PATTERN, others are kept) once for each of the others that covers all it covers.

    They are `covering_type` and `covering_name`. Nothing covers the literal `*`; it covers everything.
    """
    name, literal = sf.col("pattern_name"), sf.col("pattern_type") == LITERAL
    widest = literal & (name == WILDCARD)
    star = sf.array_compact(sf.array(sf.when(~widest, _pattern(LITERAL, sf.lit(WILDCARD)))))
    longest = sf.when(widest, 0).when(literal, sf.length(name)).otherwise(sf.length(name) - 1)
    return _covered(asked, patterns, sf.concat(star, _prefixes(name, longest)))


def _covered(asked: DataFrame, patterns: DataFrame, candidates: Column) -> DataFrame:
    # INVARIANT: Spark's lengths and substrings count code points, as Python's do, so no character is ever cut in two.
    prefixed = patterns.where(sf.col("pattern_type") == PREFIXED)
    lengths = prefixed.groupBy("resource_type").agg(sf.collect_set(sf.length("pattern_name")).alias("prefix_lengths"))
    found = asked.join(sf.broadcast(lengths), "resource_type", "left").withColumn("candidate", sf.explode(candidates))
    found = found.select(
        *asked.columns, sf.col("candidate.type").alias("covering_type"), sf.col("candidate.name").alias("covering_name")
    )
    known = patterns.select(
        "resource_type", sf.col("pattern_type").alias("covering_type"), sf.col("pattern_name").alias("covering_name")
    )
    return found.join(known, ["resource_type", "covering_type", "covering_name"], "left_semi")


def _prefixes(name: Column, longest: Column) -> Column:
    lengths = sf.coalesce(sf.col("prefix_lengths"), sf.array().cast("array<int>"))
    fitting = sf.filter(lengths, lambda n: n <= longest)
    return sf.transform(fitting, lambda n: _pattern(PREFIXED, sf.substring(name, sf.lit(1), n)))


def _pattern(pattern_type: str, name: Column) -> Column:
    return sf.struct(sf.lit(pattern_type).alias("type"), name.alias("name"))


def with_host_keys(frame: DataFrame) -> DataFrame:
    schema = StructType([*frame.schema.fields]).add("host_key", StringType(), nullable=False)
    everywhere = frame.where(sf.col("host") == WILDCARD).withColumn("host_key", sf.lit(""))
    return everywhere.unionByName(frame.where(sf.col("host") != WILDCARD).mapInArrow(_add_keys, schema))


def _add_keys(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        keys = pa.array(map(host_key, batch.column("host").to_pylist()), pa.string())
        yield pa.RecordBatch.from_arrays([*batch.columns, keys], names=[*batch.schema.names, "host_key"])


def range_lengths(keyed: DataFrame) -> DataFrame:
    """By IP version (`host_version`) the lengths of the keys of all ranges that occur."""
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
    wider = sf.transform(sf.filter(own, lambda n: n < sf.length(key)), lambda n: sf.substring(key, sf.lit(1), n))
    candidates = sf.concat(sf.array(sf.lit(""), key), wider)
    specific = specific.withColumn("covering_key", sf.explode(candidates)).drop("host_version", "range_lengths")
    return frame.where(key == "").withColumn("covering_key", sf.lit("")).unionByName(specific)
