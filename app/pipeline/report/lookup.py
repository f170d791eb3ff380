"""What the page's lookup box finds: who may read and write a resource, what a principal has, when either was last used.

Bounded whatever the store holds, in resources and principals, and in names for each.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import groupby

import pyarrow as pa
from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as sf

from app.core.kafka.codes import WILDCARD_PRINCIPAL, AclOperation
from app.core.verdicts import AuthorizationResult
from app.pipeline.access.effective import EffectiveTables
from app.pipeline.access.lookup import operation_words
from app.pipeline.access.patterns import RESOURCE
from app.pipeline.history.decision_log import weighted
from app.pipeline.history.schemas import RESOURCES, columns
from app.pipeline.report.figures import HeldPattern, LookupFigures, PrincipalEntry, ResourceEntry, Some
from app.pipeline.report.heat import with_prefix
from app.pipeline.report.reach import asked_about, with_team
from app.pipeline.spark.arrow import batch_of, rows_in

MOST_RESOURCES, MOST_PRINCIPALS = 20_000, 5_000
MOST_NAMES = 12
"""How many readers or writers of one resource, and patterns of one principal, are named."""

_READ, _WRITE = (1 << AclOperation[word] for word in ("READ", "WRITE"))
_ALLOWED, _DENIED = AuthorizationResult.ALLOWED.value, AuthorizationResult.DENIED.value
_USERS = columns(
    """resource_type string, resource_name string, readers int, reader_names array<string>, writers int,
    writer_names array<string>"""
)
_HELD = columns("principal string, patterns int, first array<array<string>>")


def lookup_figures(
    tables: EffectiveTables,
    decisions: DataFrame | None,
    teams: DataFrame | None,
    kept_resources: Sequence[Row],
    reached: DataFrame,
) -> LookupFigures:
    """Of the resources that are kept, of which `reached` (`reach`) has each principal, and of principals in use first.

    `decisions` (or their USES) is None if none was ever logged.
    """
    decisions = None if decisions is None else weighted(decisions)
    resources = asked_about(tables.resources)
    entries = _resource_entries(kept_resources, reached)
    principals = _principals(tables.masks, decisions)
    kept = with_team(principals.orderBy(*_latest_first("principal")).limit(MOST_PRINCIPALS), teams)
    holders = _principal_entries(tables.masks, kept.orderBy(*_latest_first("principal")).collect())
    return LookupFigures(
        entries,
        holders,
        more_resources=resources.count() - len(entries) if len(entries) == MOST_RESOURCES else 0,
        more_principals=principals.count() - len(holders) if len(holders) == MOST_PRINCIPALS else 0,
        is_logged=decisions is not None,
    )


def _latest_first(*names: str) -> list[Column]:
    return [sf.desc_nulls_last("latest"), *map(sf.col, names)]


def kept_resources(tables: EffectiveTables, decisions: DataFrame | None) -> list[Row]:
    """(resource_type, resource_name, last_read, last_write, latest, prefix), times in seconds since 1970.

    Those in use come first.
    """
    resources = asked_about(tables.resources)
    if decisions is None:
        none = sf.lit(None).cast("bigint")
        known = resources.select(*RESOURCE, none.alias("last_read"), none.alias("last_write"))
    else:
        allowed = weighted(decisions).where(sf.col("result") == _ALLOWED)
        used = allowed.groupBy(*RESOURCE).agg(
            _latest(sf.col("operation") == "READ").alias("last_read"),
            _latest(sf.col("operation") == "WRITE").alias("last_write"),
        )
        known = resources.join(used, list(RESOURCE), "left")
    known = with_prefix(known.withColumn("latest", sf.greatest("last_read", "last_write")))
    return known.orderBy(*_latest_first(*RESOURCE)).limit(MOST_RESOURCES).collect()


def names_of(kept: Sequence[Row], tables: EffectiveTables) -> DataFrame:
    """RESOURCES."""
    names = [(row["resource_type"], row["resource_name"]) for row in kept]
    return tables.resources.sparkSession.createDataFrame(names, RESOURCES)


def _latest(wanted: Column) -> Column:
    return sf.max(sf.when(wanted, sf.unix_seconds("last_time")))


def _resource_entries(kept: Sequence[Row], reached: DataFrame) -> list[ResourceEntry]:
    told = sf.col("principal").isNotNull() & (sf.col("bits").bitwiseAND(sf.lit(_READ | _WRITE)) != 0)
    # `User:*` stands before all others.
    order = (*RESOURCE, sf.col("principal") != WILDCARD_PRINCIPAL, "principal")
    in_order = reached.where(told).repartition(*RESOURCE).sortWithinPartitions(*order)
    told_apart = in_order.select(*RESOURCE, "principal", "bits")
    rows = told_apart.mapInArrow(partial(_users, MOST_NAMES), _USERS).collect()
    users = {(row[0], row[1]): (Some(row[2], row[3]), Some(row[4], row[5])) for row in rows}
    nobody: tuple[Some[str], Some[str]] = (Some(0, ()), Some(0, ()))
    return [
        ResourceEntry(
            row["resource_type"],
            row["resource_name"],
            row["prefix"],
            *users.get((row["resource_type"], row["resource_name"]), nobody),
            row["last_read"],
            row["last_write"],
        )
        for row in kept
    ]


def _users(most: int, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Of rows (resource_type, resource_name, principal, bits) in this order: a row for each resource."""
    rows = (row for batch in batches for row in rows_in(batch))
    found: list[tuple[object, ...]] = []
    for resource, of_resource in groupby(rows, lambda row: (row[0], row[1])):
        counts = [0, 0]
        names: tuple[list[str], list[str]] = ([], [])
        for _, _, principal, bits in of_resource:
            for side, bit in enumerate((_READ, _WRITE)):
                if bits & bit:
                    counts[side] += 1
                    if counts[side] <= most:
                        names[side].append(principal)
        found.append((*resource, counts[0], names[0], counts[1], names[1]))
    yield batch_of(found, _USERS)


def _principals(masks: DataFrame, decisions: DataFrame | None) -> DataFrame:
    """(principal, last_allowed, last_denied, latest) for all that have an ACL or are in the log."""
    named = masks.select("principal").distinct()
    if decisions is None:
        none = sf.lit(None).cast("bigint")
        return named.select("principal", none.alias("last_allowed"), none.alias("last_denied"), none.alias("latest"))
    asked = decisions.groupBy("principal").agg(
        _latest(sf.col("result") == _ALLOWED).alias("last_allowed"),
        _latest(sf.col("result") == _DENIED).alias("last_denied"),
    )
    return named.join(asked, "principal", "full_outer").withColumn("latest", sf.greatest("last_allowed", "last_denied"))


def _principal_entries(masks: DataFrame, kept: list[Row]) -> list[PrincipalEntry]:
    asked = masks.sparkSession.createDataFrame([(row["principal"],) for row in kept], columns("principal string"))
    names = ("principal", "resource_type", "pattern_type", "pattern_name", "host", "allow_mask", "deny_mask")
    theirs = masks.join(asked, "principal", "left_semi").repartition("principal")
    in_order = theirs.sortWithinPartitions(*names[:5]).select(*names)
    rows = in_order.mapInArrow(partial(_held, MOST_NAMES), _HELD).collect()
    held = {row[0]: Some(row[1], [HeldPattern(*each) for each in row[2]]) for row in rows}
    none: Some[HeldPattern] = Some(0, ())
    return [
        PrincipalEntry(
            row["principal"],
            row["team"],
            held.get(row["principal"], none),
            row["last_allowed"],
            row["last_denied"],
        )
        for row in kept
    ]


def _held(most: int, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Of masks in the order of principals: a row for each principal, with its first patterns in words."""
    rows = (row for batch in batches for row in rows_in(batch))
    found: list[tuple[object, ...]] = []
    for principal, masks in groupby(rows, lambda row: row[0]):
        count, first = 0, list[list[str]]()
        for _, resource_type, *pattern, allow, deny in masks:
            count += 1
            if count <= most:
                words = (", ".join(operation_words(mask, resource_type)) for mask in (allow, deny))
                first.append([resource_type, *pattern, *words])
        found.append((principal, count, first))
    yield batch_of(found, _HELD)
