"""Each ACL that can go is named once, and all that is proposed can be done together: by brute force on small stores."""

from datetime import UTC, datetime
from typing import Any

import pytest
from pyspark.sql import SparkSession

from app.core.authorize import Authorization
from app.core.kafka.bindings import StandardAcl
from app.core.kafka.codes import AclOperation, AclPermissionType, ResourceType
from app.core.kafka.configs import AuthorizerConfig
from app.core.kafka.hosts import parse_address
from tests.images import image_of, numbered
from tests.proof.pipeline.covering import covers, makes
from tests.proof.pipeline.hygiene_runs import Run
from tests.proof.pipeline.logs import Question, answer, loaded, random_questions
from tests.proof.pipeline.mends import created_by
from tests.proof.pipeline.random_stores import ENDS, alive, decisions, random_acls, with_ends

# Beside so many names the few that are asked for make a wide ACL over-broad.
LISTED = [("TOPIC", f"{beginning}{number}") for beginning in ("a", "ab", "abc-") for number in range(40)]
SEEDS = [16, 11, 12, 13, 14]


ENDING_SEEDS = (12, 16)


@pytest.fixture(scope="module", params=SEEDS)
def run(request: pytest.FixtureRequest, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Run:
    seed = request.param
    acls = random_acls(seed, per_type=12 + 20 * (seed % 3))
    if seed in ENDING_SEEDS:
        acls = with_ends(seed, acls)
    return Run(spark, tmp_path_factory.mktemp("hygiene"), acls, random_questions(seed, 120), LISTED)


def test_no_acl_is_named_twice_and_none_is_left_out(run: Run) -> None:
    named = [row["acl_id"] for row in run.findings]
    assert len(named) == len(set(named))
    for acl in run.acls:
        superfluous = any(makes(kind, by, acl) for by in run.acls for kind in ("VOID", "REDUNDANT"))
        lasting = acl.expires_at is None and acl.binding.permission_type is AclPermissionType.ALLOW
        idle = lasting and not any(_meets(acl, each) for each in run.asked)
        assert str(acl.id) in named or not (superfluous or idle), acl


def test_an_acl_goes_only_for_one_that_stays(run: Run) -> None:
    acls = {str(acl.id): acl for acl in run.acls}
    gone = {row["acl_id"] for row in run.findings if row["mend"]}
    for row in run.findings:
        if row["kind"] in ("VOID", "REDUNDANT"):
            by = acls[row["by_acl_id"]]
            assert makes(row["kind"], by, acls[row["acl_id"]])
            assert (row["by_acl_id"] in gone or row["by_acl_id"] in run.ids("OVER_BROAD")) is not bool(row["mend"])
        if row["kind"] == "REDUNDANT" and not row["mend"]:
            others = [by for by in run.acls if str(by.id) not in gone and by.expires_at is None]
            assert not any(_stays_and_covers(by, acls[row["acl_id"]], run) for by in others)
            assert "needed" in row["why"]


def test_removing_all_that_is_superfluous_changes_no_answer_whatsoever(run: Run) -> None:
    gone = {row["acl_id"] for row in run.findings if row["kind"] in ("VOID", "REDUNDANT") and row["mend"]}
    left = [acl for acl in run.acls if str(acl.id) not in gone]
    assert gone
    for at in _times(run):
        there, others = (image_of(alive(acls, at), AuthorizerConfig()) for acls in (left, run.acls))
        assert decisions(there) == decisions(others), at


def test_mending_everything_changes_no_answer_of_the_log(run: Run) -> None:
    for at in _times(run):
        there = alive(run.acls, at)
        before = _answers(there, run.asked)
        assert _answers(_mended(there, run.findings), run.asked) == before
        # Nor does mending a part of it, in whatever order.
        for kind in ("UNUSED", "OVER_BROAD", "DETACHED", "REDUNDANT", "VOID"):
            part = [row for row in run.findings if row["kind"] == kind]
            assert _answers(_mended(there, part), run.asked) == before
            assert _answers(_mended(there, [row for row in run.findings if row["kind"] != kind]), run.asked) == before


def test_an_acl_that_ends_is_not_judged_by_its_use(run: Run) -> None:
    ending = {str(acl.id) for acl in run.acls if acl.expires_at is not None}
    assert not ending & run.ids("UNUSED", "OVER_BROAD", "DETACHED")


def _times(run: Run) -> list[datetime | None]:
    """Now, and whenever ACLs have ended."""
    return [datetime(2026, 11, 22, tzinfo=UTC), *((*ENDS, None) if any(acl.expires_at for acl in run.acls) else ())]


def _stays_and_covers(by: StandardAcl, acl: StandardAcl, run: Run) -> bool:
    same = by.binding.permission_type is acl.binding.permission_type and by.id != acl.id
    return same and str(by.id) not in run.ids("OVER_BROAD") and covers(by.binding, acl.binding)


def _meets(acl: StandardAcl, question: Question) -> bool:
    """Whether the ACL applies to this question."""
    principal, host, operation, resource_type, name = question
    caller = Authorization(image_of([acl], AuthorizerConfig()), principal, parse_address(host))
    return caller.decide(AclOperation[operation], ResourceType[resource_type], name).rule_word == "MatchingAcl"


def _mended(acls: list[StandardAcl], findings: list[dict[str, Any]]) -> list[StandardAcl]:
    gone = {row["acl_id"] for row in findings if row["mend"]}
    made = [created_by(line) for row in findings if row["kind"] == "OVER_BROAD" for line in row["mend"][:-1]]
    return numbered(dict.fromkeys([*(acl.binding for acl in acls if str(acl.id) not in gone), *made]))


def _answers(acls: list[StandardAcl], asked: list[Question]) -> list[str]:
    image = loaded(acls, allow_everyone=False)
    return [answer(image, question)[0] for question in asked]
