"""Core itself, run in Spark by buckets, answers as core does on one image of all ACLs."""

from collections import Counter

import pytest
from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as sf

from app.core.kafka.codes import WILDCARD_PRINCIPAL
from app.pipeline.access import replay as replaying
from app.pipeline.access.answers import AFTER, BEFORE, BOTH
from app.pipeline.access.replay import questions, replay, replay_change
from tests.proof.pipeline.logs import BEGAN, SUPER, Question, answer, loaded, log_frame, logged, random_questions
from tests.proof.pipeline.random_stores import acl_frame, random_acls

ASKED = ("principal", "host", "operation", "resource_type", "resource_name")


def _question(row: Row) -> Question:
    return row["principal"], row["host"], row["operation"], row["resource_type"], row["resource_name"]


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("allow_everyone", [False, True])
def test_every_question_gets_the_answer_of_core_on_all_acls(
    spark: SparkSession, *, seed: int, allow_everyone: bool
) -> None:
    acls = random_acls(seed, (3, 9, 40)[seed - 1])
    image = loaded(acls, allow_everyone=allow_everyone)
    log = logged(image, random_questions(seed, 2_000))
    asked = questions(log_frame(spark, log))
    answered = replay(acl_frame(spark, acls), asked, allow_everyone=allow_everyone, buckets=5).collect()
    assert {_question(row): (row["result"], row["rule"], row["acl_id"]) for row in answered} == {
        (row["principal"], row["host"], row["operation"], row["resource_type"], row["resource_name"]): (
            row["result"],
            row["rule"],
            row["acl_id"],
        )
        for row in log
    }
    assert sum(row["decisions"] for row in answered) == len(log)
    assert {row["rule"] for row in answered} >= {"SuperUser", "MatchingAcl", "DefaultDeny"}
    assert all(row["allowed"] == (row["decisions"] if row["result"] == "ALLOWED" else 0) for row in answered)


@pytest.mark.parametrize("everyone_changes", [False, True])
@pytest.mark.parametrize("allow_everyone", [False, True])
def test_a_change_is_answered_on_both_sides(
    spark: SparkSession, *, everyone_changes: bool, allow_everyone: bool
) -> None:
    acls = random_acls(11, 40)
    touched = [acl for acl in acls if (acl.binding.principal == WILDCARD_PRINCIPAL) == everyone_changes]
    gone, new = {acl.id for acl in touched[::3]}, {acl.id for acl in touched[1::3]}
    sides = {acl.id: BEFORE if acl.id in gone else AFTER if acl.id in new else BOTH for acl in acls}
    before, after = (
        loaded([acl for acl in acls if sides[acl.id] & side], allow_everyone=allow_everyone) for side in (BEFORE, AFTER)
    )
    asked = random_questions(12, 3_000)
    bits = spark.createDataFrame([(str(acl_id), side) for acl_id, side in sides.items()], "id string, sides int")
    answered = replay_change(
        acl_frame(spark, acls).join(bits, "id"),
        questions(log_frame(spark, logged(before, asked))),
        allow_everyone=allow_everyone,
        buckets=3,
    ).collect()
    assert len(answered) == len(set(asked))
    flips = 0
    for row in answered:
        question = _question(row)
        assert (row["result"], row["rule"], row["acl_id"]) == answer(before, question)
        assert (row["after_result"], row["after_rule"], row["after_acl_id"]) == answer(after, question)
        flips += row["result"] != row["after_result"]
    assert flips > 20


def test_one_bucket_and_many_and_no_acls_at_all(spark: SparkSession) -> None:
    acls = random_acls(21, 8)
    image = loaded(acls, allow_everyone=True)
    asked = questions(log_frame(spark, logged(image, random_questions(22, 500))))
    frame = acl_frame(spark, acls)
    one, many = (replay(frame, asked, allow_everyone=True, buckets=n) for n in (1, 20))
    assert one.exceptAll(many).isEmpty()
    empty = replay(frame.limit(0), asked, allow_everyone=False, buckets=2)
    assert {
        (row["principal"] == SUPER, row["rule"]) for row in empty.select("principal", "rule").distinct().collect()
    } == {
        (True, "SuperUser"),
        (False, "DefaultDeny"),
    }


@pytest.mark.parametrize("allow_everyone", [False, True])
def test_who_asks_most_is_split_into_several_buckets(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, *, allow_everyone: bool
) -> None:
    monkeypatch.setattr(replaying, "LEAST_SPLIT", 1)
    acls = random_acls(31, 60)
    image = loaded(acls, allow_everyone=allow_everyone)
    log = logged(image, [*random_questions(32, 2_000, ["User:alice"]), *random_questions(33, 300)])
    asked = questions(log_frame(spark, log))
    answered = replay(acl_frame(spark, acls), asked, allow_everyone=allow_everyone, buckets=6)
    rows = answered.withColumn("bucket", sf.spark_partition_id()).collect()
    wanted = {tuple(row[name] for name in ASKED): (row["result"], row["rule"], row["acl_id"]) for row in log}
    assert {_question(row): (row["result"], row["rule"], row["acl_id"]) for row in rows} == wanted
    assert len(rows) == len(wanted)
    of_most = Counter(row["bucket"] for row in rows if row["principal"] == "User:alice")
    assert len(of_most) >= 4
    assert max(of_most.values()) < len(rows) / 2
    assert {len({row["bucket"] for row in rows if row["principal"] == SUPER})} == {1}


def test_decisions_become_questions_with_counts_and_times(spark: SparkSession) -> None:
    image = loaded([], allow_everyone=False)
    question: Question = ("User:é😀", "10.0.0.1", "READ", "TOPIC", "a")
    log = logged(image, [question, (SUPER, *question[1:]), question, question])
    log[2] |= {"result": "ALLOWED", "rule": "DefaultAllow"}
    # The same person before and after it became a super user: two questions.
    log[3] |= {"result": "ALLOWED", "rule": "SuperUser"}
    rows = questions(log_frame(spark, log))
    minutes = [
        ((sf.unix_seconds(name) - int(BEGAN.timestamp())) / 60).alias(name) for name in ("first_time", "last_time")
    ]
    found = rows.select("principal", "is_super_user", "decisions", "allowed", *minutes).collect()
    assert {tuple(row) for row in found} == {
        ("User:é😀", False, 2, 1, 0, 2),
        ("User:é😀", True, 1, 1, 3, 3),
        (SUPER, True, 1, 1, 1, 1),
    }
