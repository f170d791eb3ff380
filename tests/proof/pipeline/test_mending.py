"""Findings of several kinds about the same ACLs: whoever mends all of them, or some, loses and opens nothing."""

import argparse
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID

from pyspark.sql import SparkSession

from app.core.epochs import Epochs
from app.core.kafka.bindings import AclBinding, StandardAcl
from app.core.kafka.codes import AclOperation, AclPermissionType, PatternType, ResourceType
from app.pipeline.context import JobContext
from app.pipeline.history.snapshot import Snapshot, save_snapshot
from app.pipeline.hygiene.findings import load_findings
from app.pipeline.jobs import hygiene
from app.pipeline.spark.progress import Console
from app.pipeline.spark.run_metrics import RunMetrics
from app.pipeline.spark.storage import Home
from tests.images import numbered
from tests.proof.pipeline.logs import SUPER, Question, answer, loaded, log_frame, logged, save_log
from tests.proof.pipeline.mends import created_by
from tests.proof.pipeline.random_stores import acl_frame

TOPIC, GROUP, PRODUCER = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.TRANSACTIONAL_ID
LITERAL, PREFIXED = PatternType.LITERAL, PatternType.PREFIXED
ALLOW, DENY = AclPermissionType.ALLOW, AclPermissionType.DENY
READ, WRITE, ALL = AclOperation.READ, AclOperation.WRITE, AclOperation.ALL

OPENING = [
    AclBinding(TOPIC, "a", PREFIXED, "User:alice", "*", READ, ALLOW),
    AclBinding(TOPIC, "a9", LITERAL, "User:bob", "*", READ, ALLOW),
]
HELD_DOWN = [
    AclBinding(TOPIC, "t9", LITERAL, "User:alice", "*", READ, ALLOW),
    AclBinding(TOPIC, "t9", LITERAL, "User:*", "*", ALL, DENY),
]
TWICE = [
    AclBinding(PRODUCER, "x1", LITERAL, "User:carol", "*", WRITE, ALLOW),
    AclBinding(PRODUCER, "*", LITERAL, "User:carol", "*", WRITE, ALLOW),
]
NOT_SAID = [AclBinding(GROUP, "*", LITERAL, "User:dora", "*", READ, ALLOW)]
BY_SUPER_ONLY = [AclBinding(TOPIC, "a3", LITERAL, SUPER, "*", READ, ALLOW)]
CLOSED = ["--allow-everyone-if-no-acl-found", "false"]
ACLS = numbered([*OPENING, *HELD_DOWN, *TWICE, *NOT_SAID, *BY_SUPER_ONLY])


def _asked(principal: str, name: str, resource_type: str = "TOPIC") -> Question:
    return principal, "10.0.0.1", "WRITE" if resource_type == PRODUCER.name else "READ", resource_type, name


ASKED = [
    _asked("User:alice", "a0"),
    _asked("User:carol", "x1", PRODUCER.name),
    _asked("User:eve", "a9"),
    _asked("User:dora", " g1 ", "GROUP"),
    *(_asked(SUPER, f"a{number}") for number in range(20)),
    *(_asked(SUPER, f"g{number}", "GROUP") for number in range(20)),
    *(_asked(SUPER, f"x{number}", PRODUCER.name) for number in range(20)),
]


@dataclass
class Found:
    """What the job says about these ACLs by a log that was written on them."""

    rows: list[dict[str, Any]]
    said: list[str]

    def of(self, kind: str) -> set[AclBinding]:
        ids = {row["acl_id"] for row in self.rows if row["kind"] == kind}
        return {acl.binding for acl in ACLS if str(acl.id) in ids}


class Notes(Console):
    """Keeps what is said on the side."""

    def __init__(self) -> None:
        super().__init__("hygiene", quiet=True)
        self.notes: list[str] = []

    def say(self, text: str) -> None:
        """Nobody listens."""

    def note(self, text: str) -> None:
        self.notes.append(text)


def _find(
    spark: SparkSession,
    folder: Path,
    *,
    logged_with: bool,
    asked: list[Question],
    options: list[str],
    gone: list[StandardAcl] | None = None,
) -> Found:
    """By a log of the snapshot's offset; where ACLs have `gone` since, of the one before it."""
    home = Home(str(folder))
    as_of = datetime(2026, 11, 22, tzinfo=UTC)
    save_snapshot(spark, home, Snapshot(acl_frame(spark, ACLS), {}, "c", Epochs.only(UUID(int=1)), 9, as_of, "00"))
    there = [*ACLS, *(gone or [])]
    log = logged(loaded(there, allow_everyone=logged_with), asked)
    save_log(home, log_frame(spark, [{**row, "epoch": str(UUID(int=1)), "offset": 8 if gone else 9} for row in log]))
    parser, notes = argparse.ArgumentParser(), Notes()
    hygiene.add_arguments(parser)
    hygiene.run(JobContext(spark, home, notes, RunMetrics("hygiene")), parser.parse_args([*options, "--min-days", "0"]))
    saved = load_findings(spark, home)
    assert saved is not None
    return Found([row.asDict() for row in saved.findings.collect()], notes.notes)


def _mended(rows: list[dict[str, Any]]) -> list[StandardAcl]:
    gone = {row["acl_id"] for row in rows if row["mend"]}
    made = [created_by(line) for row in rows if row["kind"] == "OVER_BROAD" for line in row["mend"][:-1]]
    return numbered(dict.fromkeys([*(acl.binding for acl in ACLS if str(acl.id) not in gone), *made]))


def test_mending_all_that_is_found_loses_nothing_and_opens_nothing(spark: SparkSession, tmp_path: Path) -> None:
    found = _find(spark, tmp_path, logged_with=False, asked=ASKED, options=CLOSED)
    before, after = (loaded(acls, allow_everyone=False) for acls in (ACLS, _mended(found.rows)))
    assert {question: answer(after, question)[0] for question in ASKED} == {
        question: answer(before, question)[0] for question in ASKED
    }
    # The ALLOW may go; the DENY that holds it down stays until then.
    assert found.of("VOID") == {HELD_DOWN[0]}
    assert HELD_DOWN[1] not in found.of("UNUSED") | found.of("DETACHED")
    # Nobody may be told that the narrow one can go for the broad one, and the broad one for the narrow one.
    assert TWICE[1] in found.of("OVER_BROAD")
    assert found.of("REDUNDANT") == {TWICE[0]}
    (stays,) = (row for row in found.rows if row["kind"] == "REDUNDANT")
    assert not stays["mend"]
    assert stays["why"].endswith("; but if that one is removed or narrowed, this one is needed")
    # Whose super user's right may be taken away is not told from a time when it was there.
    assert BY_SUPER_ONLY[0] not in found.of("UNUSED")
    # What kafka-acls can't say is to be made by hand before anything is removed.
    (by_hand,) = (row for row in found.rows if row["kind"] == "OVER_BROAD" and row["resource_type"] == "GROUP")
    assert len(by_hand["mend"]) == 2
    assert all(line.startswith("#") for line in by_hand["mend"])


def test_what_nobody_knows_is_taken_for_open(spark: SparkSession, tmp_path: Path) -> None:
    """Whether resources without ACLs are open is in the start-up settings, which the store does not have."""
    denied = [_asked("User:alice", "a0"), _asked("User:eve", "a9")]
    unknown = _find(spark, tmp_path / "unknown", logged_with=True, asked=denied, options=[])
    assert any("--allow-everyone-if-no-acl-found false" in note for note in unknown.said)
    left = loaded(_mended(unknown.rows), allow_everyone=True)
    assert answer(left, denied[1])[0] == "DENIED"
    # Denied although there is no ACL: so they are closed, and the log has said so.
    bare = [*denied, _asked("User:eve", "nothing", "GROUP")]
    known = _find(
        spark, tmp_path / "known", logged_with=False, asked=[*bare, _asked("User:eve", "x", "USER")], options=[]
    )
    assert not any("--allow-everyone-if-no-acl-found false" in note for note in known.said)
    assert OPENING[1] in known.of("UNUSED")


def test_what_an_acl_closed_that_has_gone_since_tells_nothing_of_what_is_open_now(
    spark: SparkSession, tmp_path: Path
) -> None:
    denied = [_asked("User:alice", "a0"), _asked("User:eve", "g5", "GROUP"), _asked("User:eve", "gone", "USER")]
    gone = StandardAcl(UUID(int=1 << 100), AclBinding(ResourceType.USER, "gone", LITERAL, "User:zoe", "*", ALL, ALLOW))
    found = _find(spark, tmp_path, logged_with=True, asked=denied, options=[], gone=[gone])
    left = loaded(_mended(found.rows), allow_everyone=True)
    # Nobody but dora may read it; nor may everybody once her ACL, which nobody used, has gone.
    assert answer(left, denied[1])[0] == "DENIED"
    assert any("--allow-everyone-if-no-acl-found false" in note for note in found.said)
