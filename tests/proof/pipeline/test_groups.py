"""Decisions about callers with groups, asked again of core in buckets, before and after a change."""

from collections.abc import Sequence
from random import Random
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

from app.core.grouped import authorization_of
from app.core.groups import groups_of
from app.core.image import AuthorizerImage
from app.core.kafka.bindings import StandardAcl
from app.core.kafka.codes import AclOperation, ResourceType
from app.core.kafka.hosts import parse_address
from app.pipeline.access import replay as replaying
from app.pipeline.access.answers import AFTER, BEFORE, BOTH
from app.pipeline.access.replay import questions, replay_change
from app.pipeline.history.decision_log import uses_of
from tests.images import numbered
from tests.proof.pipeline.logs import loaded, log_frame, logged, random_questions
from tests.proof.pipeline.random_stores import acl_frame, random_acls

GROUPS = (None, None, ["a"], ["b"], ["a", "b"], ["*", "a", "unknown"])


def acls_of_groups(seed: int) -> list[StandardAcl]:
    """Half of them are of groups."""
    draw = Random(seed)
    of_groups = [f"Group:{each}" for each in "ab*"]
    acls = (each.binding for each in random_acls(seed, 15))
    return numbered(each._replace(principal=draw.choice((each.principal, *of_groups[:2]))) for each in acls)


def answer(image: AuthorizerImage, row: Any) -> tuple[str, str, str | None]:  # noqa: ANN401 - a row of Spark's or the log's
    caller = authorization_of(image, row["principal"], parse_address(row["host"]), groups_of(row["groups"]))
    operation, kind = AclOperation[row["operation"]], ResourceType[row["resource_type"]]
    said = caller.decision(operation, kind, row["resource_name"])
    return said.verdict.result.value, said.verdict.rule_word, None if said.acl is None else str(said.acl.id)


def logged_with_groups(image: AuthorizerImage, seed: int, count: int) -> list[dict[str, Any]]:
    draw, rows = Random(seed), list[dict[str, Any]]()
    for row in logged(image, random_questions(seed, count)):
        asked = {**row, "groups": draw.choice(GROUPS)}
        rows.append({**asked, **dict(zip(("result", "rule", "acl_id"), answer(image, asked), strict=True))})
    return rows


def sides_of(acls: Sequence[StandardAcl], touched: Sequence[str]) -> dict[StandardAcl, int]:
    changing = [acl for acl in acls if acl.binding.principal in touched]
    gone, new = {acl.id for acl in changing[::3]}, {acl.id for acl in changing[1::3]}
    return {acl: BEFORE if acl.id in gone else AFTER if acl.id in new else BOTH for acl in acls}


@pytest.mark.parametrize(
    "touched",
    [
        ["Group:a"],
        ["User:alice"],
        ["User:*"],
        ["Group:b", "User:bob"],
    ],
    ids=str,
)
def test_both_sides_of_a_change_are_as_core_decides_with_groups(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, touched: list[str]
) -> None:
    monkeypatch.setattr(replaying, "LEAST_SPLIT", 1)
    sides = sides_of(acls_of_groups(5), touched)
    before, after = (
        loaded([acl for acl, bits in sides.items() if bits & side], allow_everyone=True) for side in (BEFORE, AFTER)
    )
    bits = spark.createDataFrame([(str(acl.id), side) for acl, side in sides.items()], "id string, sides int")
    log = log_frame(spark, logged_with_groups(before, 7, 1_500))
    asked = questions(uses_of(log.withColumn("day", sf.to_date("time"))))
    changed = replay_change(acl_frame(spark, sides).join(bits, "id"), asked, allow_everyone=True, buckets=4).collect()
    for row in changed:
        assert (row["result"], row["rule"], row["acl_id"]) == answer(before, row)
        assert (row["after_result"], row["after_rule"], row["after_acl_id"]) == answer(after, row)
    assert any(row["result"] != row["after_result"] and row["groups"] for row in changed)
    assert sum(row["decisions"] for row in changed) == 1_500
