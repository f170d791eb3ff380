"""`propose` on random stores and logs: the same as core proposes by a plain reading of the log, and core agrees."""

import argparse
import io
import json
from collections import defaultdict
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from pyspark.sql import SparkSession

from app.core.access.proposal import Proposal, Question, prefixes_of, propose
from app.core.authorize import Authorization
from app.core.epochs import Epochs
from app.core.grouped import authorization_of
from app.core.groups import groups_of
from app.core.kafka.bindings import AclBinding, StandardAcl
from app.core.kafka.codes import AclOperation, AclPermissionType, PatternType, ResourceType
from app.core.kafka.configs import AuthorizerConfig
from app.core.kafka.hosts import parse_address
from app.pipeline.access import proposals
from app.pipeline.access.proposals import UnprovenError
from app.pipeline.context import JobContext
from app.pipeline.history.snapshot import Snapshot, save_snapshot
from app.pipeline.jobs.propose import JOB
from app.pipeline.spark.errors import PipelineError
from app.pipeline.spark.progress import Console
from app.pipeline.spark.run_metrics import RunMetrics
from app.pipeline.spark.storage import Home
from tests.images import binding_of, image_of, numbered
from tests.proof.pipeline.logs import loaded, log_frame, logged, random_questions, save_log
from tests.proof.pipeline.random_stores import CALLERS, acl_frame, random_acls

TEAM = "User:"
READ, ALLOW, DENY = AclOperation.READ, AclPermissionType.ALLOW, AclPermissionType.DENY
TOPIC, LITERAL = ResourceType.TOPIC, PatternType.LITERAL


@dataclass
class Proposed:
    """What the job has left."""

    status: int
    said: list[str]
    acls: list[AclBinding]


@dataclass
class Scene:
    """A home with a snapshot and a log, in which some ACLs have changed half way."""

    spark: SparkSession
    home: Home
    acls: list[StandardAcl]
    rows: list[dict[str, Any]]

    def propose(self, folder: Path, *words: str) -> Proposed:
        parser, results, output = argparse.ArgumentParser(), io.StringIO(), folder / "wanted.json"
        JOB.add_arguments(parser)
        console = Console("propose", quiet=True, results=results)
        context = JobContext(self.spark, self.home, console, RunMetrics("propose"))
        status = JOB.run(context, parser.parse_args([*words, "--output", str(output)]))
        acls = [binding_of(each) for each in json.loads(output.read_text())["bindings"]]
        return Proposed(status, results.getvalue().splitlines(), acls)

    def expected(self, principal: str) -> tuple[Proposal, list[tuple[Question, bool]]]:
        """By a plain reading of the log; and all questions that no DENY settles, with their last answers."""
        last = {_question(row): row["result"] == "ALLOWED" for row in self.rows if row["principal"] == principal}
        denies = [acl for acl in self.acls if acl.binding.permission_type is DENY]
        image = loaded(denies, allow_everyone=False)
        settled = [(each, was) for each, was in last.items() if not _is_forbidden(image, principal, each)]
        names = {(row["resource_type"], row["resource_name"]) for row in self.rows}
        names |= {
            (acl.binding.resource_type.name, acl.binding.resource_name)
            for acl in self.acls
            if acl.binding.pattern_type is LITERAL and acl.binding.resource_name != "*"
        }
        crowds: defaultdict[tuple[ResourceType, str], int] = defaultdict(int)
        for kind, name in names:
            for prefix in prefixes_of(name):
                crowds[ResourceType[kind], prefix] += 1
        used = [each for each, was in settled if was]
        return propose(principal, used, [each for each, was in settled if not was], crowds), settled


def _question(row: dict[str, Any]) -> Question:
    return Question(
        ResourceType[row["resource_type"]], row["resource_name"], AclOperation[row["operation"]], row["host"]
    )


def _is_theirs(principal: str) -> bool:
    """An ACL for somebody who calls himself `User:*` would be one for everybody."""
    return principal.startswith(TEAM) and principal != "User:*"


def _decided(image: Any, principal: str, question: Question) -> Any:  # noqa: ANN401 - a verdict
    kind, name, operation, host = question
    return Authorization(image, principal, parse_address(host)).decide(operation, kind, name)


def _is_forbidden(image: Any, principal: str, question: Question) -> bool:  # noqa: ANN401 - an image
    return bool(_decided(image, principal, question).rule_word == "MatchingAcl")


@pytest.fixture(scope="module")
def scene(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Scene:
    home = Home(str(tmp_path_factory.mktemp("propose") / "home"))
    before = random_acls(31, per_type=14)
    later = AclBinding(TOPIC, "later-denied", LITERAL, "User:*", "*", AclOperation.ALL, DENY)
    acls = numbered([*(acl.binding for acl in random_acls(32, per_type=14)), later])
    asked = random_questions(33, 500)
    # Names that share a beginning: all of them are used, or one is not.
    regular = [
        (principal, "10.0.0.1", "READ", "TOPIC", f"{beginning}{number}")
        for principal in ("User:alice", "User:bob")
        for beginning in ("used-", "some.")
        for number in range(4)
        if (principal, beginning, number) != ("User:alice", "some.", 3)
    ]
    regular.append(("User:alice", "10.0.0.1", "READ", "TOPIC", later.resource_name))
    wide = [AclBinding(TOPIC, "*", LITERAL, each, "*", READ, ALLOW) for each in ("User:alice", "User:bob")]
    rows = [
        *logged(loaded(before, allow_everyone=False), asked[:300]),
        *logged(loaded(acls, allow_everyone=True), asked[200:]),
        *logged(loaded(numbered(wide), allow_everyone=False), regular),
    ]
    for number, row in enumerate(rows):
        row["time"] = datetime(2026, 11, 1, 0, number // 60, number % 60, tzinfo=UTC)
    as_of = datetime(2026, 11, 22, tzinfo=UTC)
    save_snapshot(spark, home, Snapshot(acl_frame(spark, acls), {}, "c", Epochs.only(UUID(int=1)), 9, as_of, "00"))
    save_log(home, log_frame(spark, rows))
    return Scene(spark, home, acls, rows)


def test_a_team_gets_what_core_proposes_and_core_agrees(scene: Scene, tmp_path: Path) -> None:
    proposed = scene.propose(tmp_path, "--team", TEAM, "--buckets", "2")
    principals = sorted({row["principal"] for row in scene.rows if _is_theirs(row["principal"])})
    assert any(row["principal"] == "User:*" for row in scene.rows)
    assert len(principals) > 3
    expected = {each: scene.expected(each) for each in principals}
    theirs = {acl.binding for acl in scene.acls if _is_theirs(acl.binding.principal)}
    denies = {acl for acl in theirs if acl.permission_type is DENY}
    assert set(proposed.acls) == denies.union(*(proposal.acls for proposal, _ in expected.values()))
    standing = [acl.binding for acl in scene.acls if acl.binding.permission_type is DENY]
    image = image_of(numbered(dict.fromkeys([*proposed.acls, *standing])), AuthorizerConfig())
    for principal, (proposal, settled) in expected.items():
        for question, was in settled:
            allowed = _decided(image, principal, question).allowed
            assert allowed is (was and question not in proposal.left_out), (principal, question)
    # A prefix is taken where all that exists was used, and not where one name was not.
    prefixes = {(acl.principal, acl.resource_name) for acl in proposed.acls if acl.resource_name in ("used-", "some.")}
    assert prefixes == {("User:alice", "used-"), ("User:bob", "used-"), ("User:bob", "some.")}
    said = "\n".join(proposed.said)
    for words in ("allowed to a super user", "DefaultAllow", "answered both ways", "an existing DENY forbids it now"):
        assert words in said
    assert proposed.status == 1
    gone = len(theirs - denies - set(proposed.acls))
    assert f"{gone:,} of today's {len(theirs - denies):,} would go" in said


def test_hosts_are_named_where_they_are_few(scene: Scene, tmp_path: Path) -> None:
    proposed = scene.propose(tmp_path, "--principal", CALLERS[0], "--hosts", "100")
    allowing = [acl for acl in proposed.acls if acl.permission_type is ALLOW]
    assert allowing
    assert {acl.principal for acl in allowing} == {CALLERS[0]}
    assert {acl.host for acl in allowing} <= {row["host"] for row in scene.rows if row["principal"] == CALLERS[0]}


def test_what_groups_gave_is_not_proposed_as_its_own_and_said(spark: SparkSession, tmp_path: Path) -> None:
    def read(name: str, principal: str = "User:alice", pattern: PatternType = LITERAL) -> AclBinding:
        return AclBinding(TOPIC, name, pattern, principal, "*", READ, ALLOW)

    own = ("mine.a", "mine.b", "mine.c", "pii.both", "gone-alone", "gone-in-groups")
    of_pii = (read("pii.", "Group:pii", PatternType.PREFIXED), read("mine.d", "Group:pii"))
    acls = numbered([*map(read, own), read("open", "User:*"), *of_pii, read("old", "Group:old")])
    then, rows = loaded(acls, allow_everyone=False), list[dict[str, Any]]()
    for principal, groups, names in (
        ("User:alice", None, ("pii.a", "gone-alone")),
        ("User:alice", ["pii"], (*own[:4], "pii.a", "pii.b", "mine.d", "open")),
        ("User:alice", ["old", "pii"], ("gone-in-groups", "old", "unknown", "pii.b")),
        ("User:bob", ["pii"], ("pii.a",)),
    ):
        for row in logged(then, [(principal, "10.0.0.1", "READ", "TOPIC", name) for name in names]):
            caller = authorization_of(then, principal, parse_address("10.0.0.1"), groups_of(groups))
            said = caller.decision(READ, TOPIC, row["resource_name"])
            by = None if said.acl is None else str(said.acl.id)
            rows.append(
                {**row, "result": said.verdict.result.value, "rule": said.verdict.rule_word, "acl_id": by}
                | {"groups": groups}
            )
    standing = [acl for acl in acls if not acl.binding.resource_name.startswith(("gone", "old"))]
    home = Home(str(tmp_path / "home"))
    as_of = datetime(2026, 11, 22, tzinfo=UTC)
    save_snapshot(spark, home, Snapshot(acl_frame(spark, standing), {}, "c", Epochs.only(UUID(int=1)), 9, as_of, "00"))
    save_log(home, log_frame(spark, rows))
    scene = Scene(spark, home, standing, rows)
    proposed = scene.propose(tmp_path, "--principal", "User:alice")
    assert set(proposed.acls) == {
        read(name) for name in ("mine.a", "mine.b", "mine.c", "pii.both", "open", "gone-alone")
    }
    said_words = "\n".join(proposed.said)
    assert "3 used questions were allowed by ACLs of groups (Group:pii): they stay with the groups" in said_words
    assert "2 used questions are left out: an ACL that is gone allowed them" in said_words
    assert proposed.status == 1
    with pytest.raises(PipelineError, match="User:bob has no allowed requests of its own"):
        scene.propose(tmp_path, "--principal", "User:bob")


def test_who_was_allowed_nothing_is_told(scene: Scene, tmp_path: Path) -> None:
    with pytest.raises(
        PipelineError, match=r"User:nobody has no allowed requests of its own in \d+ logged decisions, 2026"
    ):
        scene.propose(tmp_path, "--principal", "User:nobody")
    assert not list(tmp_path.iterdir())


def test_a_proposal_that_core_does_not_agree_with_is_not_written(
    scene: Scene, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def too_much(principal: str, *_: object, **__: object) -> Proposal:
        return Proposal((AclBinding(TOPIC, "*", LITERAL, principal, "*", AclOperation.ALL, ALLOW),), {})

    monkeypatch.setattr(proposals, "propose", too_much)
    with pytest.raises(UnprovenError, match=r"replayed with the proposal, .* is allowed") as raised:
        scene.propose(tmp_path, "--principal", CALLERS[0])
    assert raised.value.exit_code == 4
    assert not list(tmp_path.iterdir())
