"""ACLs that others make superfluous. All of them can go, in any order, without a decision changing.

REDUNDANT: one other ACL of the same permission applies to every request that this one applies to. VOID: one DENY
forbids everything that this ALLOW allows. No ACL is either by one that ends before it. Of ACLs that mean the same (two
texts of one CIDR range) the one that ends last stays, of those the one with the lowest id. The widest covering ACL is
named, which is never itself superfluous in the same way. An ACL that is both is called VOID.

Only `authorizeByResourceType` knows no implied operations (KIP-504): it no longer sees DESCRIBE if only READ stays.
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from app.core.kafka.codes import WILDCARD, WILDCARD_PRINCIPAL, AclOperation, AclPermissionType
from app.pipeline.access.effective import permission_mask
from app.pipeline.access.patterns import (
    PATTERN,
    PREFIXED,
    by_pattern,
    patterns_of,
    range_lengths,
    wider_patterns,
    with_covering_keys,
    with_host_keys,
)
from app.pipeline.history.schemas import LONG_MAX, rfc3339
from app.pipeline.hygiene.findings import MARKED, REDUNDANT, VOID, found_in

_CELL = (*PATTERN, "principal", "host_key")
_ALLOW, _DENY = AclPermissionType.ALLOW.name, AclPermissionType.DENY.name
_WIDEST_NAME = 1 << 20
_LONGEST_KEY = 1 << 20
_NEVER = LONG_MAX


def with_reading(acls: DataFrame) -> DataFrame:
    mask = permission_mask(AclPermissionType.ALLOW).bitwiseOR(permission_mask(AclPermissionType.DENY))
    ends = sf.coalesce("expires_s", sf.lit(_NEVER))
    return with_host_keys(by_pattern(acls).withColumns({"mask": mask, "ends_s": ends}))


def shadowed(read: DataFrame, asked: DataFrame | None = None) -> DataFrame:
    """REDUNDANT and VOID ACLs (FOUND) among all of `read`, or among those `asked`, which are a part of it.

    Both come from `with_reading`, are read several times and should be persisted.
    """
    asked = read if asked is None else asked
    own = (sf.col("mask"), sf.col("permission_type"), sf.col("id"), sf.col("ends_s"))

    def widest(permission: Column) -> Column:
        # A tie in all but the id is two texts of one range: of those `covers` holds the one that ends last, and of
        # those the one with the lowest id.
        return sf.array_max(
            sf.filter(
                "covers",
                lambda by: (
                    (by["permission_type"] == permission)
                    & (by["mask"].bitwiseAND(own[0]) == own[0])
                    & (by["id"] != own[2])
                    & (by["ends_s"] >= own[3])
                ),
            )
        )

    forbidden = sf.when(own[1] == _ALLOW, widest(sf.lit(_DENY)))
    found = asked.join(_covers(read, asked), list(_CELL)).withColumns({"void_by": forbidden, "same_by": widest(own[1])})
    found = found.withColumn("by", sf.coalesce("void_by", "same_by")).where(sf.col("by").isNotNull())
    kind = sf.when(sf.col("void_by").isNotNull(), VOID).otherwise(REDUNDANT)
    found = found.withColumn("kind", kind).withColumnRenamed("pattern_name", "resource_name")
    return found_in(found, sf.col("kind"), why=_why(), by_acl_id=sf.col("by.id"))


def _covers(read: DataFrame, asked: DataFrame) -> DataFrame:
    """By asked cell: for each permission, mask and end the widest ACL whose pattern, principal and host cover it."""
    entries = read.groupBy(*_CELL, "permission_type", "mask").agg(
        sf.min(sf.struct((-sf.col("ends_s")).alias("sooner"), "id", "operation", "host")).alias("acl")
    )
    entries = entries.withColumn("ends_s", -sf.col("acl.sooner"))
    renamed = ("covering_type", "covering_name", "speaker", "covering_key")
    on = ["resource_type", *renamed]
    covering = entries.withColumn("entry", _entry()).withColumnsRenamed(dict(zip(_CELL[1:], renamed, strict=True)))
    met = _candidates(read, asked).join(covering.select(*on, "permission_type", "mask", "ends_s", "entry"), on)
    widest = met.groupBy(*_CELL, "permission_type", "mask", "ends_s").agg(sf.max("entry").alias("entry"))
    return widest.groupBy(*_CELL).agg(sf.collect_list("entry").alias("covers"))


def _candidates(read: DataFrame, asked: DataFrame) -> DataFrame:
    patterns = patterns_of(asked)
    itself = patterns.withColumns({"covering_type": sf.col("pattern_type"), "covering_name": sf.col("pattern_name")})
    wider = wider_patterns(patterns, patterns_of(read)).unionByName(itself)
    placed = with_covering_keys(asked.select(*_CELL).distinct().join(wider, list(PATTERN)), range_lengths(read))
    speakers = sf.array_distinct(sf.array(sf.col("principal"), sf.lit(WILDCARD_PRINCIPAL)))
    return placed.withColumn("speaker", sf.explode(speakers))


def _entry() -> Column:
    """An ACL after its widths, so that the greatest struct is the widest ACL.

    Among the ACLs that cover the same cell each of these orders agrees with covering, because patterns and hosts nest.
    """
    prefixed = sf.col("pattern_type") == PREFIXED
    length = sf.length("pattern_name")
    pattern_width = sf.when(prefixed, _WIDEST_NAME - 2 * length).otherwise(
        sf.when(sf.col("pattern_name") == WILDCARD, sf.lit(_WIDEST_NAME)).otherwise(_WIDEST_NAME - 2 * length - 1)
    )
    return sf.struct(
        (sf.col("principal") == WILDCARD_PRINCIPAL).alias("everyone"),
        pattern_width.alias("pattern_width"),
        (sf.lit(_LONGEST_KEY) - sf.length("host_key")).alias("host_width"),
        sf.bit_count("mask").alias("operation_width"),
        "mask",
        "ends_s",
        "acl.id",
        "permission_type",
        "acl.operation",
        "resource_type",
        "pattern_type",
        sf.col("pattern_name").alias("resource_name"),
        "principal",
        "acl.host",
    )


def _why() -> Column:
    by = sf.format_string(
        f"%s %s on %s %s {MARKED} for {MARKED} from {MARKED}",
        *(sf.col(f"by.{name}") for name in ("permission_type", "operation", "resource_type", "pattern_type")),
        *(sf.col(f"by.{name}") for name in ("resource_name", "principal", "host")),
    )
    until = sf.when(sf.col("by.ends_s") == _NEVER, "").otherwise(sf.concat(sf.lit(" until "), rfc3339("by.ends_s")))
    by = sf.concat(by, until)
    implied = (sf.col("by.operation") != sf.col("operation")) & (sf.col("by.operation") != AclOperation.ALL.name)
    unseen = sf.when(implied, sf.lit("; authorizeByResourceType ignores implied operations")).otherwise("")
    redundant = sf.concat(sf.lit("adds nothing to "), by, unseen)
    return sf.when(sf.col("kind") == VOID, sf.concat(sf.lit("everything that it allows is denied by "), by)).otherwise(
        redundant
    )
