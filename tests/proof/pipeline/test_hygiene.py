import csv
from collections import defaultdict
from datetime import datetime, timedelta

import pytest
from pyspark.sql import SparkSession

from app.console.findings import last_found
from app.console.usage import read_uses
from app.core.kafka.bindings import AclBinding, StandardAcl
from app.core.kafka.codes import AclPermissionType, PatternType, ResourceType
from app.pipeline.hygiene.findings import KINDS
from tests.proof.pipeline.hygiene_runs import Run
from tests.proof.pipeline.logs import BEGAN, answer, loaded, random_questions
from tests.proof.pipeline.random_stores import random_acls

LISTED = [("TOPIC", "abcx"), ("GROUP", "zz"), ("USER", "h")]


@pytest.fixture(scope="module")
def run(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Run:
    acls, asked = random_acls(5, per_type=25), random_questions(6, 400)
    return Run(spark, tmp_path_factory.mktemp("hygiene"), acls, asked, LISTED)


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
    assert run.ids("DETACHED") == expected - run.ids("VOID", "REDUNDANT")
    whys = [row["why"] for row in run.findings if row["kind"] == "DETACHED"]
    assert {why.partition("`")[0] for why in whys} <= {
        beginning.format(each.name.lower())
        for each in ResourceType
        for beginning in ("no {} ", "no known {} begins with ")
    }
    assert all("list.csv and 400 logged decisions" in why or " in 400 logged decisions" in why for why in whys)


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


def test_the_console_lists_what_was_found(run: Run) -> None:
    found = last_found(str(run.csv.parent / "home"))
    assert found is not None
    assert found.manifest.counts == run.manifest["counts"]
    by_id = {row["acl_id"]: row for row in run.findings}
    assert {str(each.acl_id) for each in found.findings} == by_id.keys()
    for each in found.findings:
        row = by_id[str(each.acl_id)]
        assert (each.kind, each.why, each.is_mended) == (row["kind"], row["why"], bool(row["mend"]))
        assert AclBinding.from_words(each.acl).words == tuple(row[name] for name in AclBinding._fields)
        added = [command for command in row["mend"] if " --add " in command]
        assert len(each.narrower) >= len(added), "what kafka-acls can't say is here, too"


def test_the_console_finds_when_each_acl_and_principal_was_last_used(run: Run) -> None:
    image, last = loaded(run.acls, allow_everyone=False), dict[str, datetime]()
    for number, question in enumerate(run.asked):
        for each in (question[0], answer(image, question)[2]):
            if each is not None:
                last[each] = BEGAN + timedelta(minutes=number)
    acls = {str(acl.id) for acl in run.acls}
    assert 0 < len(last.keys() & acls) < len(acls)
    found = read_uses(str(run.csv.parent / "home"), {*last, *acls, "User:nobody"})
    assert found.times == last


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
