"""Findings of hygiene: their one shape, the commands that mend them, and how they are saved, by their snapshot."""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf

from app.core.kafka.bindings import AclBinding
from app.core.readable import backticked
from app.pipeline.history.schemas import BINDING_FIELDS, FINDINGS, FOUND
from app.pipeline.history.snapshot import SavedResults, Snapshot
from app.pipeline.hygiene.mending import mend_of
from app.pipeline.spark.arrow import rows_in
from app.pipeline.spark.storage import Home, write_document

VOID, REDUNDANT, OVER_BROAD, UNUSED, DETACHED = KINDS = ("VOID", "REDUNDANT", "OVER_BROAD", "UNUSED", "DETACHED")
"""In the order of lists, which is safe for mending: an ALLOW goes before the DENY that overrides it."""

JOB = "hygiene"
_LISTED = 200
"""How many findings of each kind are listed for people."""
_LISTED_CHARACTERS = 3_000_000
_KEY_DIGITS, _TIME_DIGITS = 20, 8


def found_in(
    acls: DataFrame,
    kind: Column,
    *,
    why: Column,
    by_acl_id: Column | None = None,
    covered: Column | None = None,
    used: Column | None = None,
) -> DataFrame:
    """A finding for each of these ACLs (columns of ACLS, others are dropped) that its removal mends (FOUND)."""
    return acls.select(
        kind.alias("kind"),
        sf.col("id").alias("acl_id"),
        *BINDING_FIELDS,
        why.alias("why"),
        (sf.lit(None).cast("string") if by_acl_id is None else by_acl_id).alias("by_acl_id"),
        (sf.lit(None) if covered is None else covered).cast("bigint").alias("covered"),
        (sf.lit(None) if used is None else used).cast("bigint").alias("used"),
        sf.array().cast(FOUND["narrower"].dataType).alias("narrower"),
    )


MARKED = "\0%s\0"
"""A name within `why`, until it is written for people: no name has U+0000, which PostgreSQL does not keep."""
_MARKED = re.compile("\0([^\0]*)\0")


def mended(found: DataFrame, tool: str) -> DataFrame:
    return found.select(*FOUND.fieldNames()).mapInArrow(partial(_with_mends, tool), FINDINGS)


def _with_mends(tool: str, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        mends = [
            mend_of(kind, AclBinding.from_words(words), narrower, tool)
            for kind, *words, narrower in rows_in(batch, ("kind", *BINDING_FIELDS, "narrower"))
        ]
        whys = [_MARKED.sub(lambda name: backticked(name[1]), why) for (why,) in rows_in(batch, ("why",))]
        made = {"why": pa.array(whys, pa.string()), "mend": pa.array(mends, pa.list_(pa.string()))}
        arrays = [made[name] if name in made else batch.column(name) for name in FINDINGS.fieldNames()]
        yield pa.RecordBatch.from_arrays(arrays, names=FINDINGS.fieldNames())


@dataclass(frozen=True)
class HygieneFindings:
    """What was found (FINDINGS); the manifest has `counts` by kind and what was looked at."""

    findings: DataFrame
    manifest: dict[str, Any]


def load_findings(spark: SparkSession, home: Home, offset: int | None = None) -> HygieneFindings | None:
    saved = SavedResults(spark, home, JOB)
    manifest = saved.find(offset)
    if manifest is None:
        return None
    return HygieneFindings(spark.read.schema(FINDINGS).parquet(saved.room(manifest["offset"], "findings")), manifest)


def save_findings(
    home: Home,
    snapshot: Snapshot,
    search: Callable[[Callable[[], DataFrame]], Iterable[DataFrame]],
    looked_at: Mapping[str, Any],
    tool: str,
) -> HygieneFindings:
    """Save what was found (FOUND) in a snapshot, in place of what is at its offset, with this tool's commands.

    `search` yields them part by part; it is given a function that reads what was saved so far.
    """
    spark = snapshot.acls.sparkSession
    results = SavedResults(spark, home, JOB)
    manifest = results.begin(snapshot, {**looked_at, "tool": tool})
    # Part by part, as Spark takes longer to plan all of them at once than to run them.
    parts, path = (results.room(snapshot.offset, name) for name in ("parts", "findings"))

    def saved() -> DataFrame:
        return spark.read.schema(FOUND).parquet(parts)

    for number, part in enumerate(search(saved)):
        part.write.mode("append" if number else "overwrite").parquet(parts)
    mended(one_by_acl(saved()), tool).write.mode("overwrite").parquet(path)
    findings = spark.read.schema(FINDINGS).parquet(path)
    counted = {row["kind"]: row["count"] for row in findings.groupBy("kind").count().collect()}
    write_document(spark, results.room(snapshot.offset, "listed"), {"findings": listed(findings, saved(), counted)})
    spark.createDataFrame([], FOUND).write.mode("overwrite").parquet(parts)
    return HygieneFindings(findings, results.complete(manifest, {kind: counted.get(kind, 0) for kind in KINDS}))


def save_last_used(home: Home, snapshot: Snapshot, uses: DataFrame) -> None:
    """When each ACL last decided something, and each principal was last decided on, for readers that have no Spark.

    One file of sorted lines of equal length, so that bisection finds a key in a file of any size. A line is the first
    digits of the SHA-256 of an ACL's id or of a principal, and the seconds since 1970, in hex. `uses` are USES of the
    part of the log that is examined.
    """
    time = sf.unix_seconds("last_time").alias("time")
    by_acl = uses.where(sf.col("acl_id").isNotNull()).select(sf.col("acl_id").alias("of"), time)
    last = by_acl.unionByName(uses.select(sf.col("principal").alias("of"), time)).groupBy("of").agg(sf.max("time"))
    line = sf.concat(
        sf.substring(sf.sha2("of", 256), 1, _KEY_DIGITS), sf.lpad(sf.hex("max(time)"), _TIME_DIGITS, "0")
    ).alias("value")
    room = SavedResults(uses.sparkSession, home, JOB).room(snapshot.offset, "last-used")
    last.select(line).coalesce(1).sortWithinPartitions("value").write.mode("overwrite").text(room)


def listed(findings: DataFrame, parts: DataFrame, counts: Mapping[str, int]) -> list[dict[str, Any]]:
    """The first findings of each kind, as the console reads them; those with the longest names are left out."""
    rows = [row for kind in KINDS if counts.get(kind) for row in in_order(_of(findings, kind)).limit(_LISTED).collect()]
    broad = [row["acl_id"] for row in rows if row["kind"] == OVER_BROAD and row["mend"]]
    instead = _of(parts, OVER_BROAD).where(sf.col("acl_id").isin(broad)).select("acl_id", "narrower") if broad else None
    narrower = {} if instead is None else {row["acl_id"]: row["narrower"] for row in instead.collect()}
    found, left = [], _LISTED_CHARACTERS
    for row in rows:
        entry = {
            "kind": row["kind"],
            "acl_id": row["acl_id"],
            "acl": [row[name] for name in BINDING_FIELDS],
            "why": row["why"],
            "is_mended": bool(row["mend"]),
            "narrower": narrower.get(row["acl_id"], []),
        }
        if (size := len(json.dumps(entry))) <= left:
            left -= size
            found.append(entry)
    return found


def _of(findings: DataFrame, kind: str) -> DataFrame:
    return findings.where(sf.col("kind") == kind)


def going(found: DataFrame) -> DataFrame:
    """The ACLs (`by_acl_id`) that others may be REDUNDANT by, but that can go by a list of resources or the log."""
    by_less = found.where(sf.col("kind").isin(DETACHED, UNUSED, OVER_BROAD))
    return by_less.select(sf.col("acl_id").alias("by_acl_id"))


def one_by_acl(found: DataFrame) -> DataFrame:
    """One finding (FOUND) for each ACL: what holds for every request comes before what a list or the log shows."""
    removed = (sf.col("kind") == REDUNDANT) & sf.col("narrower").isNotNull()
    # INVARIANT: no ACL is removed as REDUNDANT because of one that also goes.
    redundant = found.where(removed).join(going(found), "by_acl_id", "left_anti").select(*FOUND.fieldNames())
    settled = found.where(~removed).unionByName(redundant)
    place = _place_in((VOID, REDUNDANT, DETACHED, UNUSED, OVER_BROAD))
    first = settled.groupBy("acl_id").agg(sf.min_by(sf.struct(*FOUND.fieldNames()), place).alias("found"))
    return first.select("found.*")


def in_order(findings: DataFrame) -> DataFrame:
    return findings.orderBy(_place_in(KINDS), sf.col("covered").desc_nulls_last(), *BINDING_FIELDS)


def _place_in(kinds: Sequence[str]) -> Column:
    return sf.array_position(sf.array(*map(sf.lit, kinds)), sf.col("kind"))
