"""Core itself, asked again everything that the decision log was asked.

A decision needs the ACLs of its principal and of `User:*`, so principals are dealt out to buckets, and every bucket
gets the ACLs of `User:*`. A bucket's ACLs come first, sorted as an image is loaded fastest, and then its questions
stream by. Only allow.everyone.if.no.acl.found needs to know more: whether anyone has an ACL on the resource. That is
found by equal texts beforehand.
"""

from collections.abc import Collection, Iterable, Iterator
from itertools import groupby
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from app.core.authorize import AuthorizationResult, Rule
from app.core.kafka.codes import WILDCARD_PRINCIPAL, AclOperation, AclPermissionType, PatternType, ResourceType
from app.pipeline.access.answers import BOTH, DEFAULT_ALLOW, SUPER_USER, Answer, Bucket
from app.pipeline.access.patterns import PATTERN, covering_resources, patterns_of

QUESTION = ("principal", "host", "operation", "resource_type", "resource_name", "is_super_user")
"""The columns that tell one question from another."""

DEFAULT_BUCKETS = 16

_RESOURCE = ("resource_type", "resource_name")
_MEASURES = ("decisions", "allowed", "first_time", "last_time")
_ANSWER = ("result", "rule", "acl_id")
_CHANGED_ACL, _ACL, _QUESTION = 0, 1, 2
_ROW = StructType(
    [
        StructField("part", IntegerType()),
        StructField("kind", IntegerType()),
        StructField("sides", IntegerType()),
        StructField("acl_id", BinaryType()),
        StructField("resource_type", IntegerType()),
        StructField("pattern_type", IntegerType()),
        StructField("operation", IntegerType()),
        StructField("permission_type", IntegerType()),
        StructField("resource_name", StringType()),
        StructField("principal", StringType()),
        StructField("host", StringType()),
        StructField("is_super_user", BooleanType()),
        StructField("open_before", BooleanType()),
        StructField("open_after", BooleanType()),
        StructField("decisions", LongType()),
        StructField("allowed", LongType()),
        StructField("first_time", TimestampType()),
        StructField("last_time", TimestampType()),
    ]
)
"""ACLs and questions in one table. `open_...`: no ACL is on the resource, and that lets everyone in."""

_CODES = ("resource_type", "pattern_type", "operation", "permission_type")
_CARRIED = ("principal", "host", "operation", *_RESOURCE, "is_super_user", *_MEASURES)
_ANSWERED = StructType(
    [
        *(_ROW[name] for name in _CARRIED),
        *(StructField(f"{side}{name}", StringType()) for side in ("", "after_") for name in _ANSWER),
    ]
)


def questions(decisions: DataFrame, super_users: Collection[str] | None = None) -> DataFrame:
    """The distinct questions (QUESTION): how many decisions asked them, and when first and last.

    `allowed` of these decisions were ALLOWED as logged. Without `super_users` those are super users whom the log says
    to have been, decision by decision.
    """
    is_super_user = sf.col("rule") == Rule.SUPER_USER.value
    if super_users is not None:
        is_super_user = sf.col("principal").isin(*super_users)
    asked = decisions.withColumn("is_super_user", is_super_user)
    allowed = sf.col("result") == AuthorizationResult.ALLOWED.value
    return asked.groupBy(*QUESTION).agg(
        sf.count(sf.lit(1)).alias("decisions"),
        sf.count_if(allowed).alias("allowed"),
        sf.min("time").alias("first_time"),
        sf.max("time").alias("last_time"),
    )


def replay(acls: DataFrame, questions: DataFrame, *, allow_everyone: bool, buckets: int = DEFAULT_BUCKETS) -> DataFrame:
    """Questions with core's `result`, `rule` and `acl_id` on these ACLs. Super users stay what the log says."""
    sided = acls.withColumn("sides", sf.lit(BOTH))
    answered = replay_change(sided, questions, allow_everyone=allow_everyone, buckets=buckets)
    return answered.drop(*(f"after_{name}" for name in _ANSWER))


def replay_change(
    sided_acls: DataFrame, questions: DataFrame, *, allow_everyone: bool, buckets: int = DEFAULT_BUCKETS
) -> DataFrame:
    """The same on both sides of a change: `after_result`, `after_rule` and `after_acl_id` come on top.

    The column `sides` of the ACLs has the bits BEFORE and AFTER of `app.pipeline.access.answers`.
    """
    asked = _with_open(questions, sided_acls) if allow_everyone else _closed(questions)
    table = _acl_rows(sided_acls, buckets).unionByName(_question_rows(asked, buckets))
    dealt = table.repartitionById(buckets, "part").sortWithinPartitions(*_order())
    answered = dealt.mapInArrow(_answer_batches, _ANSWERED)
    return answered.withColumns(
        {"operation": _word(AclOperation, "operation"), "resource_type": _word(ResourceType, "resource_type")}
    )


def _closed(questions: DataFrame) -> DataFrame:
    never = sf.lit(col=False)
    return questions.withColumns({"open_before": never, "open_after": never})


def _with_open(questions: DataFrame, sided_acls: DataFrame) -> DataFrame:
    """Mark questions on resources without any ACL, on either side."""
    patterns = sided_acls.withColumnRenamed("resource_name", "pattern_name")
    patterns = patterns.groupBy(*PATTERN).agg(sf.bit_or("sides").alias("sides"))
    resources = questions.select(*_RESOURCE).distinct()
    covered = covering_resources(resources, patterns_of(patterns)).withColumnsRenamed(
        {"covering_type": "pattern_type", "covering_name": "pattern_name"}
    )
    covered = covered.join(patterns, list(PATTERN)).groupBy(*_RESOURCE).agg(sf.bit_or("sides").alias("sides"))
    sides = sf.coalesce(sf.col("sides"), sf.lit(0))
    open_before, open_after = (sides.bitwiseAND(sf.lit(bit)) == 0 for bit in (1, 2))
    marked = questions.join(covered, list(_RESOURCE), "left")
    return marked.withColumns({"open_before": open_before, "open_after": open_after}).drop("sides")


def _acl_rows(acls: DataFrame, buckets: int) -> DataFrame:
    everywhere = sf.sequence(sf.lit(0), sf.lit(buckets - 1))
    parts = sf.when(sf.col("principal") == WILDCARD_PRINCIPAL, everywhere).otherwise(sf.array(_part(buckets)))
    return acls.select(
        sf.explode(parts).alias("part"),
        sf.when(sf.col("sides") == BOTH, _ACL).otherwise(_CHANGED_ACL).alias("kind"),
        "sides",
        sf.unhex(sf.translate("id", "-", "")).alias("acl_id"),
        _code(ResourceType, "resource_type"),
        _code(PatternType, "pattern_type"),
        _code(AclOperation, "operation"),
        _code(AclPermissionType, "permission_type"),
        "resource_name",
        "principal",
        "host",
        *(sf.lit(None).cast(_ROW[at].dataType).alias(_ROW[at].name) for at in range(11, len(_ROW))),
    )


def _question_rows(questions: DataFrame, buckets: int) -> DataFrame:
    nothing = {name: sf.lit(None).cast(_ROW[name].dataType) for name in _ROW.fieldNames()}
    given = {
        **nothing,
        "part": _part(buckets),
        "kind": sf.lit(_QUESTION),
        "operation": _code(AclOperation, "operation"),
        "resource_type": _code(ResourceType, "resource_type"),
    }
    given.update({name: sf.col(name) for name in ("principal", "host", "resource_name", "is_super_user", *_MEASURES)})
    given.update({name: sf.col(name) for name in ("open_before", "open_after")})
    return questions.select(*(column.alias(name) for name, column in given.items()))


def _order() -> list[Column]:
    """ACLs by their pattern, questions by principal and resource: the order that core is fastest in."""
    is_acl = sf.col("kind") != _QUESTION
    name, principal = sf.col("resource_name"), sf.col("principal")
    return [
        sf.col("part"),
        sf.col("kind"),
        sf.when(is_acl, name).otherwise(principal),
        sf.col("resource_type"),
        sf.col("pattern_type"),
        sf.when(is_acl, principal).otherwise(name),
        sf.col("operation"),
    ]


def _part(buckets: int) -> Column:
    return sf.pmod(sf.hash("principal"), sf.lit(buckets)).cast("int")


_Words = type[AclOperation | AclPermissionType | PatternType | ResourceType]


def _code(words: _Words, column: str) -> Column:
    codes = sf.create_map(*[sf.lit(each) for word in words for each in (word.name, int(word))])
    return codes[sf.col(column)].alias(column)


def _word(words: _Words, column: str) -> Column:
    return sf.element_at(sf.array(*[sf.lit(word.name) for word in words]), sf.col(column) + 1)


def _answer_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    bucket, part_now = Bucket(), None
    for batch in batches:
        keys = list(zip(batch.column("part").to_pylist(), batch.column("kind").to_pylist(), strict=True))
        start = 0
        for (part, kind), run in groupby(keys):
            length = len(list(run))
            rows = batch.slice(start, length)
            start += length
            if part != part_now:
                bucket, part_now = Bucket(), part
            if kind == _QUESTION:
                yield _answered(bucket, rows)
            elif kind == _ACL:
                bucket.add(_acls(rows))
            else:
                bucket.add_changed(_acls(rows), rows.column("sides").to_pylist())


def _acls(rows: pa.RecordBatch) -> list[Any]:
    names = ("acl_id", *_CODES, "resource_name", "principal", "host")
    return list(zip(*(rows.column(name).to_pylist() for name in names), strict=True))


def _answered(bucket: Bucket, rows: pa.RecordBatch) -> pa.RecordBatch:
    names = ("principal", "host", "operation", "resource_type", "resource_name")
    asked = zip(*(rows.column(name).to_pylist() for name in names), strict=True)
    before, after = bucket.answers(asked)
    _settle(rows, "open_before", before)
    _settle(rows, "open_after", after)
    columns = [rows.column(name) for name in _CARRIED]
    for side in (before, after):
        columns += [pa.array(values, pa.string()) for values in zip(*side, strict=True)]
    return pa.RecordBatch.from_arrays(columns, names=_ANSWERED.fieldNames())


def _settle(rows: pa.RecordBatch, opened: str, answers: list[Answer]) -> None:
    """Put in what core could not know in one bucket: who is a super user, and which resources nobody has ACLs on."""
    for at, is_open in enumerate(rows.column(opened).to_pylist()):
        if is_open:
            answers[at] = DEFAULT_ALLOW
    for at, is_super_user in enumerate(rows.column("is_super_user").to_pylist()):
        if is_super_user:
            answers[at] = SUPER_USER
