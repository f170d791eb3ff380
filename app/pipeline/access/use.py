"""What principals have used and were denied, gathered for `core.access.proposal`.

For each question the last decision counts; of two at the same time, a denial.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from app.core.access.proposal import SEVERAL, prefixes_of
from app.core.kafka.codes import WILDCARD, WILDCARD_PRINCIPAL
from app.core.verdicts import AuthorizationResult, Rule
from app.pipeline.access.patterns import LITERAL, RESOURCE
from app.pipeline.access.replay import replay
from app.pipeline.access.resources import seen_resources
from app.pipeline.history.schemas import RESOURCES, columns
from app.pipeline.spark.arrow import batch_of, rows_in

ASKED = ("principal", "host", "operation", *RESOURCE)
"""The columns of a question that one principal asked."""

_CROWDS = columns("resource_type string not null, prefix string not null")
_DENIED = AuthorizationResult.DENIED.value


@dataclass(frozen=True, slots=True)
class Sides:
    """Decisions, without ALLOWs that are not known to come from an ACL of the principal itself or of `User:*`.

    `groups` are those whose ACLs gave such an ALLOW, and `of_groups` the questions (ASKED) that they gave it for;
    `of_gone` are the questions of requests with groups that were allowed by an ACL that is gone.
    """

    own: DataFrame
    groups: list[str]
    of_groups: int
    of_gone: int


def sides_of(decisions: DataFrame, acls: DataFrame) -> Sides:
    """`acls` (ACLS) are the present ones."""
    by_acl = (sf.col("result") != _DENIED) & (sf.col("rule") == Rule.MATCHING_ACL.value)
    # Without a group in the request, the ACL was the principal's own or `User:*`'s.
    in_doubt = by_acl & sf.col("groups").isNotNull()
    doubtful = decisions.where(in_doubt)
    if doubtful.isEmpty():
        return Sides(decisions, [], 0, 0)
    holders = acls.select(sf.col("id").alias("acl_id"), sf.col("principal").alias("holder"))
    held = doubtful.join(holders, "acl_id", "left")
    is_own = (sf.col("holder") == WILDCARD_PRINCIPAL) | (sf.col("holder") == sf.col("principal"))
    # INVARIANT: what a group's ACL gave, or may have given, does not count as the principal's own use.
    own = held.where(is_own).select(decisions.columns)
    others = held.where(~sf.coalesce(is_own, sf.lit(col=False))).select(*ASKED, "holder").distinct().persist()
    row = others.agg(
        sf.collect_set("holder"),
        sf.count_distinct(sf.when(sf.col("holder").isNotNull(), sf.struct(*ASKED))),
        sf.count_if(sf.col("holder").isNull()),
    ).collect()[0]
    others.unpersist()
    return Sides(decisions.where(~in_doubt).unionByName(own), sorted(row[0]), row[1], row[2])


def asked_of(decisions: DataFrame) -> DataFrame:
    """The distinct questions (ASKED): `allowed` is 1 if the last decision was, else 0.

    `decisions` counts them, `by_super_user` and `by_default` those that were allowed without an ACL, and `changed` is
    true if not all were decided alike.
    """
    is_denied = (sf.col("result") == _DENIED).cast("bigint")
    by_rule = {"by_super_user": Rule.SUPER_USER, "by_default": Rule.DEFAULT_ALLOW}
    found = decisions.groupBy(*ASKED).agg(
        sf.count(sf.lit(1)).alias("decisions"),
        # One number, as Spark would sort the whole log for the greatest struct.
        sf.max(sf.unix_micros("time") * 2 + is_denied).alias("last"),
        sf.sum(is_denied).alias("denials"),
        *(sf.count_if(sf.col("rule") == rule.value).alias(name) for name, rule in by_rule.items()),
        sf.min("time").alias("first_time"),
        sf.max("time").alias("last_time"),
    )
    changed = ~sf.col("denials").isin(0, sf.col("decisions"))
    return found.withColumns({"allowed": 1 - sf.col("last") % 2, "changed": changed}).drop("last", "denials")


def answered(acls: DataFrame, asked: DataFrame, buckets: int) -> DataFrame:
    """Core's answers to all that was asked, by these ACLs alone and without groups: `result`, `rule`."""
    no_groups = sf.lit(None).cast("array<string>")
    nobody = asked.withColumns({"is_super_user": sf.lit(col=False), "groups": no_groups})
    return replay(acls, nobody, allow_everyone=False, buckets=buckets)


def is_forbidden() -> Column:
    return (sf.col("result") == _DENIED) & (sf.col("rule") == Rule.MATCHING_ACL.value)


def questions_to_settle(asked: DataFrame, few_hosts: int) -> DataFrame:
    """What `core.access.proposal` needs to know: ASKED, with `allowed`, of all resources that the principal has used.

    The host is `*` if nothing was denied on the resource, unless the principal came from at most `few_hosts` hosts.
    """
    used = asked.where(sf.col("allowed") == 1)
    by_resource = asked.groupBy("principal", *RESOURCE)
    sides = by_resource.agg(sf.max("allowed").alias("some"), sf.min("allowed").alias("all")).where(sf.col("some") == 1)
    hosts = used.groupBy("principal").agg(sf.count_distinct("host").alias("hosts"))
    of_host = (sf.col("all") == 0) | (sf.col("hosts") <= few_hosts)
    placed = asked.join(sides, ["principal", *RESOURCE]).join(sf.broadcast(hosts), "principal")
    host = sf.when(of_host, sf.col("host")).otherwise(WILDCARD)
    return (
        placed.withColumn("host", host)
        .select(*ASKED, "allowed", (sf.col("hosts") <= few_hosts).alias("few"))
        .distinct()
    )


def existing_names(decisions: DataFrame, acls: DataFrame, listed: DataFrame | None) -> DataFrame:
    literal = (sf.col("pattern_type") == LITERAL) & (sf.col("resource_name") != WILDCARD)
    named = seen_resources(decisions).unionByName(acls.where(literal).select(*RESOURCES.fieldNames()))
    return (named if listed is None else named.unionByName(listed)).distinct()


def crowds_of(used: DataFrame, existing: DataFrame) -> DataFrame:
    """How many of the existing resources begin with a prefix of the used ones: resource_type, prefix, `count`."""
    wanted, there = (each.select(*RESOURCE).distinct().mapInArrow(_prefixes, _CROWDS) for each in (used, existing))
    counted = there.groupBy("resource_type", "prefix").count().where(sf.col("count") >= SEVERAL)
    return counted.join(wanted.distinct(), ["resource_type", "prefix"], "left_semi")


def _prefixes(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield batch_of([(kind, each) for kind, name in rows_in(batch) for each in prefixes_of(name)], _CROWDS)
