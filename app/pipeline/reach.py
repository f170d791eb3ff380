"""How far each principal reaches and how many reach each resource: exact, without making a single pair.

Patterns nest, so the chain of patterns over a resource is folded once a principal: a mask counts where it changes what
the wider patterns of the same principal give already, and such changes sum up along the chain.
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from app.core.codes import WILDCARD, WILDCARD_PRINCIPAL, AclOperation
from app.pipeline.effective import RESOURCE
from app.pipeline.patterns import PATTERN, patterns_of, wider_patterns

_OPERATIONS = [each for each in AclOperation if each > AclOperation.ALL]


def reach(nodes: DataFrame, masks: DataFrame) -> DataFrame:
    """Rows (principal, resource_type, operation, resources): on how many resources a principal's own ACLs allow it.

    From one host at least: a DENY counts if it is for host `*`. What `User:*` is given stands in its own rows, and
    what it is denied is not taken off the others.
    """
    covered = nodes.groupBy(*PATTERN).agg(sf.count("*").alias("covered"))
    changes = _changes(masks).join(covered, list(PATTERN))
    sums = [sf.sum(_change(each) * sf.col("covered")).alias(each.name) for each in _OPERATIONS]
    return _by_operation(changes.groupBy("principal", "resource_type").agg(*sums), "resources")


def crowd(nodes: DataFrame, masks: DataFrame) -> DataFrame:
    """Rows (resource_type, resource_name, operation, principals): how many named principals' own ACLs allow it.

    Hosts and `User:*` as in `reach`; `User:*` itself is not counted.
    """
    changes = _changes(masks.where(sf.col("principal") != WILDCARD_PRINCIPAL))
    sums = [sf.sum(_change(each)).alias(each.name) for each in _OPERATIONS]
    of_pattern = nodes.join(changes.groupBy(*PATTERN).agg(*sums), list(PATTERN))
    totals = [sf.sum(each.name).alias(each.name) for each in _OPERATIONS]
    return _by_operation(of_pattern.groupBy(*RESOURCE).agg(*totals), "principals")


def _changes(masks: DataFrame) -> DataFrame:
    """By pattern and principal: what holds there (`here`) and what holds by wider patterns alone (`above`)."""
    anywhere = sf.col("host") == WILDCARD
    sides = masks.groupBy(*PATTERN, "principal").agg(
        sf.bit_or("allow_mask").alias("allow"),
        sf.bit_or(sf.when(anywhere, sf.col("deny_mask")).otherwise(0)).alias("deny"),
    )
    asked = sides.select(*PATTERN, "principal")
    wider = wider_patterns(asked, patterns_of(masks))
    said = sides.withColumnsRenamed({"pattern_type": "covering_type", "pattern_name": "covering_name"})
    above = wider.join(said, ["resource_type", "covering_type", "covering_name", "principal"])
    above = above.groupBy(*PATTERN, "principal").agg(
        sf.bit_or("allow").alias("allow_above"), sf.bit_or("deny").alias("deny_above")
    )
    both = sides.join(above, [*PATTERN, "principal"], "left").fillna(0, ["allow_above", "deny_above"])
    allow = sf.col("allow").bitwiseOR(sf.col("allow_above"))
    deny = sf.col("deny").bitwiseOR(sf.col("deny_above"))
    here = allow.bitwiseAND(sf.bitwise_not(deny)).alias("here")
    above_mask = sf.col("allow_above").bitwiseAND(sf.bitwise_not("deny_above")).alias("above")
    return both.select(*PATTERN, "principal", here, above_mask)


def _change(operation: AclOperation) -> Column:
    bit = [sf.shiftright(sf.col(side), operation.value).bitwiseAND(sf.lit(1)) for side in ("here", "above")]
    return bit[0] - bit[1]


def _by_operation(sums: DataFrame, name: str) -> DataFrame:
    counted = [sf.struct(sf.lit(each.name).alias("operation"), sf.col(each.name).alias(name)) for each in _OPERATIONS]
    kept = [each for each in sums.columns if each not in AclOperation.__members__]
    rows = sums.select(*kept, sf.explode(sf.array(*counted)).alias("counted")).select(*kept, "counted.*")
    return rows.where(sf.col(name) > 0)
