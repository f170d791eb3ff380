"""Who can do what: all ACLs over all resources, in factored form, and as pairs on demand.

How a question (principal p, client address c, operation o, resource r) is answered:

From the factored form: take the masks of the patterns that `nodes` gives for r, of these the rows of p and of `User:*`
whose host matches c. DENIED if bit o is in any deny_mask; ALLOWED if it is in any allow_mask. Without any row in
`nodes` allow.everyone.if.no.acl.found decides. Else DENIED.

From the expanded table: take the rows of r and p, or of r and `User:*` if p has none, of these the one with the
most specific host that matches c (hosts nest or are disjoint, and there is always one for `*`). ALLOWED if bit o is in
its effective_mask. Without any row for r allow.everyone.if.no.acl.found decides. Else DENIED.

Super users are allowed everything whatever the tables say: they are configuration, not ACLs.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf

from app.core.access.host_keys import NOBODY, host_key
from app.core.kafka.codes import WILDCARD, WILDCARD_PRINCIPAL, AclOperation, AclPermissionType
from app.core.kafka.operations import ALLOW_MASK, DENY_MASK
from app.pipeline.access.patterns import PATTERN, RESOURCE, by_pattern, covering_patterns, patterns_of
from app.pipeline.history.schemas import MASKS, NODES, RESOURCES, columns
from app.pipeline.history.snapshot import SavedResults, Snapshot
from app.pipeline.spark.arrow import batch_of
from app.pipeline.spark.errors import NotYetError
from app.pipeline.spark.storage import Home

_JOB = "effective"
_ROWS_AT_ONCE = 65_536
_EXPANDED = columns(
    """resource_type string, resource_name string, principal string, host string, allow_mask int, deny_mask int,
    effective_mask int"""
)


class Mask(NamedTuple):
    """What one pattern gives, or all that cover a resource."""

    principal: str
    host: str
    allow_mask: int
    deny_mask: int


class Answer(NamedTuple):
    """On one resource, with everything that covers it folded in."""

    principal: str
    host: str
    allow_mask: int
    deny_mask: int
    effective_mask: int


def masks_of(acls: DataFrame) -> DataFrame:
    by_host = by_pattern(acls).groupBy(*PATTERN, "principal", "host")
    rolled = by_host.agg(
        sf.bit_or(permission_mask(AclPermissionType.ALLOW)).alias("allow_mask"),
        sf.bit_or(permission_mask(AclPermissionType.DENY)).alias("deny_mask"),
    )
    return rolled.select(*MASKS.fieldNames())


def permission_mask(permission: AclPermissionType) -> Column:
    """The requested operations that an ACL row allows (or denies), as core folds them; 0 on the other side."""
    masks = ALLOW_MASK if permission is AclPermissionType.ALLOW else DENY_MASK
    spelled = sf.create_map(*[sf.lit(each) for code in AclOperation for each in (code.name, masks[code])])
    of_operation = sf.coalesce(spelled[sf.col("operation")], sf.lit(0))
    return sf.when(sf.col("permission_type") == permission.name, of_operation).otherwise(0)


def nodes_of(resources: DataFrame, masks: DataFrame) -> DataFrame:
    covered = covering_patterns(resources.select(*RESOURCE).distinct(), patterns_of(masks))
    return covered.select(*NODES.fieldNames())


def expanded(nodes: DataFrame, masks: DataFrame) -> DataFrame:
    """Rows (resource_type, resource_name, principal, host, allow_mask, deny_mask, effective_mask), `User:*` folded in.

    A resource that has any ACL has rows of `User:*` and of each other principal that is named on it: one for host `*`,
    and one for every host of its own and of `User:*`. Each holds what holds for its host: all wider hosts and `User:*`
    are folded in. Hosts that match nobody are left out; of several texts for one range only the first is there.
    """
    everyone, named = sf.col("principal") == WILDCARD_PRINCIPAL, sf.col("principal") != WILDCARD_PRINCIPAL
    shared = nodes.join(masks.where(everyone), list(PATTERN)).groupBy(*RESOURCE).agg(*_sides("everyone_"))
    # The masks of everyone are joined to the nodes, which are few, so that the pairs are shuffled once.
    nodes = nodes.join(shared, list(RESOURCE), "left")
    carried = [sf.any_value(name).alias(name) for name in shared.columns if name not in RESOURCE]
    pairs = nodes.join(masks.where(named), list(PATTERN)).groupBy(*RESOURCE, "principal").agg(*_sides(""), *carried)
    alone = nodes.groupBy(*RESOURCE).agg(*carried).withColumn("principal", sf.lit(WILDCARD_PRINCIPAL))
    pairs = pairs.unionByName(alone, allowMissingColumns=True)
    without_hosts = (_size("hosts") == 0) & (_size("everyone_hosts") == 0)
    plain = pairs.where(without_hosts).select(
        *RESOURCE, "principal", sf.lit(WILDCARD).alias("host"), _both("allow_mask"), _both("deny_mask")
    )
    effective = sf.col("allow_mask").bitwiseAND(sf.bitwise_not("deny_mask"))
    plain = plain.withColumn("effective_mask", effective)
    return plain.unionByName(pairs.where(~without_hosts).mapInArrow(_fold_hosts, plain.schema))


def _sides(prefix: str) -> tuple[Column, Column, Column]:
    anywhere = sf.col("host") == WILDCARD
    hosted = sf.when(~anywhere, sf.struct("host", "allow_mask", "deny_mask"))
    return (
        sf.bit_or(sf.when(anywhere, sf.col("allow_mask"))).alias(f"{prefix}allow_mask"),
        sf.bit_or(sf.when(anywhere, sf.col("deny_mask"))).alias(f"{prefix}deny_mask"),
        sf.collect_list(hosted).alias(f"{prefix}hosts"),
    )


def _size(hosts: str) -> Column:
    return sf.coalesce(sf.size(hosts), sf.lit(0))


def _both(mask: str) -> Column:
    own, everyone = sf.coalesce(sf.col(mask), sf.lit(0)), sf.coalesce(sf.col(f"everyone_{mask}"), sf.lit(0))
    return own.bitwiseOR(everyone).alias(mask)


def _fold_hosts(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    rows: list[tuple[str | int, ...]] = []
    for batch in batches:
        for pair in batch.to_pylist():
            place = (pair["resource_type"], pair["resource_name"])
            rows += [(*place, *answer) for answer in answers_for(pair["principal"], _masks_in(pair))]
            if len(rows) >= _ROWS_AT_ONCE:
                yield batch_of(rows, _EXPANDED)
                rows = []
    yield batch_of(rows, _EXPANDED)


def answers_for(principal: str, masks: Iterable[Mask]) -> Iterator[Answer]:
    """The rows of one principal and resource, from all masks that concern both: one for `*`, one for each host."""
    hosts: dict[str, tuple[str, int, int]] = {"": (WILDCARD, 0, 0)}
    for mask in masks:
        key = host_key(mask.host)
        if key != NOBODY:
            host, allow, deny = hosts.get(key, (mask.host, 0, 0))
            hosts[key] = min(host, mask.host), allow | mask.allow_mask, deny | mask.deny_mask
    # Sorted by key, a host comes after all hosts that cover it. The stack holds exactly those, because hosts nest.
    wider: list[tuple[str, int, int]] = []
    for key, (host, own_allow, own_deny) in sorted(hosts.items()):
        while wider and not key.startswith(wider[-1][0]):
            wider.pop()
        _, above_allow, above_deny = wider[-1] if wider else ("", 0, 0)
        allow, deny = own_allow | above_allow, own_deny | above_deny
        wider.append((key, allow, deny))
        yield Answer(principal, host, allow, deny, allow & ~deny)


def _masks_in(pair: dict[str, Any]) -> Iterator[Mask]:
    for prefix in ("", "everyone_"):
        yield Mask(pair["principal"], WILDCARD, pair[f"{prefix}allow_mask"] or 0, pair[f"{prefix}deny_mask"] or 0)
        for each in pair[f"{prefix}hosts"] or ():
            yield Mask(pair["principal"], each["host"], each["allow_mask"], each["deny_mask"])


@dataclass(frozen=True)
class EffectiveTables:
    """The tables at one offset. `manifest` has their counts."""

    masks: DataFrame
    nodes: DataFrame
    resources: DataFrame
    manifest: dict[str, Any]


def load_effective(spark: SparkSession, home: Home, offset: int | None = None) -> EffectiveTables | None:
    saved = SavedResults(spark, home, _JOB)
    manifest = saved.find(offset)
    if manifest is None:
        return None
    masks, nodes, resources = (
        spark.read.schema(schema).parquet(saved.room(manifest["offset"], name))
        for name, schema in (("masks", MASKS), ("nodes", NODES), ("resources", RESOURCES))
    )
    return EffectiveTables(masks, nodes, resources, manifest)


def not_effective_at(offset: int) -> NotYetError:
    return NotYetError(
        f"effective has not been run at offset {offset}; run `klamm pipeline effective`, then this again"
    )


def save_effective(
    spark: SparkSession, home: Home, snapshot: Snapshot, resources: DataFrame, *, pairs: bool
) -> dict[str, Any]:
    saved = SavedResults(spark, home, _JOB)
    manifest = saved.begin(snapshot, {})
    counts: dict[str, int] = {}

    def write(name: str, frame: DataFrame) -> DataFrame:
        path = saved.room(snapshot.offset, name)
        frame.write.mode("overwrite").parquet(path)
        written = spark.read.schema(frame.schema).parquet(path)
        counts[name] = written.count()
        return written

    resources = write("resources", resources)
    masks = write("masks", masks_of(snapshot.in_effect))
    nodes = write("nodes", nodes_of(resources, masks))
    if pairs:
        write("expanded", expanded(nodes, masks))
    return saved.complete(manifest, counts)
