"""Commands that speak to a service, run in this process over the socket."""

import io
import re
from pathlib import Path
from types import ModuleType

import pytest

from app.cli import import_acls
from app.client import export, why
from app.client.acls.command import main as run_acls
from app.client.http.replies import ServiceError
from app.client.plan import apply
from app.client.plan import command as plan
from app.client.reach import who
from app.client.undo import command as undo
from tests.client_runs import Run, run
from tests.klamm import SUPER_USER, Json, Process, acl, action, context
from tests.surroundings import of_a_command

JSON_LINE = (
    '{{"resource_type": "TOPIC", "resource_name": "{}", "pattern_type": "LITERAL", "principal": "{}", '
    '"host": "*", "operation": "READ", "permission_type": "ALLOW"}}\n'
)


def klamm(service: Process, command: ModuleType, *words: str, asker: str = SUPER_USER) -> Run:
    return run(command, [*words, "--klamm", service.url, "--as", asker])


def acls(service: Process, *words: str, answers: str = "") -> tuple[int, str]:
    """`klamm acls`: how it ended, and what it printed, errors included."""
    out = io.StringIO()
    code = run_acls(["--klamm", service.url, "--as", SUPER_USER, *words], out, out, io.StringIO(answers))
    return code, out.getvalue()


def test_acls_are_added_listed_and_removed_in_kafkas_words(service: Process, name: str) -> None:
    words = ("--allow-principal", "User:a", "--operation", "Read", "--topic", name)
    entry = "\t(principal=User:a, host=*, operation=READ, permissionType=ALLOW)\n"
    resource = f"`ResourcePattern(resourceType=TOPIC, name={name}, patternType=LITERAL)`"
    assert acls(service, "--add", *words) == (0, f"Adding ACLs for resource {resource}: \n {entry}\n")
    assert "already exists" in acls(service, "--add", *words)[1]
    assert acls(service, "--list", "--topic", name) == (0, f"Current ACLs for resource {resource}:\n{entry}\n")
    code, said = acls(service, "--remove", *words, answers="n\n")
    assert (code, "Are you sure you want to remove ACLs" in said) == (0, True)
    assert len(service.acls(resource_name=name)) == 1
    assert acls(service, "--remove", *words, answers="y\n")[0] == 0
    assert service.acls(resource_name=name) == []


def test_nobody_to_answer_is_a_failure_and_removes_nothing(service: Process, name: str) -> None:
    service.create(acl(name))
    code, said = acls(service, "--remove", "--topic", name)
    assert (code, "no answer on standard input" in said, "--force" in said) == (1, True, True)
    assert len(service.acls(resource_name=name)) == 1
    assert acls(service, "--remove", "--topic", name, "--force") == (0, "")
    assert service.acls(resource_name=name) == []


def test_apply_does_what_plan_shows_and_undo_takes_it_back(service: Process, name: str, tmp_path: Path) -> None:
    file = tmp_path / "wanted.jsonl"
    file.write_text(JSON_LINE.format(f"{name}a", "User:a") + JSON_LINE.format(f"{name}b", "User:b"))
    shown = klamm(service, plan, str(file)).text
    assert f"+ ALLOW User:a READ on TOPIC {name}a" in shown
    assert "2 to create, 0 to delete" in shown
    assert service.acls(resource_name=f"{name}a") == []
    done = klamm(service, apply, str(file), "--yes").text
    assert "2 created" in done
    assert [len(service.acls(resource_name=f"{name}{each}")) for each in "ab"] == [1, 1]
    assert klamm(service, plan, str(file), "--detailed-exitcode").code == 0
    (token,) = set(re.findall(r"[0-9a-f-]{36}:\d+\.\.(?:[0-9a-f-]{36}:)?\d+", done))
    klamm(service, undo, token, "--yes")
    assert [service.acls(resource_name=f"{name}{each}") for each in "ab"] == [[], []]


def test_the_command_for_what_is_denied_makes_it_allowed(service: Process, name: str) -> None:
    asked = ("User:bob", "READ", f"topic:{name}", "--host", "10.1.2.3")
    denied = klamm(service, why, *asked, "--exit-code")
    assert denied.code == 4
    assert denied.text.startswith(
        f"DENIED User:bob READ topic:{name} from 10.1.2.3\n  no ACL allows it (DefaultDeny)\n"
    )
    (command,) = re.findall(r"^  klamm acls (.*)$", denied.text, re.MULTILINE)
    out = io.StringIO()
    assert run_acls(command.split(), out, io.StringIO(), io.StringIO()) == 0, out.getvalue()
    allowed = klamm(service, why, *asked, "--exit-code")
    assert (allowed.code, "this ACL decides (MatchingAcl)" in allowed.text) == (0, True)
    # And nobody else, from nowhere else.
    assert service.authorize(context("User:bob", "10.1.2.3"), action(name)) == ["ALLOWED"]
    assert service.authorize(context("User:bob", "10.1.2.4"), action(name)) == ["DENIED"]
    assert service.authorize(context("User:carol", "10.1.2.3"), action(name)) == ["DENIED"]


def test_who_may_is_told_with_every_row(service: Process, name: str) -> None:
    service.create(acl(name, "User:a"), acl(name, "User:b", host="10.0.0.0/8"), acl(name, "User:c", "WRITE"))
    rows = klamm(service, who, f"topic:{name}", "--operation", "READ", "--output", "json").json["rows"]
    assert [(row["principal"], row["host"]) for row in rows] == [("User:a", "*"), ("User:b", "10.0.0.0/8")]


def test_an_export_is_imported_again(
    service: Process, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    service.create(acl(name, "User:a"), acl(name, "User:b", host="10.0.0.0/8", owner="orders team"))
    before, file = without_ids(service, name), tmp_path / "acls.csv"
    assert klamm(service, export, "--topic", name, "--format", "csv", "--output", str(file)).code == 0
    service.delete({"resource_name": name})
    with of_a_command(monkeypatch, tmp_path):
        assert "created: 2" in klamm(service, import_acls, str(file), "--quiet").text
        assert "already there: 2" in klamm(service, import_acls, str(file), "--quiet").text
    assert [{**each, "id": None} for each in service.acls(resource_name=name)] == [
        {**each, "id": None} for each in before
    ]


def without_ids(service: Process, name: str) -> list[Json]:
    return [{**each, "id": None} for each in service.acls(resource_name=name)]


def test_a_right_that_is_missing_is_told(service: Process, name: str) -> None:
    with pytest.raises(ServiceError, match="`User:eve` needs Describe on the cluster"):
        klamm(service, why, "User:bob", "READ", f"topic:{name}", "--host", "10.1.2.3", asker="User:eve")


def test_a_command_speaks_over_a_unix_socket(follower: Process, service: Process, name: str) -> None:
    assert follower.url.startswith("unix:")
    code, said = acls(follower, "--add", "--allow-principal", "User:a", "--topic", name)
    assert (code, said.startswith("Adding ACLs for resource")) == (0, True), said
    assert len(service.acls(resource_name=name)) == 1
