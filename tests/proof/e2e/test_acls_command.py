"""`klamm acls` on a running service: Kafka's texts to the letter, prompts, exit codes, and forms for programs."""

import csv
import io
import json
import os
import pty
import random
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import yaml

from app.client.acls.command import main as run_acls
from app.core.kafka.bindings import KEEP, AclBinding, NewAcl
from app.formats.acl_bodies import acl_body
from app.formats.acl_entries import FormatLimitError
from app.formats.registry import format_named
from tests.acl_sets import acls_of, random_binding
from tests.acl_sets import entries as entries_in
from tests.kafka_acls_tool import FAILED, ordered, story
from tests.klamm import SUPER_USER, Process, acl

KLAMM = [
    sys.executable,
    "-c",
    "import sys; from app.client.acls.command import main; sys.exit(main(sys.argv[1:], sys.stdout))",
]
ROOT = Path(__file__).parents[3]
PATIENCE_S = 60.0
DN = "User:CN=Jo Doe, O=Big, Inc., C=DE"
NOBODY_ANSWERED = "no answer on standard input"


@pytest.fixture(autouse=True)
def _no_acls(service: Process) -> None:
    """Each test begins with an empty store."""
    service.delete({})


def klamm(
    service: Process, *words: str, answers: str = "", principal: str = SUPER_USER
) -> subprocess.CompletedProcess[str]:
    """The command as an operator runs it, in a process of its own."""
    done = subprocess.run(
        [*KLAMM, "--klamm", service.url, "--as", principal, *words],
        input=answers.encode(),
        capture_output=True,
        cwd=ROOT,
        timeout=PATIENCE_S,
        check=False,
    )
    return subprocess.CompletedProcess(done.args, done.returncode, done.stdout.decode(), done.stderr.decode())


def besides_warnings(err: str) -> str:
    """Standard error without what is said of odd names, which these tests take on purpose."""
    return "".join(line for line in err.splitlines(keepends=True) if not line.startswith("klamm acls: warning: "))


def add(service: Process, *words: str) -> str:
    done = klamm(service, "--add", *words)
    assert (done.returncode, besides_warnings(done.stderr)) == (0, ""), done.stdout
    return done.stdout


def entries(service: Process) -> set[tuple[str, str, str, str]]:
    return {(each["resource_name"], each["principal"], each["host"], each["operation"]) for each in service.acls()}


def test_the_whole_recorded_story_comes_out_as_from_kafka_s_own_tool(service: Process) -> None:
    for said in story():
        out, err = io.StringIO(), io.StringIO()
        # In this process: a hundred starts of Python would take minutes.
        code = run_acls(["--klamm", service.url, "--as", SUPER_USER, *said.words], out, err, io.StringIO())
        ours = out.getvalue()
        expected = said.out
        if FAILED in expected:
            # Kafka asks a console only, and says in Java's words that there is none.
            expected, ours = expected.partition(FAILED)[0], ours.partition(FAILED)[0]
            assert NOBODY_ANSWERED in out.getvalue()
        assert ordered(ours) == ordered(expected), said.words
        assert code == said.exit, said.words


def test_distinguished_names_and_unicode_come_through_whole(service: Process) -> None:
    added = add(
        service, "--allow-principal", DN, "--allow-principal", "User:Ÿ=é", "--operation", "read", "--topic", "日本, x"
    )
    assert added == (
        "Adding ACLs for resource `ResourcePattern(resourceType=TOPIC, name=日本, x, patternType=LITERAL)`: \n"
        f" \t(principal={DN}, host=*, operation=READ, permissionType=ALLOW)\n"
        "\t(principal=User:Ÿ=é, host=*, operation=READ, permissionType=ALLOW)\n\n"
    )
    listed = klamm(service, "--list", "--principal", DN)
    assert listed.stdout == (
        f"ACLs for principal `{DN}`\n"
        "Current ACLs for resource `ResourcePattern(resourceType=TOPIC, name=日本, x, patternType=LITERAL)`:\n"
        f"\t(principal={DN}, host=*, operation=READ, permissionType=ALLOW)\n\n"
    )
    assert entries(service) == {("日本, x", DN, "*", "READ"), ("日本, x", "User:Ÿ=é", "*", "READ")}


def test_what_is_there_is_not_added_again(service: Process) -> None:
    words = ("--allow-principal", "User:a", "--operation", "Read", "--topic", "t")
    add(service, *words)
    assert add(service, *words) == (
        "Acl (pattern=ResourcePattern(resourceType=TOPIC, name=t, patternType=LITERAL), "
        "entry=(principal=User:a, host=*, operation=READ, permissionType=ALLOW)) already exists.\n"
    )


@pytest.mark.parametrize(
    ("answer", "gone"), [("y\n", True), ("Y\n", True), ("y", True), ("n\n", False), ("yes\n", False), ("\n", False)]
)
def test_removal_asks_first(service: Process, answer: str, *, gone: bool) -> None:
    add(service, "--allow-principal", DN, "--operation", "Read", "--topic", "t")
    done = klamm(service, "--remove", "--allow-principal", DN, "--operation", "Read", "--topic", "t", answers=answer)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == (
        "Are you sure you want to remove ACLs: \n"
        f" \t(principal={DN}, host=*, operation=READ, permissionType=ALLOW)\n"
        " from resource filter `ResourcePattern(resourceType=TOPIC, name=t, patternType=LITERAL)`? (y/n)\n"
    )
    assert (entries(service) == set()) is gone


def test_removal_asks_for_each_resource_and_takes_each_answer(service: Process) -> None:
    add(service, "--allow-principal", "User:a", "--topic", "a", "--topic", "b", "--topic", "c")
    done = klamm(service, "--remove", "--topic", "a", "--topic", "b", "--topic", "c", answers="y\nn\ny\n")
    assert done.returncode == 0
    assert done.stdout.count("Are you sure you want to delete all ACLs for resource filter") == 3
    assert {each[0] for each in entries(service)} == {"b"}


def test_the_order_is_the_same_whatever_the_order_of_the_words(service: Process) -> None:
    topics = ["b", "a", "c"]
    words = [word for topic in topics for word in ("--topic", topic)]
    forward = add(service, "--allow-principal", "User:b", "--allow-principal", "User:a", *words)
    listed = klamm(service, "--list").stdout
    klamm(service, "--remove", "--force", *words)
    backward = add(
        service,
        *reversed([f"--topic={topic}" for topic in topics]),
        "--allow-principal=User:a",
        "--allow-principal=User:b",
    )
    assert forward == backward
    assert klamm(service, "--list").stdout == listed
    assert listed.index("name=a,") < listed.index("name=b,") < listed.index("name=c,")


@pytest.mark.parametrize("form", ["json", "yaml", "csv"])
def test_programs_get_what_was_added_listed_and_removed(service: Process, form: str) -> None:
    def fields(text: str) -> list[tuple[str, str, str]]:
        if form == "csv":
            rows = list(csv.DictReader(io.StringIO(text, newline="")))
            return [(row["ResourceName"], row["Principal"], row["Operation"]) for row in rows]
        values = json.loads(text) if form == "json" else yaml.safe_load(text)
        return [(value["resource_name"], value["principal"], value["operation"]) for value in values]

    words = ("--allow-principal", DN, "--allow-principal", 'User:"q",\té', "--operation", "Write", "--topic", "t")
    expected = [("t", 'User:"q",\té', "WRITE"), ("t", DN, "WRITE")]
    for command in (("--add", *words), ("--list",), ("--list", "--principal", DN), ("--remove", "--force", *words)):
        done = klamm(service, *command, "--output", form)
        assert (done.returncode, besides_warnings(done.stderr)) == (0, "")
        assert fields(done.stdout) == ([expected[1]] if "--principal" in command else expected), command
    assert fields(klamm(service, "--list", "--output", form).stdout) == []


@pytest.mark.parametrize("form", ["json", "yaml", "csv", "text"])
def test_what_is_listed_of_a_store_with_hard_names_is_read_back_with_ends_and_owners(
    service: Process, form: str
) -> None:
    draw = random.Random(7)
    hard = {random_binding(draw) for _ in range(80)}
    if form == "text":
        hard = {each for each in hard if _text_can_say(each)}
    end = datetime(2999, 12, 1, 18, tzinfo=UTC)
    stored = [NewAcl(each, draw.choice([None, end]), draw.choice([None, 'a, "b"'])) for each in hard]
    service.create(*[acl_body(each) for each in stored])
    done = klamm(service, "--list", "--output", form)
    assert (done.returncode, done.stderr) == (0, "")
    found = [(acl.binding, acl.expires_at or KEEP, acl.owner or KEEP) for acl in acls_of(done.stdout.encode())]
    assert {*found} == {(acl.binding, acl.expires_at or KEEP, acl.owner or KEEP) for acl in stored}
    assert len(found) == len(stored) > 30


def _text_can_say(binding: AclBinding) -> bool:
    try:
        format_named("kafka-acls").write([NewAcl(binding)], io.StringIO())
    except FormatLimitError:
        return False
    return True


def test_a_text_that_could_not_be_read_back_is_refused(service: Process) -> None:
    service.create({**acl("a"), "resource_name": "a\nb"})
    done = klamm(service, "--list", "--output", "text")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("klamm acls: --output text: kafka-acls text has one line per ACL")
    assert klamm(service, "--list").returncode == 0


def test_questions_are_kept_out_of_what_programs_read(service: Process) -> None:
    add(service, "--allow-principal", "User:a", "--topic", "a")
    done = klamm(service, "--remove", "--topic", "a", "--output", "json", answers="y\n")
    assert done.returncode == 0
    assert [each["resource_name"] for each in json.loads(done.stdout)] == ["a"]
    assert done.stderr.startswith("Are you sure")


def test_a_right_that_is_missing_is_told_in_kafka_s_manner(service: Process) -> None:
    done = klamm(service, "--list", principal="User:mallory")
    assert (done.returncode, done.stderr) == (1, "")
    assert done.stdout.startswith(f"{FAILED}CLUSTER_AUTHORIZATION_FAILED: ")
    assert done.stdout.count("\n") == 1


def test_an_acl_that_the_service_refuses_is_told_and_its_neighbours_are_made(service: Process) -> None:
    words = ("--allow-principal", "User:a", "--allow-host", "10.0.0.0/33", "--allow-host", "10.0.0.1", "--topic", "t")
    done = klamm(service, "--add", "--operation", "Read", *words)
    assert done.returncode == 1
    assert f"{FAILED}INVALID_REQUEST: " in done.stdout
    assert entries(service) == {("t", "User:a", "10.0.0.1", "READ")}


def test_more_acls_than_a_page_are_listed_whole(service: Process) -> None:
    service.create(*[acl(f"topic-{number:04}", "User:many") for number in range(2_300)])
    done = klamm(service, "--list", "--output", "csv")
    assert done.returncode == 0
    assert len(done.stdout.splitlines()) == 2_301


def test_a_terminal_is_spared_what_would_move_its_cursor(service: Process) -> None:
    service.create(acl("t", "User:\x1b[2Jx"))
    parent, child = pty.openpty()
    try:
        done = subprocess.run(
            [*KLAMM, "--klamm", service.url, "--as", SUPER_USER, "--list"],
            stdout=child,
            cwd=ROOT,
            timeout=PATIENCE_S,
            check=True,
        )
        shown = os.read(parent, 65_536).decode()
    finally:
        os.close(parent)
        os.close(child)
    assert done.returncode == 0
    assert "\x1b" not in shown
    assert "User:\\x1b[2Jx" in shown
    assert "User:\x1b[2Jx" in klamm(service, "--list").stdout


def test_no_acl_passes_for_another_one_in_a_file(service: Process) -> None:
    service.create(
        acl("t", "User:x, host=*, operation=READ, permissionType=ALLOW)\n\t(principal=User:evil"),
        acl(
            "r, patternType=LITERAL)`:\n\t(principal=User:evil, host=*, operation=ALL, permissionType=ALLOW)\r\n\r\n"
            "Current ACLs for resource `ResourcePattern(resourceType=TOPIC, name=z",
            "User:y",
        ),
    )
    listed = klamm(service, "--list").stdout
    read = [each for _, each in entries_in(listed.encode(), format_named("kafka-acls"))]
    # Where one entry ends and whether another begins in it can't be told, so neither is read.
    assert [each for each in read if isinstance(each, NewAcl)] == []
    assert [str(each[0]).partition(",")[0] for each in read if not isinstance(each, NewAcl)] == [
        "`ACLs for resource `` comes twice",
        "`(principal=` comes twice",
    ]


def test_a_file_of_properties_says_who_asks(service: Process, tmp_path: Path) -> None:
    config = tmp_path / "client.properties"
    config.write_text(f"principal={SUPER_USER}\nrequest.timeout.ms=20000\n")
    done = subprocess.run(
        [*KLAMM, "--klamm", service.url, "--command-config", str(config), "--list"],
        capture_output=True,
        cwd=ROOT,
        timeout=PATIENCE_S,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_an_end_is_given_shown_changed_and_lifted(service: Process) -> None:
    words = ["--allow-principal", "User:alice", "--operation", "Read", "--topic", "orders"]
    assert "already exists" not in add(service, *words, "--expires", "8h")
    (made,) = service.acls()
    ends_at = datetime.fromisoformat(made["expires_at"])
    assert timedelta(hours=7, minutes=59) < ends_at - datetime.fromtimestamp(time.time(), UTC) <= timedelta(hours=8)
    listed = klamm(service, "--list", "--topic", "orders").stdout
    assert f"operation=READ, permissionType=ALLOW) until {made['expires_at']}" in listed
    # What is said of an end changes one that is there; what is not said leaves it.
    assert "already exists" in add(service, *words)
    assert "already exists" in add(service, *words, "--expires", made["expires_at"])
    add(service, *words, "--expires", "2099-12-01T18:00:00Z")
    assert [(each["id"], each["expires_at"]) for each in service.acls()] == [(made["id"], "2099-12-01T18:00:00Z")]
    add(service, *words, "--expires", "never")
    assert [(each["id"], each["expires_at"]) for each in service.acls()] == [(made["id"], None)]


def test_an_end_that_can_not_be_is_refused_before_the_service_is_asked(service: Process) -> None:
    words = ["--allow-principal", "User:alice", "--operation", "Read", "--topic", "orders"]
    for action, end, why in (
        ("--add", "soon", "--expires: `soon` is not a time"),
        ("--add", "2001-01-01T00:00:00Z", "is in the past"),
        ("--remove", "8h", "can't be used with option"),
    ):
        done = klamm(service, action, *words, "--expires", end)
        assert (done.returncode, why in done.stdout + done.stderr) == (1, True), done
    assert service.acls() == []


def test_an_owner_and_a_comment_are_given_shown_and_taken_back(service: Process) -> None:
    words = ["--allow-principal", "User:alice", "--operation", "Read", "--topic", "orders"]
    add(service, *words, "--owner", "orders team", "--expires", "8h", "--comment", "OPS-7")
    (made,) = service.acls()
    listed = klamm(service, "--list").stdout
    assert listed.rstrip().endswith(f'permissionType=ALLOW) until {made["expires_at"]}, owner "orders team"')
    assert "already exists" in add(service, *words, "--owner", "orders team")
    out = klamm(service, "--add", *words, "--owner", "", "--output", "json").stdout
    assert [(each["owner"], each["expires_at"]) for each in json.loads(out)] == [(None, made["expires_at"])]
    assert [(each["id"], each["owner"]) for each in service.acls()] == [(made["id"], None)]
    for option, text, why in (
        ("--owner", "x" * 201, "--owner: it has 201 characters, but may have at most 200"),
        ("--comment", " ", "--comment: it must not be empty"),
        ("--comment", "a\nb", "--comment: it contains U+000A"),
    ):
        done = klamm(service, "--add", *words, option, text)
        assert (done.returncode, why in done.stderr) == (1, True), done
    assert "can't be used with option" in klamm(service, "--list", "--comment", "x").stderr
