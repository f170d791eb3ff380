"""ACLs that the log does not need, that allow far more than is used, or that are on names that do not exist."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from app.core.kafka.bindings import AclBinding
from app.core.kafka.codes import (
    WILDCARD,
    WILDCARD_PRINCIPAL,
    AclOperation,
    AclPermissionType,
    PatternType,
    ResourceType,
)
from app.core.kafka.operations import ALLOW_MASK
from app.core.kafka.validation import validate_new_acl
from app.core.verdicts import AuthorizationResult, Rule
from app.pipeline.access.effective import masks_of, nodes_of
from app.pipeline.access.patterns import LITERAL, PATTERN, PREFIXED, RESOURCE, by_pattern, covering, patterns_of
from app.pipeline.history.schemas import ACLS, BINDING_FIELDS, FOUND
from app.pipeline.hygiene.findings import DETACHED, OVER_BROAD, UNUSED, found_in
from app.pipeline.spark.arrow import batch_of
from app.pipeline.spark.checkpoint import checkpointed

_ALLOW = AclPermissionType.ALLOW.name

_LONGEST_PREFIX = 3
"""Characters of a prefix that is suspected of being too short."""
_LEAST_COVERED = 10
"""How many resources an ACL must cover to be called broad."""
_USED_SHARE = 0.2
"""Below this share of its resources an ACL is called too broad."""
_MAX_NARROWER = 20
"""The most narrower ACLs that are listed to replace a broad one."""
_LISTED = _MAX_NARROWER * len(AclOperation)
"""The most uses that are listed for one ACL; of the operations on one resource, some imply others."""


def detached(acls: DataFrame, resources: DataFrame, known_by: str) -> DataFrame:
    """ALLOW ACLs whose pattern covers none of the known resources (FOUND); `known_by` says where from.

    The literal `*` and the cluster always exist. ACLs on a resource type without any known resource are left alone:
    a list of topics says nothing about groups. So are DENYs: they may be meant for a future name.
    """
    allowing = acls.where(sf.col("permission_type") == _ALLOW)
    living = patterns_of(nodes_of(resources, masks_of(allowing))).withColumnRenamed("pattern_name", "resource_name")
    judged = allowing.where(sf.col("resource_type") != ResourceType.CLUSTER.name)
    judged = judged.where((sf.col("pattern_type") != LITERAL) | (sf.col("resource_name") != WILDCARD))
    judged = judged.join(resources.select("resource_type").distinct(), "resource_type", "left_semi")
    found = judged.join(living, [*RESOURCE, "pattern_type"], "left_anti")
    kind, name = sf.lower("resource_type"), sf.col("resource_name")
    literal = sf.format_string("no %s `%s` is known", kind, name)
    prefixed = sf.format_string("no known %s begins with `%s`", kind, name)
    unknown = sf.when(sf.col("pattern_type") == LITERAL, literal).otherwise(prefixed)
    why = sf.concat(unknown, sf.lit(f" in {known_by}"))
    return found_in(found, sf.lit(DETACHED), why=why, covered=sf.lit(0))


def unused(
    acls: DataFrame,
    replayed: DataFrame,
    logged: DataFrame,
    *,
    log: str,
    allow_everyone: bool,
    judged: DataFrame,
) -> DataFrame:
    """ALLOW ACLs (FOUND) that can go, all together, without a decision of the log changing.

    An ACL is needed if it decided anything, as `logged` (acl_id) or by `replayed` (`access.replay`). Where resources
    without ACLs are open to all, one ACL is needed on each resource that was denied because no ACL allows. Only the
    ACLs `judged` (id) can be unused: the log covers enough of their time. `log` describes what was looked at.
    """
    allowing = acls.filter(sf.col("permission_type") == _ALLOW)
    old = allowing.join(judged, "id", "left_semi")
    deciding = replayed.select("acl_id").unionByName(logged.select("acl_id"))
    deciding = deciding.filter(sf.col("acl_id").isNotNull()).distinct()
    closing = _closing(acls, replayed, deciding) if allow_everyone else deciding.limit(0)
    needed = deciding.unionByName(closing).select(sf.col("acl_id").alias("id"))
    why = sf.lit(f"decided nothing in {log}")
    return found_in(old.join(needed, "id", "left_anti"), sf.lit(UNUSED), why=why, used=sf.lit(0))


def over_broad(acls: DataFrame, replayed: DataFrame, nodes: DataFrame, *, allow_everyone: bool) -> DataFrame:
    """ALLOW ACLs on `*`, short prefixes or for `User:*` of whose many resources (`covered`) few are `used` by the log.

    `nodes` (NODES) tell which resources there are; those of `broad_acls` are enough. With `allow_everyone`, ACLs that
    alone keep closed what somebody was denied are left out.
    """
    broad = broad_acls(acls)
    counted = nodes.groupBy(*PATTERN).agg(sf.count_distinct("resource_name").alias("covered"))
    covered = counted.withColumnRenamed("pattern_name", "resource_name")
    counts = _uses(broad, replayed).groupBy("id").agg(sf.count_distinct("use.resource_name").alias("used"))
    suspects = broad.join(covered, [*RESOURCE, "pattern_type"]).join(counts, "id")
    suspects = suspects.filter(
        (sf.col("covered") >= _LEAST_COVERED) & (sf.col("used") < sf.lit(_USED_SHARE) * sf.col("covered"))
    )
    # There are few of them, and they are read several times.
    suspects = checkpointed(suspects)
    if allow_everyone:
        suspects = suspects.join(_opening(acls, replayed, suspects), "id", "left_anti")
    return suspects.select(*ACLS.fieldNames(), "covered", "used")


def narrowed(broad: DataFrame, replayed: DataFrame, log: str) -> DataFrame:
    """The findings (FOUND) about ACLs of `over_broad`. The narrower ones allow what they decided in `replayed`.

    If that takes too many ACLs, there are none. No decision of the log changes if they replace the broad ones.
    """
    uses = _uses(broad, replayed)
    counts = uses.groupBy("id").agg(sf.count(sf.lit(1)).alias("uses"))
    few = counts.filter(sf.col("uses") <= _LISTED).select("id")
    listed = uses.join(few, "id").groupBy("id").agg(sf.sort_array(sf.collect_list("use")).alias("listed"))
    rows = broad.join(counts, "id", "left").join(listed, "id", "left")
    rows = rows.select(*ACLS.fieldNames(), "covered", "used", "uses", "listed", sf.lit(log).alias("log"))
    return rows.mapInArrow(_narrowed, FOUND)


def _uses(acls: DataFrame, replayed: DataFrame) -> DataFrame:
    """What the log was allowed by each of these ACLs (`id`): `use`, a struct of principal, name and operation."""
    allowed = replayed.filter(sf.col("result") == AuthorizationResult.ALLOWED.value)
    use = sf.struct("principal", "resource_name", "operation").alias("use")
    return allowed.select(sf.col("acl_id").alias("id"), use).join(acls.select("id"), "id", "left_semi").distinct()


def broad_acls(acls: DataFrame) -> DataFrame:
    name, pattern_type = sf.col("resource_name"), sf.col("pattern_type")
    everything = (pattern_type == LITERAL) & (name == WILDCARD)
    short = (pattern_type == PREFIXED) & (sf.length(name) <= _LONGEST_PREFIX)
    wide = everything | short | (sf.col("principal") == WILDCARD_PRINCIPAL)
    return acls.filter((sf.col("permission_type") == _ALLOW) & wide)


def closed_without_acl(acls: DataFrame, decisions: DataFrame) -> DataFrame:
    """Resources that have none of these ACLs, and that somebody was denied because no ACL allows.

    Where resources without ACLs are open to all there are none, if `acls` are all that existed at any of these
    decisions: what was closed by an ACL that is gone may be open now.
    """
    denied = _denied_by_default(decisions)
    covered = covering(denied, patterns_of(by_pattern(acls))).select(*RESOURCE).distinct()
    return denied.join(covered, list(RESOURCE), "left_anti")


def _closing(acls: DataFrame, replayed: DataFrame, deciding: DataFrame) -> DataFrame:
    """One ACL (`acl_id`) for each resource of a DefaultDeny that none of the deciding ACLs is on."""
    patterns = by_pattern(
        acls.join(deciding.select(sf.col("acl_id").alias("id"), sf.lit(1).alias("decides")), "id", "left")
    )
    patterns = patterns.groupBy(*PATTERN).agg(sf.min("id").alias("acl_id"), sf.max("decides").alias("decides"))
    on_resource = covering(_denied_by_default(replayed), patterns).groupBy(*RESOURCE)
    kept = on_resource.agg(sf.min("acl_id").alias("acl_id"), sf.max("decides").alias("decides"))
    return kept.filter(sf.col("decides").isNull()).select("acl_id").distinct()


def _opening(acls: DataFrame, replayed: DataFrame, suspects: DataFrame) -> DataFrame:
    """The suspects (`id`) that keep a resource of a DefaultDeny from being without any ACL."""
    suspected = suspects.select("id", sf.lit(1).alias("suspected"))
    marked = by_pattern(acls.join(suspected, "id", "left"))
    patterns = marked.groupBy(*PATTERN).agg(sf.max(sf.col("suspected").isNull()).alias("stays"))
    on_resource = covering(_denied_by_default(replayed), patterns)
    bare = on_resource.groupBy(*RESOURCE).agg(sf.max("stays").alias("stays")).filter(~sf.col("stays"))
    held = on_resource.drop("stays").join(bare.drop("stays"), list(RESOURCE)).select(*PATTERN).distinct()
    return by_pattern(suspects).join(held, list(PATTERN), "left_semi").select("id")


def _denied_by_default(replayed: DataFrame) -> DataFrame:
    return replayed.filter(sf.col("rule") == Rule.DEFAULT_DENY.value).select(*RESOURCE).distinct()


def _narrowed(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield batch_of([_finding(row) for row in batch.to_pylist()], FOUND)


def _finding(row: Mapping[str, Any]) -> tuple[Any, ...]:
    acl = AclBinding.from_words(row[name] for name in BINDING_FIELDS)
    why = f"covers {row['covered']} known resources, of which {row['used']} are used in {row['log']}"
    # Without any use, ACLs that are named apart allow all of it.
    uses = row["uses"] or 0
    narrower = None if uses and row["listed"] is None else _narrower_acls(acl, row["listed"] or ())
    number = uses if narrower is None else len(narrower)
    if number > _MAX_NARROWER or narrower is None:
        why, narrower = f"{why}; it would take {number} narrower ACLs to replace it, too many to list", None
    elif not all(map(_is_narrow, narrower)):
        why, narrower = f"{why}; some of that use can't be allowed by a narrower ACL", None
    fields = None if narrower is None else [list(each.words) for each in narrower]
    return (OVER_BROAD, row["id"], *acl.words, why, None, row["covered"], row["used"], fields)


def _is_narrow(acl: AclBinding) -> bool:
    """Whether it can be created, and applies to one resource: a question about `*` is about that name."""
    return acl.resource_name != WILDCARD and validate_new_acl(acl) is None


def _narrower_acls(acl: AclBinding, uses: Sequence[Mapping[str, str]]) -> list[AclBinding]:
    """The ACLs on single resources, for single principals, that allow these uses of a broad ACL, and nothing more."""
    asked: dict[tuple[str, str], list[AclOperation]] = {}
    for use in uses:
        asked.setdefault((use["principal"], use["resource_name"]), []).append(AclOperation[use["operation"]])
    return [
        acl._replace(resource_name=name, pattern_type=PatternType.LITERAL, principal=principal, operation=operation)
        for (principal, name), operations in asked.items()
        for operation in operations
        if not any(other is not operation and ALLOW_MASK[other] >> operation & 1 for other in operations)
    ]
