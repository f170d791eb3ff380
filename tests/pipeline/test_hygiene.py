import argparse
import csv
import io
from collections import defaultdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

from app.core.kafka.bindings import StandardAcl
from app.core.kafka.codes import AclPermissionType, PatternType, ResourceType
from app.pipeline.context import JobContext
from app.pipeline.history.snapshot import Snapshot, save_snapshot
from app.pipeline.hygiene.findings import KINDS, load_findings
from app.pipeline.jobs import hygiene
from app.pipeline.spark.progress import Console
from app.pipeline.spark.run_metrics import RunMetrics
from app.pipeline.spark.storage import Home, write_document
from tests.pipeline.logs import answer, loaded, log_frame, logged, random_questions
from tests.pipeline.random_stores import acl_frame, random_acls

LISTED = [("TOPIC", "abcx"), ("GROUP", "zz"), ("USER", "h")]


class Run:
    """One run of the job over a random store and log, and what it left."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.acls = random_acls(5, per_type=25)
        self.asked = random_questions(6, 400)
        home = Home(str(folder / "home"))
        as_of = datetime(2026, 11, 22, tzinfo=UTC)
        save_snapshot(spark, home, Snapshot(acl_frame(spark, self.acls), {}, "c", str(UUID(int=1)), 9, as_of))
        rows = log_frame(spark, logged(loaded(self.acls, allow_everyone=False), self.asked))
        rows = rows.withColumns({"day": sf.to_date("time"), "batch": sf.lit(0)})
        rows.write.partitionBy("day", "batch").parquet(home.room("decisions", "log"))
        manifest = {"batch": 0, "decisions": len(self.asked)}
        write_document(spark, home.room("decisions", "manifests", "batch=0"), manifest)
        listed = folder / "list.csv"
        listed.write_text("resource_type,resource_name\n" + "".join(f"{kind},{name}\n" for kind, name in LISTED))
        parser, results = argparse.ArgumentParser(), io.StringIO()
        hygiene.add_arguments(parser)
        self.csv, self.script = folder / "found.csv", folder / "mend.sh"
        files = ["--resources", str(listed), "--csv", str(self.csv), "--script", str(self.script)]
        words = [*files, "--fail-on-findings", "--min-days", "0"]
        context = JobContext(spark, home, Console("hygiene", results=results), RunMetrics("hygiene"))
        self.status = hygiene.run(context, parser.parse_args(words))
        self.said = results.getvalue().splitlines()
        saved = load_findings(spark, home)
        assert saved is not None
        self.manifest = saved.manifest
        self.findings: list[dict[str, Any]] = [row.asDict() for row in saved.findings.collect()]

    def ids(self, *kinds: str) -> set[str]:
        """The ACLs with findings of these kinds."""
        return {row["acl_id"] for row in self.findings if row["kind"] in kinds}


@pytest.fixture(scope="module")
def run(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Run:
    return Run(spark, tmp_path_factory.mktemp("hygiene"))


def test_everything_that_is_found_can_go_together_without_a_logged_decision_changing(run: Run) -> None:
    gone = run.ids("REDUNDANT", "VOID", "UNUSED", "DETACHED")
    left = [acl for acl in run.acls if str(acl.id) not in gone]
    assert 0 < len(left) < len(run.acls)
    before, after = loaded(run.acls, allow_everyone=False), loaded(left, allow_everyone=False)
    for question in run.asked:
        assert answer(after, question)[0] == answer(before, question)[0], question


def test_detached_are_the_acls_that_cover_no_known_resource_of_a_known_type(run: Run) -> None:
    known = defaultdict(set)
    for resource_type, name in [*LISTED, *((question[3], question[4]) for question in run.asked)]:
        known[resource_type].add(name)
    expected = {str(acl.id) for acl in run.acls if _is_detached(acl, known[acl.binding.resource_type.name])}
    assert run.ids("DETACHED") == expected
    assert {row["why"] for row in run.findings if row["kind"] == "DETACHED" and row["resource_name"] == "**"} <= {
        f"no {kind} `**` is known" if pattern == "LITERAL" else f"no known {kind} begins with `**`"
        for kind in (each.name.lower() for each in ResourceType)
        for pattern in ("LITERAL", "PREFIXED")
    }


def test_no_deny_is_proposed_for_removal_for_lack_of_use(run: Run) -> None:
    denies = {str(acl.id) for acl in run.acls if acl.binding.permission_type is AclPermissionType.DENY}
    deciding = {answer(loaded(run.acls, allow_everyone=False), question)[2] for question in run.asked}
    assert denies - deciding, "some DENYs must have decided nothing"
    assert not denies & run.ids("UNUSED", "DETACHED", "OVER_BROAD", "VOID")
    removing = [row for row in run.findings if row["permission_type"] == "DENY" and row["mend"]]
    assert {row["kind"] for row in removing} <= {"REDUNDANT"}


def test_totals_files_and_exit_code_say_the_same(run: Run) -> None:
    counts = {kind: sum(row["kind"] == kind for row in run.findings) for kind in KINDS}
    assert run.manifest["counts"] == counts
    assert run.manifest["complete"]
    assert run.said[0] == ", ".join(f"{kind} {counts[kind]:,}" for kind in KINDS)
    assert run.status == 1
    with run.csv.open(encoding="utf-8", newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert sorted((row["kind"], row["acl_id"]) for row in rows) == sorted(
        (row["kind"], row["acl_id"]) for row in run.findings
    )
    script = run.script.read_text(encoding="utf-8")
    assert all(command in script for row in run.findings for command in row["mend"])


def _is_detached(acl: StandardAcl, known: set[str]) -> bool:
    name, binding = acl.binding.resource_name, acl.binding
    if binding.resource_type is ResourceType.CLUSTER or not known:
        return False
    if binding.permission_type is AclPermissionType.DENY:
        # It may have been made for a name to come.
        return False
    if binding.pattern_type is PatternType.LITERAL:
        return name != "*" and name not in known
    return not any(each.startswith(name) for each in known)
