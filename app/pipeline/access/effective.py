"""Who can do what: all ACLs over all resources, in factored form, and as pairs on demand.

How a question (principal p, client address c, operation o, resource r) is answered; `lookup` has both in Python:

From the factored form: take the masks of the patterns that `nodes` gives for r, of these the rows of p and of `User:*`
whose host matches c. DENIED if bit o is in any deny_mask; ALLOWED if it is in any allow_mask. No row in `nodes` at
all: allow.everyone.if.no.acl.found speaks. Else DENIED.

From the expanded table: take the rows of r and p, or of r and `User:*` if p has none, of these the one whose host is
the most specific that matches c (hosts nest or are disjoint, and `*` is always there). ALLOWED if bit o is in its
effective_mask. No row for r at all: allow.everyone.if.no.acl.found speaks. Else DENIED.

Super users are allowed everything whatever stands here: they are configuration, not ACLs.
"""

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from app.core.kafka.codes import WILDCARD, WILDCARD_PRINCIPAL, AclOperation, AclPermissionType
from app.core.kafka.operations import ALLOW_MASK, DENY_MASK
from app.pipeline.access.lookup import Mask, answers_for
from app.pipeline.access.patterns import PATTERN, covering_resources, patterns_of
from app.pipeline.history.schemas import MASKS, NODES

RESOURCE = ("resource_type", "resource_name")
"""The columns that name a resource."""

_ROWS_AT_ONCE = 65_536
_EXPANDED = pa.schema(
    [
        *((name, pa.string()) for name in (*RESOURCE, "principal", "host")),
        *((name, pa.int32()) for name in ("allow_mask", "deny_mask", "effective_mask")),
    ]
)


def masks_of(acls: DataFrame) -> DataFrame:
    """ACLs rolled up by pattern, principal and host (MASKS)."""
    key = (*PATTERN, "principal", "host")
    rolled = (
        acls.withColumnRenamed("resource_name", "pattern_name")
        .groupBy(*key)
        .agg(
            sf.bit_or(permission_mask(AclPermissionType.ALLOW)).alias("allow_mask"),
            sf.bit_or(permission_mask(AclPermissionType.DENY)).alias("deny_mask"),
        )
    )
    return rolled.select(*MASKS.fieldNames())


def permission_mask(permission: AclPermissionType) -> Column:
    """The requested operations that an ACL row allows (or denies), as core folds them; 0 on the other side."""
    masks = ALLOW_MASK if permission is AclPermissionType.ALLOW else DENY_MASK
    spelled = sf.create_map(*[sf.lit(each) for code in AclOperation for each in (code.name, masks[code])])
    of_operation = sf.coalesce(spelled[sf.col("operation")], sf.lit(0))
    return sf.when(sf.col("permission_type") == permission.name, of_operation).otherwise(0)


def nodes_of(resources: DataFrame, masks: DataFrame) -> DataFrame:
    """Which of the masks' patterns cover which resource (NODES)."""
    covered = covering_resources(resources.select(*RESOURCE).distinct(), patterns_of(masks))
    named = covered.withColumnsRenamed({"covering_type": "pattern_type", "covering_name": "pattern_name"})
    return named.select(*NODES.fieldNames())


def expanded(nodes: DataFrame, masks: DataFrame) -> DataFrame:
    """Rows (resource_type, resource_name, principal, host, allow_mask, deny_mask, effective_mask), `User:*` folded in.

    A resource on which any ACL is has a row of `User:*` and, for each other principal that is named on it, rows of
    that: one for host `*`, and one for every host of its own and of `User:*`. Each holds what holds for its host: all
    wider hosts and `User:*` are folded in. Hosts that match nobody are left out; of several texts that mean one range
    the first stands for all.
    """
    everyone, named = sf.col("principal") == WILDCARD_PRINCIPAL, sf.col("principal") != WILDCARD_PRINCIPAL
    told = nodes.join(masks.where(everyone), list(PATTERN)).groupBy(*RESOURCE).agg(*_sides("everyone_"))
    # What everyone may goes along with the nodes, which are few, so that the pairs are shuffled once.
    nodes = nodes.join(told, list(RESOURCE), "left")
    taken = [sf.any_value(name).alias(name) for name in told.columns if name not in RESOURCE]
    pairs = nodes.join(masks.where(named), list(PATTERN)).groupBy(*RESOURCE, "principal").agg(*_sides(""), *taken)
    alone = nodes.groupBy(*RESOURCE).agg(*taken).withColumn("principal", sf.lit(WILDCARD_PRINCIPAL))
    pairs = pairs.unionByName(alone, allowMissingColumns=True)
    anywhere = (sf.coalesce(sf.size("hosts"), sf.lit(0)) == 0) & (
        sf.coalesce(sf.size("everyone_hosts"), sf.lit(0)) == 0
    )
    plain = pairs.where(anywhere).select(
        *RESOURCE, "principal", sf.lit(WILDCARD).alias("host"), _both("allow_mask"), _both("deny_mask")
    )
    effective = sf.col("allow_mask").bitwiseAND(sf.bitwise_not("deny_mask"))
    plain = plain.withColumn("effective_mask", effective)
    return plain.unionByName(pairs.where(~anywhere).mapInArrow(_fold_hosts, plain.schema))


def _sides(prefix: str) -> tuple[Column, Column, Column]:
    """Masks for every host as two numbers, those for others in a list."""
    anywhere = sf.col("host") == WILDCARD
    hosted = sf.when(~anywhere, sf.struct("host", "allow_mask", "deny_mask"))
    return (
        sf.bit_or(sf.when(anywhere, sf.col("allow_mask"))).alias(f"{prefix}allow_mask"),
        sf.bit_or(sf.when(anywhere, sf.col("deny_mask"))).alias(f"{prefix}deny_mask"),
        sf.collect_list(hosted).alias(f"{prefix}hosts"),
    )


def _both(mask: str) -> Column:
    own, everyone = sf.coalesce(sf.col(mask), sf.lit(0)), sf.coalesce(sf.col(f"everyone_{mask}"), sf.lit(0))
    return own.bitwiseOR(everyone).alias(mask)


def _fold_hosts(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """For pairs that specific hosts speak of: a row for each host, in plain Python, batch after bounded batch."""
    rows: list[tuple[str | int, ...]] = []
    for batch in batches:
        for pair in batch.to_pylist():
            place = (pair["resource_type"], pair["resource_name"])
            rows += [(*place, *answer) for answer in answers_for(pair["principal"], _masks_in(pair))]
            if len(rows) >= _ROWS_AT_ONCE:
                yield _batch_of(rows)
                rows = []
    yield _batch_of(rows)


def _masks_in(pair: dict[str, Any]) -> Iterator[Mask]:
    for prefix in ("", "everyone_"):
        yield Mask(pair["principal"], WILDCARD, pair[f"{prefix}allow_mask"] or 0, pair[f"{prefix}deny_mask"] or 0)
        for each in pair[f"{prefix}hosts"] or ():
            yield Mask(pair["principal"], each["host"], each["allow_mask"], each["deny_mask"])


def _batch_of(rows: list[tuple[str | int, ...]]) -> pa.RecordBatch:
    columns = zip(*rows, strict=True) if rows else [()] * len(_EXPANDED)
    return pa.RecordBatch.from_arrays(
        [pa.array(c, each.type) for c, each in zip(columns, _EXPANDED, strict=True)], schema=_EXPANDED
    )
