"""whoCan, whatCan, `klamm who` and `klamm what` against a real service: rights, and that authorize says the same."""

import csv
import io
import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.bodies import refusal
from tests.klamm import LIMIT_S, SUPER_USER, Json, Process, acl, action, context

KLAMM = str(Path(sys.executable).with_name("klamm"))
HOSTS = {"*": "192.0.2.7", "10.0.0.0/8": "10.9.9.9", "10.1.0.0/16": "10.1.2.3"}
"""ACL hosts, and a client of each that no narrower one has."""


@pytest.fixture(scope="module")
def filled(service: Process) -> Process:
    service.create(
        acl("reach-orders", "User:reach-a"),
        acl("reach-", "User:reach-a", "WRITE", pattern_type="PREFIXED", host="10.0.0.0/8"),
        acl("reach-orders", "User:reach-a", host="10.1.0.0/16", permission_type="DENY"),
        acl("reach-in-group", "Group:reach"),
        *(acl("reach-orders", f"User:reach-b{number:04}") for number in range(1_200)),
    )
    return service


def who(service: Process, **more: object) -> Json:
    body = {"context": context(SUPER_USER), "resource": {"resource_type": "TOPIC", "resource_name": "reach-orders"}}
    return service.post("/v1/who-can", {**body, **more})


def klamm(service: Process, *words: str, code: int = 0, principal: str = SUPER_USER) -> str:
    command = [KLAMM, *words, "--klamm", service.url, "--as", principal]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert done.returncode == code, (done.stdout, done.stderr)
    assert "Traceback" not in done.stderr
    return done.stdout if code == 0 else done.stderr


def test_authorize_says_what_each_row_says(filled: Process) -> None:
    rows = who(filled, limit=20)["rows"]
    assert len(rows) == 20
    for row in rows:
        for word in row["operations"] + row["denied"]:
            caller = context(row["principal"], HOSTS[row["host"]])
            body = {"context": caller, "actions": [action("reach-orders", word)]}
            assert filled.post("/v1/authorize", body)["results"] == [
                "ALLOWED" if word in row["operations"] else "DENIED"
            ]


def test_who_prints_all_pages_once(filled: Process) -> None:
    rows = json.loads(klamm(filled, "who", "topic:reach-orders", "--output", "json"))["rows"]
    assert len({(row["principal"], row["host"]) for row in rows}) == len(rows) == 1_203
    table = list(csv.DictReader(io.StringIO(klamm(filled, "who", "topic:reach-orders", "--output", "csv"))))
    assert [row["principal"] for row in table if row["rule"] == "MatchingAcl"] == [row["principal"] for row in rows]
    assert [row["principal"] for row in table if row["rule"] == "SuperUser"] == [SUPER_USER]


def test_what_prints_patterns_and_cuts(filled: Process) -> None:
    text = klamm(filled, "what", "User:reach-a")
    assert text.startswith(
        "What User:reach-a can do\n\n"
        "topic:reach- (PREFIXED: all names with this prefix) from 10.0.0.0/8: WRITE,\n    DESCRIBE\n"
    )
    assert "  except what these deny:\n    DENY READ for User:reach-a from 10.1.0.0/16 on topic:reach-orders" in text
    here = klamm(filled, "what", "User:reach-a", "--host", "10.1.2.3")
    assert "topic:reach-orders from 10.1.2.3: DESCRIBE; denied READ" in here


def test_what_lists_every_deny_of_a_pattern(filled: Process) -> None:
    filled.create(
        acl("reach-wide-", "User:reach-c", pattern_type="PREFIXED"),
        *(acl(f"reach-wide-{number}", "User:*", permission_type="DENY") for number in range(45)),
    )
    (row,) = json.loads(klamm(filled, "what", "User:reach-c", "--output", "json"))["rows"]
    assert len(row["cut_out"]) == row["cut_out_count"] == 45


def test_without_describe_on_the_cluster_nothing_is_told(filled: Process) -> None:
    body = {"context": context("User:reach-a"), "principal": "User:reach-a"}
    problem = refusal(filled.http.post("/v1/what-can", json=body), 403, "CLUSTER_AUTHORIZATION_FAILED")
    unknown = {**body, "principal": "User:nobody"}
    assert refusal(filled.http.post("/v1/what-can", json=unknown), 403, "CLUSTER_AUTHORIZATION_FAILED") == problem
    assert "Describe on the cluster" in klamm(filled, "who", "topic:x", code=1, principal="User:reach-a")


def test_what_was_typed_wrongly_is_refused_by_its_name(filled: Process) -> None:
    assert "not a single operation" in klamm(filled, "who", "topic:x", "--operation", "all", code=2)
    assert "`nobody`" in klamm(filled, "what", "nobody", code=2)
    assert "--host" in klamm(filled, "what", "User:a", "--host", "10.0.0.0/8", code=2)
    assert "`orders`" in klamm(filled, "who", "orders", code=2)


def test_assertions_are_refuted_by_what_authorize_answers(filled: Process, tmp_path: Path) -> None:
    path = tmp_path / "access.yaml"
    path.write_text(
        "configs: {super.users: User:other}\n"
        "tests:\n"
        "- User:reach-a may READ topic:reach-orders from 10.0.0.0/8\n"
        "- nobody but User:reach-a may WRITE topic:reach-*\n"
        "- nobody may READ topic:reach-orders\n"
        "- nobody may READ topic:reach-in-group\n"
    )
    out = tmp_path / "report.json"
    command = [KLAMM, "test", str(path), "--output", "json", "--klamm", filled.url, "--as", SUPER_USER]
    with out.open("wb") as file:
        done = subprocess.run(command, stdout=file, stderr=subprocess.PIPE, timeout=LIMIT_S, check=False)
    assert (done.returncode, done.stderr) == (1, b"")
    report = json.loads(out.read_text())
    assert [each["holds"] for each in report["results"]] == [False, True, False, False]
    assert report["results"][3]["witnesses"][0]["groups"] == ["reach"]
    assert "properties differ" in report["notes"][0]
    witnesses = [witness for each in report["results"] for witness in each["witnesses"]]
    assert len(witnesses) > 3
    for each in witnesses:
        groups = {"groups": each["groups"]} if "groups" in each else {}
        caller = context(each["principal"], each["client_address"], **groups)
        asked = {"context": caller, "actions": [action(each["resource_name"], each["operation"])]}
        assert filled.post("/v1/authorize", asked)["results"] == [each["result"]]


def test_a_service_that_refuses_is_no_failed_assertion(filled: Process, tmp_path: Path) -> None:
    path = tmp_path / "access.yaml"
    path.write_text("- User:reach-a may READ topic:reach-orders\n")
    assert "Describe on the cluster" in klamm(filled, "test", str(path), code=3, principal="User:reach-a")
