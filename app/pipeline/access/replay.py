"""Asks core again every question in the decision log.

A decision needs the ACLs of its principal, of its groups and of `User:*`, so principals are split into buckets, and
every bucket gets the ACLs of groups, if any are named, and of `User:*` (those on a literal name only where it is asked
about). A principal with more questions than a bucket should have is split by resource into several. A bucket's ACLs
come first, in the order in which an image is loaded fastest, and its questions follow. Only
allow.everyone.if.no.acl.found needs more: whether anyone has an ACL on the resource. A join finds that beforehand.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.types import StringType, StructField, StructType

from app.core.groups import GROUP_PREFIX
from app.core.kafka.codes import CODED_FIELDS, WILDCARD, WILDCARD_PRINCIPAL
from app.core.kafka.configs import ALLOW_EVERYONE
from app.core.verdicts import AuthorizationResult, Rule
from app.pipeline.access.answers import AFTER, BEFORE, BOTH, DEFAULT_ALLOW, SUPER_USER, Answer, Bucket
from app.pipeline.access.patterns import LITERAL, PATTERN, RESOURCE, by_pattern, covering
from app.pipeline.history.decision_log import weighted
from app.pipeline.history.schemas import columns
from app.pipeline.history.snapshot import Snapshot
from app.pipeline.spark.arrow import rows_in

QUESTION = ("principal", "host", "operation", "resource_type", "resource_name", "is_super_user", "groups")
DEFAULT_BUCKETS = 16

LEAST_SPLIT = 100_000
"""With fewer questions than this, no principal is split."""
_MOST_SPLIT = 100

_MEASURES = ("decisions", "allowed", "first_time", "last_time")
_ANSWER = ("result", "rule", "acl_id")
_CHANGED_ACL, _ACL, _QUESTION = 0, 1, 2
_ROW = columns(
    """part int, kind int, sides int, acl_id binary, resource_type int, pattern_type int, operation int,
    permission_type int, resource_name string, principal string, host string, is_super_user boolean,
    open_before boolean, open_after boolean, decisions bigint, allowed bigint, first_time timestamp,
    last_time timestamp, groups array<string>"""
)
"""ACLs and questions in one table. `open_...`: no ACL is on the resource, and that lets everyone in."""

_CARRIED = ("principal", "host", "operation", *RESOURCE, "is_super_user", "groups", *_MEASURES)
_ANSWERED = StructType(
    [
        *(_ROW[name] for name in _CARRIED),
        *(StructField(f"{side}{name}", StringType()) for side in ("", "after_") for name in _ANSWER),
    ]
)


def questions(decisions: DataFrame, super_users: Collection[str] | None = None) -> DataFrame:
    """The distinct questions (QUESTION) of decisions, or of USES: how many asked them, and when first and last.

    `allowed` of these decisions were ALLOWED as logged. Without `super_users`, the log says
    decision by decision who was a super user.
    """
    is_super_user = sf.col("rule") == Rule.SUPER_USER.value
    if super_users is not None:
        is_super_user = sf.col("principal").isin(*super_users)
    asked = weighted(decisions).withColumn("is_super_user", is_super_user)
    allowed = sf.when(sf.col("result") == AuthorizationResult.ALLOWED.value, sf.col("decisions")).otherwise(0)
    return asked.groupBy(*QUESTION).agg(
        sf.sum("decisions").alias("decisions"),
        sf.sum(allowed).alias("allowed"),
        sf.min("first_time").alias("first_time"),
        sf.max("last_time").alias("last_time"),
    )


def open_to_all(given: str | None, snapshot: Snapshot, decisions: DataFrame | None = None) -> bool:
    """Whether resources without ACLs are open: as `given`, else as the snapshot says, else as the log shows.

    The service's start-up configuration is not in its store; a log shows it by decisions with the rule DefaultAllow.
    """
    if given is None and ALLOW_EVERYONE not in snapshot.configs and decisions is not None:
        return not decisions.filter(sf.col("rule") == Rule.DEFAULT_ALLOW.value).isEmpty()
    return snapshot.config.allow_everyone_if_no_acl_found if given is None else given == "true"


def replay(acls: DataFrame, questions: DataFrame, *, allow_everyone: bool, buckets: int = DEFAULT_BUCKETS) -> DataFrame:
    sided = acls.withColumn("sides", sf.lit(BOTH))
    answered = replay_change(sided, questions, allow_everyone=allow_everyone, buckets=buckets)
    return answered.drop(*(f"after_{name}" for name in _ANSWER))


def replay_change(
    sided_acls: DataFrame, questions: DataFrame, *, allow_everyone: bool, buckets: int = DEFAULT_BUCKETS
) -> DataFrame:
    """`replay` on both sides of a change: `after_result`, `after_rule` and `after_acl_id` are added.

    The questions are read more than once, and should be persisted. The column `sides` of the ACLs has the bits BEFORE
    and AFTER of `app.pipeline.access.answers`.
    """
    if allow_everyone:
        asked = _with_open(questions, sided_acls)
    else:
        asked = questions.withColumns(dict.fromkeys(("open_before", "open_after"), sf.lit(col=False)))
    dealing = _dealing(questions, buckets)
    table = _acl_rows(sided_acls, questions, dealing).unionByName(_question_rows(asked, dealing))
    dealt = table.repartitionById(buckets, "part").sortWithinPartitions(*_order())
    answered = dealt.mapInArrow(_answer_batches, _ANSWERED)
    return answered.withColumns({name: _word(name) for name in ("operation", "resource_type")})


def _with_open(questions: DataFrame, sided_acls: DataFrame) -> DataFrame:
    both = sf.bit_or("sides").alias("sides")
    patterns = by_pattern(sided_acls).groupBy(*PATTERN).agg(both)
    covered = covering(questions.select(*RESOURCE).distinct(), patterns).groupBy(*RESOURCE).agg(both)
    sides = sf.coalesce(sf.col("sides"), sf.lit(0))
    open_before, open_after = (sides.bitwiseAND(sf.lit(bit)) == 0 for bit in (BEFORE, AFTER))
    marked = questions.join(covered, list(RESOURCE), "left")
    return marked.withColumns({"open_before": open_before, "open_after": open_after}).drop("sides")


@dataclass(frozen=True, slots=True)
class _Dealing:
    """How questions and ACLs are distributed: principals that ask more than their share have `spread` buckets each."""

    buckets: int
    spread: Mapping[str, int]
    has_groups: bool

    def of_question(self) -> Column:
        """The bucket of a question, or of an ACL on a literal name. All resources of most principals are in one."""
        place = sf.pmod(sf.hash(*RESOURCE), self._spread())
        return self._bucket(place)

    def of_acl(self) -> Column:
        of_many = sf.transform(sf.sequence(sf.lit(0), self._spread() - 1), self._bucket)
        everywhere = sf.sequence(sf.lit(0), sf.lit(self.buckets - 1))
        own = sf.when(_is_on_one_name(), sf.array(self.of_question())).otherwise(of_many)
        speaks_of_many = sf.col("principal") == WILDCARD_PRINCIPAL
        if self.has_groups:
            speaks_of_many |= sf.col("principal").startswith(GROUP_PREFIX)
        return sf.when(speaks_of_many, everywhere).otherwise(own)

    def _spread(self) -> Column:
        if not self.spread:
            return sf.lit(1)
        known = sf.create_map(*[sf.lit(each) for item in self.spread.items() for each in item])
        return sf.coalesce(known[sf.col("principal")], sf.lit(1))

    def _bucket(self, place: Column) -> Column:
        return sf.pmod(sf.pmod(sf.hash("principal"), sf.lit(self.buckets)) + place, sf.lit(self.buckets)).cast("int")


def _dealing(questions: DataFrame, buckets: int) -> _Dealing:
    has_groups = not questions.where(sf.col("groups").isNotNull()).isEmpty()
    total = questions.count() if buckets > 1 else 0
    if total < LEAST_SPLIT:
        return _Dealing(buckets, {}, has_groups)
    by_principal = questions.groupBy("principal").count()
    heavy = by_principal.where(sf.col("count") > total / buckets).orderBy(sf.desc("count")).limit(_MOST_SPLIT)
    return _Dealing(buckets, {name: -(-count * buckets // total) for name, count in heavy.collect()}, has_groups)


def _is_on_one_name() -> Column:
    return (sf.col("pattern_type") == LITERAL) & (sf.col("resource_name") != WILDCARD)


def _acl_rows(acls: DataFrame, questions: DataFrame, dealing: _Dealing) -> DataFrame:
    of_everyone = _is_on_one_name() & (sf.col("principal") == WILDCARD_PRINCIPAL)
    asked = questions.select(*RESOURCE, dealing.of_question().alias("part"))
    placed = acls.where(of_everyone).join(asked.distinct(), list(RESOURCE))
    others = acls.where(~of_everyone).withColumn("part", sf.explode(dealing.of_acl()))
    given = {
        "part": sf.col("part"),
        "kind": sf.when(sf.col("sides") == BOTH, _ACL).otherwise(_CHANGED_ACL),
        "acl_id": sf.unhex(sf.translate("id", "-", "")),
        **{name: _code(name) for name in CODED_FIELDS},
    }
    both = others.unionByName(placed.select(others.columns))
    return _rows(both, given, ("sides", "resource_name", "principal", "host"))


def _question_rows(questions: DataFrame, dealing: _Dealing) -> DataFrame:
    given = {
        "part": dealing.of_question(),
        "kind": sf.lit(_QUESTION),
        "operation": _code("operation"),
        "resource_type": _code("resource_type"),
    }
    return _rows(questions, given, {*_CARRIED, "open_before", "open_after"} - set(given))


def _rows(frame: DataFrame, given: Mapping[str, Column], kept: Collection[str]) -> DataFrame:
    nothing = {each.name: sf.lit(None).cast(each.dataType) for each in _ROW}
    row = {**nothing, **given, **{name: sf.col(name) for name in kept}}
    return frame.select(*(column.alias(name) for name, column in row.items()))


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


def _code(column: str) -> Column:
    codes = sf.create_map(*[sf.lit(each) for word in CODED_FIELDS[column] for each in (word.name, int(word))])
    return codes[sf.col(column)]


def _word(column: str) -> Column:
    return sf.element_at(sf.array(*[sf.lit(word.name) for word in CODED_FIELDS[column]]), sf.col(column) + 1)


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
    return rows_in(rows, ("acl_id", *CODED_FIELDS, "resource_name", "principal", "host"))


def _answered(bucket: Bucket, rows: pa.RecordBatch) -> pa.RecordBatch:
    asked = rows_in(rows, ("principal", "host", "operation", "resource_type", "resource_name", "groups"))
    before, after = bucket.answers(asked)
    _settle(rows, "open_before", before)
    _settle(rows, "open_after", after)
    columns = [rows.column(name) for name in _CARRIED]
    for side in (before, after):
        columns += [pa.array(values, pa.string()) for values in zip(*side, strict=True)]
    return pa.RecordBatch.from_arrays(columns, names=_ANSWERED.fieldNames())


def _settle(rows: pa.RecordBatch, opened: str, answers: list[Answer]) -> None:
    """Adds what core could not know in one bucket: super users, and resources without ACLs."""
    for column, answer in ((opened, DEFAULT_ALLOW), ("is_super_user", SUPER_USER)):
        for at, holds in enumerate(rows.column(column).to_pylist()):
            if holds:
                answers[at] = answer
