"""What a change of ACLs would do to the decisions of the log."""

from collections.abc import Iterable, Iterator
from functools import partial

import pyarrow as pa
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as sf
from pyspark.sql.types import StructType

from app.core.kafka.bindings import AclBinding
from app.core.verdicts import AuthorizationResult
from app.pipeline.access.answers import AFTER, BEFORE, BOTH
from app.pipeline.access.changes import Candidate, new_id
from app.pipeline.history.schemas import ACLS, BINDING_FIELDS, FLIPS, NO_TERMS, columns
from app.pipeline.spark.arrow import batch_of, rows_in

MAX_HOSTS = 10
"""The most hosts that a row of FLIPS names."""

SIDED_ACLS = StructType([*ACLS.fields, *columns("sides int not null, step int").fields])
"""ACLs before and after a change: on which sides each exists (`app.pipeline.access.answers`), and by which file."""

CREATED, DELETED = "CREATED", "DELETED"

_ALLOWED = AuthorizationResult.ALLOWED.value
_GROUP = ("principal", "resource_type", "resource_name", "operation", "result", "after_result")


def sided_acls(acls: DataFrame, candidate: Candidate) -> DataFrame:
    old = acls.select(*ACLS.fieldNames()).mapInArrow(partial(_sides_of_batches, candidate), SIDED_ACLS)
    rows = [
        (str(new_id(binding)), *binding.words, *NO_TERMS, AFTER, fate.created_by)
        for binding in candidate.bindings
        if (fate := candidate.fate(binding, there=False)).there
    ]
    if not rows:
        return old
    new = acls.sparkSession.createDataFrame(rows, SIDED_ACLS)
    return old.unionByName(new.join(acls.select(*BINDING_FIELDS), list(BINDING_FIELDS), "left_anti"))


def changes_of(sided: DataFrame) -> DataFrame:
    change = sf.when(sf.col("sides") == AFTER, CREATED).otherwise(DELETED).alias("change")
    return sided.filter(sf.col("sides") != BOTH).select(change, "step", *ACLS.fieldNames())


def flips_of(replayed: DataFrame) -> DataFrame:
    """The questions whose result differs after the change (FLIPS); the ACL ids are those of most of the decisions."""
    turned = replayed.filter(sf.col("result") != sf.col("after_result"))
    # A group may have many hosts: only the first are ever collected.
    by_host = Window.partitionBy(*_GROUP).orderBy("host")
    ranked = turned.withColumn("rank", sf.dense_rank().over(by_host))
    for acl in ("acl_id", "after_acl_id"):
        ranked = ranked.withColumn(f"of_{acl}", sf.sum("decisions").over(Window.partitionBy(*_GROUP, acl)))
    grouped = ranked.groupBy(*_GROUP).agg(
        sf.sum("decisions").alias("total"),
        sf.sort_array(sf.collect_set(sf.when(sf.col("rank") <= MAX_HOSTS, sf.col("host")))).alias("hosts"),
        sf.min("first_time").alias("first_time"),
        sf.max("last_time").alias("last_time"),
        _of_most("acl_id"),
        _of_most("after_acl_id"),
    )
    named = {"result": "before", "after_result": "after", "total": "decisions", "acl_id": "before_acl_id"}
    return grouped.withColumnsRenamed(named).select(*FLIPS.fieldNames())


def totals_of(replayed: DataFrame) -> DataFrame:
    """One row: `questions`, `decisions`, `drifted`, and of the decisions `newly_denied` and `newly_allowed` ones.

    `drifted` were logged with another result than the ACLs before the change give.
    """
    decisions, before, after = sf.col("decisions"), sf.col("result") == _ALLOWED, sf.col("after_result") == _ALLOWED
    drifted = sf.when(before, decisions - sf.col("allowed")).otherwise(sf.col("allowed"))
    return replayed.agg(
        sf.count(sf.lit(1)).alias("questions"),
        _total(decisions, "decisions"),
        _total(drifted, "drifted"),
        _total(sf.when(before & ~after, decisions), "newly_denied"),
        _total(sf.when(~before & after, decisions), "newly_allowed"),
    )


def _total(column: Column, name: str) -> Column:
    return sf.coalesce(sf.sum(column), sf.lit(0)).alias(name)


def _of_most(column: str) -> Column:
    """The value of this column in most decisions of a group; of equally frequent ones, the least."""
    return sf.min_by(column, sf.struct(-sf.col(f"of_{column}"), sf.coalesce(column, sf.lit("")))).alias(column)


def _sides_of_batches(candidate: Candidate, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        rows: list[tuple[object, ...]] = []
        for row in rows_in(batch):
            words = row[1 : 1 + len(BINDING_FIELDS)]
            binding = AclBinding.from_words(words)
            fate = candidate.fate(binding, there=True)
            rows.append((*row, BEFORE, fate.deleted_by) if fate.gone else (*row, BOTH, None))
            if fate.gone and fate.there:
                rows.append((str(new_id(binding)), *words, *NO_TERMS, AFTER, fate.created_by))
        yield batch_of(rows, SIDED_ACLS)
