"""Which patterns cover a name, by equal texts alone: a prefix is looked up at the lengths that prefixes have."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from app.core.kafka.codes import WILDCARD, PatternType

PATTERN = ("resource_type", "pattern_type", "pattern_name")
"""The columns that name a pattern."""

LITERAL, PREFIXED = PatternType.LITERAL.name, PatternType.PREFIXED.name


def patterns_of(frame: DataFrame) -> DataFrame:
    """The distinct patterns of a frame that has the columns PATTERN."""
    return frame.select(*PATTERN).distinct()


def covering_resources(resources: DataFrame, patterns: DataFrame) -> DataFrame:
    """Each resource once for each of the patterns that covers it: `covering_type`, `covering_name`."""
    name = sf.col("resource_name")
    texts = sf.array_compact(
        sf.array(_pattern(LITERAL, name), sf.when(name != WILDCARD, _pattern(LITERAL, sf.lit(WILDCARD))))
    )
    return _covered(resources, patterns, sf.concat(texts, _prefixes(name, sf.length(name))))


def wider_patterns(asked: DataFrame, patterns: DataFrame) -> DataFrame:
    """Each pattern (columns PATTERN, others are kept) once for each of the others that covers all it covers.

    They come as `covering_type` and `covering_name`. Nothing covers the literal `*`; it covers everything.
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
        *asked.columns,
        sf.col("candidate.type").alias("covering_type"),
        sf.col("candidate.name").alias("covering_name"),
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
