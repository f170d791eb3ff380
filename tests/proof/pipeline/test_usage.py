"""Unused ACLs can go, and broad ones can be narrowed, without a decision of the log changing: asked of core."""

from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as sf

from app.core.kafka.bindings import AclBinding, StandardAcl
from app.core.kafka.codes import AclOperation, AclPermissionType, PatternType, ResourceType
from app.pipeline.access.effective import masks_of, nodes_of
from app.pipeline.access.replay import questions, replay
from app.pipeline.access.resources import seen_resources
from app.pipeline.hygiene.findings import mended
from app.pipeline.hygiene.mending import KLAMM
from app.pipeline.hygiene.usage import narrowed, over_broad, unused
from tests.images import numbered
from tests.proof.pipeline.logs import BEGAN, Question, answer, loaded, log_frame, logged, random_questions
from tests.proof.pipeline.mends import created_by
from tests.proof.pipeline.random_stores import acl_frame, random_acls


def _results(acls: list[StandardAcl], asked: list[Question], *, allow_everyone: bool) -> list[str]:
    image = loaded(acls, allow_everyone=allow_everyone)
    return [answer(image, question)[0] for question in asked]


@pytest.mark.parametrize(("seed", "allow_everyone"), [(1, False), (2, True), (3, True)])
def test_unused_acls_can_go_alone_and_together(spark: SparkSession, *, seed: int, allow_everyone: bool) -> None:
    acls = random_acls(seed, 4 * seed)
    asked = random_questions(seed, 150)
    log = logged(loaded(acls, allow_everyone=allow_everyone), asked)
    # An ACL that decided in the log is used, though it decides no more.
    stale = next(row for row in log if row["acl_id"] is not None)
    log.append({**stale, "acl_id": str(acls[-1].id)})
    frame, decisions = acl_frame(spark, acls), log_frame(spark, log)
    replayed = replay(frame, questions(decisions), allow_everyone=allow_everyone, buckets=3).persist()
    created = [(str(acl.id), BEGAN + timedelta(days=number % 2)) for number, acl in enumerate(acls)]
    ages = spark.createDataFrame(created, "id string, created_at timestamp")

    def idle(judged: DataFrame) -> DataFrame:
        return unused(frame, replayed, decisions, log="the log", allow_everyone=allow_everyone, judged=judged)

    found = mended(idle(ages), KLAMM).collect()
    judged = idle(ages.where(sf.col("created_at") <= BEGAN))
    ids = {UUID(row["acl_id"]) for row in found}
    young = {UUID(acl_id) for acl_id, when in created if when > BEGAN}
    assert {UUID(row["acl_id"]) for row in judged.select("acl_id").collect()} == ids - young
    replayed.unpersist()
    before = _results(acls, asked, allow_everyone=allow_everyone)
    assert _results([acl for acl in acls if acl.id not in ids], asked, allow_everyone=allow_everyone) == before
    for gone in ids:
        assert _results([acl for acl in acls if acl.id != gone], asked, allow_everyone=allow_everyone) == before
    # What decided is not among them, and of the others few are kept for allow.everyone.if.no.acl.found.
    deciding = {UUID(row["acl_id"]) for row in log if row["acl_id"] is not None}
    assert not deciding & ids
    # No DENY is, though some decide nothing: that nobody runs into it is no reason to take it away.
    denying = {acl.id for acl in acls if acl.binding.permission_type is AclPermissionType.DENY}
    assert denying - deciding
    assert not denying & ids
    kept = {acl.id for acl in acls} - ids - deciding - denying
    assert len(ids) > len(acls) // 10
    assert all(row["kind"] == "UNUSED" and len(row["mend"]) == 1 and row["used"] == 0 for row in found)
    if allow_everyone:
        assert len(kept) <= len({(row["resource_type"], row["resource_name"]) for row in log})


def _narrowed(acls: list[StandardAcl], findings: list[Row]) -> list[StandardAcl]:
    gone = {row["acl_id"] for row in findings}
    bindings = [acl.binding for acl in acls if str(acl.id) not in gone]
    bindings += [created_by(line) for row in findings for line in row["mend"][:-1]]
    return numbered(bindings)


def _store(seed: int, *, base: bool) -> list[StandardAcl]:
    topic, allow = ResourceType.TOPIC, AclPermissionType.ALLOW
    literal, prefixed = PatternType.LITERAL, PatternType.PREFIXED
    bindings = [
        AclBinding(topic, "*", literal, "User:alice", "*", AclOperation.ALL, allow),
        AclBinding(topic, "o", prefixed, "User:*", "10.0.0.0/8", AclOperation.READ, allow),
        AclBinding(topic, "or", prefixed, "User:bob", "*", AclOperation.WRITE, allow),
        AclBinding(topic, "orders-7", literal, "User:bob", "*", AclOperation.READ, AclPermissionType.DENY),
        AclBinding(topic, "orders-1", prefixed, "User:bob", "*", AclOperation.ALL, allow),
        AclBinding(ResourceType.GROUP, "*", literal, "User:*", "*", AclOperation.READ, allow),
    ]
    bindings += [acl.binding for acl in random_acls(seed, 2) if base]
    return numbered(bindings)


def _asked(seed: int) -> list[Question]:
    names = [f"orders-{number}" for number in (1, 3, 7)]
    asked: list[Question] = [
        (principal, host, operation, "TOPIC", name)
        for principal in ("User:alice", "User:bob", "User:carol")
        for host in ("10.0.0.1", "192.168.0.1")
        for operation in ("READ", "WRITE", "DESCRIBE")
        for name in names
    ]
    asked += [("User:é😀", "10.0.0.1", "READ", "GROUP", name) for name in names]
    return [*asked, *random_questions(seed, 60)]


@pytest.mark.parametrize("allow_everyone", [False, True])
def test_broad_acls_can_be_narrowed_without_a_decision_changing(spark: SparkSession, *, allow_everyone: bool) -> None:
    acls, asked = _store(5, base=False), _asked(5)
    findings = _broad(spark, acls, asked, allow_everyone=allow_everyone)
    mended = [row for row in findings if row["mend"]]
    before = _results(acls, asked, allow_everyone=allow_everyone)
    assert _results(_narrowed(acls, mended), asked, allow_everyone=allow_everyone) == before
    for row in mended:
        assert _results(_narrowed(acls, [row]), asked, allow_everyone=allow_everyone) == before
        assert row["used"] < 0.2 * row["covered"]
        assert 2 <= len(row["mend"]) <= 21
        assert "--remove" in row["mend"][-1]
        assert all("--add" in line or line.startswith("#") for line in row["mend"][:-1])
    found = {(row["principal"], row["resource_name"], row["pattern_type"]): row for row in findings}
    assert ("User:bob", "orders-1", "PREFIXED") not in found
    if allow_everyone:
        # Without the broad ones orders-7 would be open to those who are denied it now.
        return
    # DESCRIBE comes with WRITE.
    assert found["User:bob", "or", "PREFIXED"]["mend"][:-1] == [
        'klamm acls --klamm "${KLAMM:?}" --add --allow-principal User:bob --allow-host '
        f"'*' --operation Write --topic orders-{number} --resource-pattern-type LITERAL"
        for number in (3, 7)
    ]
    assert len(found) >= 3


def test_where_too_much_would_be_needed_the_finding_says_how_many(spark: SparkSession) -> None:
    acls = _store(5, base=False)[:1]
    asked: list[Question] = [("User:alice", "10.0.0.1", "READ", "TOPIC", f"t{number}") for number in range(30)]
    (row,) = _broad(spark, acls, asked, allow_everyone=False, more=500)
    assert (row["covered"], row["used"], row["mend"]) == (530, 30, [])
    assert "it would take 30 narrower ACLs" in row["why"]
    star: list[Question] = [("User:alice", "10.0.0.1", "READ", "TOPIC", "*")]
    (row,) = _broad(spark, acls, star, allow_everyone=False, more=50)
    assert row["mend"] == []
    assert "can't be allowed by a narrower ACL" in row["why"]


def _broad(
    spark: SparkSession, acls: list[StandardAcl], asked: list[Question], *, allow_everyone: bool, more: int = 40
) -> list[Any]:
    frame, decisions = (
        acl_frame(spark, acls),
        log_frame(spark, logged(loaded(acls, allow_everyone=allow_everyone), asked)),
    )
    known = [(kind, f"orders-9{number}") for kind in ("TOPIC", "GROUP") for number in range(more)]
    resources: DataFrame = spark.createDataFrame(known, "resource_type string, resource_name string")
    nodes = nodes_of(resources.unionByName(seen_resources(decisions)), masks_of(frame))
    replayed = replay(frame, questions(decisions), allow_everyone=allow_everyone, buckets=2)
    broad = over_broad(frame, replayed, nodes, allow_everyone=allow_everyone)
    return mended(narrowed(broad, replayed, "the log"), KLAMM).collect()
