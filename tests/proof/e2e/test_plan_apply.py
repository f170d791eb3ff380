"""`klamm plan` and `klamm apply` over a real service: what is shown is what is done, and nothing else."""

import io
import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from app.client.http.replies import ServiceError
from app.client.plan import apply
from app.client.plan import command as plan
from app.core.kafka.bindings import AclBinding
from app.core.kafka.validation import validate_new_acl
from app.formats.acl_bodies import acl_body, binding_body
from app.formats.command_errors import UsageError
from app.formats.registry import format_named
from tests.access_grids import random_acl
from tests.client_runs import Run, Terminal, run
from tests.klamm import SUPER_USER, Json, Process, acl, context
from tests.saved_plans import fields_of, write_sealed
from tests.updates import new, topic, unending

ROUNDS = 12
KILLS = 4
WHOLE = ("--prune", "--max-delete-percent", "100")

# Loads the command with calls of a few ACLs, so that there are many of them to be killed between.
SMALL_CALLS = """
import sys
from app.client.plan import apply
apply.MAX_RECORDS_PER_USER_OP = 7
from app.cli.entry_point import main
sys.exit(main(sys.argv[1:]))
"""


@pytest.fixture
def empty(service: Process) -> Iterator[Process]:
    service.delete({})
    yield service
    service.post("/v1/configs", {"context": context(), "configs": [{"name": "super.users", "value": None}]})


def bodies(*names: str) -> list[dict[str, str | None]]:
    """As plans have ACLs."""
    return [acl_body(each) for each in unending(map(topic, names))]


def written(path: Path, acls: Iterable[AclBinding], format_name: str = "jsonl") -> str:
    with path.open("w", newline="", encoding="utf-8") as file:
        format_named(format_name).write(new(acls), file)
    return str(path)


def at(service: Process, *words: str) -> list[str]:
    return [*words, "--klamm", service.url, "--as", SUPER_USER]


def planned(service: Process, *words: str) -> Any:  # noqa: ANN401 - JSON
    return run(plan, at(service, *words, "--output", "json")).json


def applied(service: Process, *words: str) -> Run:
    return run(apply, at(service, *words, "--yes"))


def there(service: Process) -> set[AclBinding]:
    return {_binding(each) for each in service.acls()}


def _binding(fields: Json) -> AclBinding:
    return AclBinding.from_words(fields[name] for name in AclBinding._fields)


def creatable(drawn: Random, count: int) -> set[AclBinding]:
    some = (random_acl(drawn) for _ in range(count))
    return {each for each in some if validate_new_acl(each) is None}


def answers(service: Process, changes: list[Json]) -> list[list[str]]:
    """What each row's example is answered with now, operation by operation."""
    found = []
    for change in changes:
        example = change["example"]
        asked = {"resource_type": change["resource_type"], "resource_name": example["resource_name"]}
        body = {
            "context": context(example["principal"], example["client_address"]),
            "actions": [{**asked, "operation": each} for each in change["operations"]],
        }
        found.append(service.post("/v1/authorize", body)["results"])
    return found


@pytest.mark.parametrize("seed", range(ROUNDS))
def test_apply_does_what_plan_shows(empty: Process, tmp_path: Path, seed: int) -> None:
    drawn = Random(seed)
    old, wanted = creatable(drawn, 30), creatable(drawn, 30)
    wanted |= {each for each in old if drawn.random() < 0.5}
    form = drawn.choice(("jsonl", "klamm", "csv", "confluent"))
    applied(empty, written(tmp_path / "old", old), *WHOLE)
    assert there(empty) == old
    file, prune = written(tmp_path / "new", wanted, form), WHOLE if drawn.random() < 0.7 else ()

    shown = planned(empty, file, *prune)
    assert there(empty) == old
    before = answers(empty, shown["access"])
    text = applied(empty, file, *prune).text
    after = answers(empty, shown["access"])

    create, delete = ({_binding(each) for each in shown[name]} for name in ("create", "delete"))
    assert there(empty) == (old | create) - delete == (wanted if prune else wanted | old)
    assert (create & old, delete - old) == (set(), set())
    assert shown["unchanged"] == len(wanted & old)
    assert f"Done: {len(create)} created, {len(delete)} deleted." in text
    for change, was, is_ in zip(shown["access"], before, after, strict=True):
        expected = ("DENIED", "ALLOWED") if change["change"] == "gain" else ("ALLOWED", "DENIED")
        assert (set(was), set(is_)) == ({expected[0]}, {expected[1]}), change
    again = run(plan, at(empty, file, *prune, "--detailed-exitcode"))
    assert (again.code, "Nothing to do" in again.text) == (0, True)


def test_the_detailed_exit_code_tells_that_there_is_something_to_do(empty: Process, tmp_path: Path) -> None:
    file = written(tmp_path / "file", [topic("a")])
    assert run(plan, at(empty, file, "--detailed-exitcode")).code == 3
    assert run(plan, at(empty, file)).code == 0


def test_the_services_own_configuration_is_what_the_diff_stands_on(empty: Process, tmp_path: Path) -> None:
    configs = [{"name": "super.users", "value": f"{SUPER_USER};User:alice"}]
    empty.post("/v1/configs", {"context": context(), "configs": configs})
    shown = planned(empty, written(tmp_path / "file", [topic("a"), topic("a", "User:bob")]))
    assert shown["config_known"] is True
    assert [each["principal"] for each in shown["access"]] == ["User:bob"]


def test_deleting_too_much_is_refused_until_it_is_meant(empty: Process, tmp_path: Path) -> None:
    empty.create(*[acl(f"t{number}") for number in range(10)])
    file = written(tmp_path / "file", [topic(f"t{number}") for number in range(4)])
    with pytest.raises(ServiceError, match=r"6 of 10 ACLs would be deleted .* add --max-delete-percent 60"):
        applied(empty, file, "--prune")
    with pytest.raises(ServiceError, match="more than --max-deletes 5; if that is intended, add --max-deletes 6"):
        applied(empty, file, "--prune", "--max-delete-percent", "60", "--max-deletes", "5")
    assert len(there(empty)) == 10
    assert "apply will refuse this: 6 of 10" in run(plan, at(empty, file, "--prune")).text
    applied(empty, file, "--prune", "--max-delete-percent", "60")
    assert len(there(empty)) == 4


def test_pruning_leaves_other_teams_acls_alone(empty: Process, tmp_path: Path) -> None:
    empty.create(acl("pay-a"), acl("pay-b"), acl("orders"), acl("pay-a", "User:bob"))
    file = written(tmp_path / "file", [topic("pay-a")])
    applied(empty, file, "--prune", "--prune-prefix", "pay-", "--prune-principal", "User:alice")
    assert there(empty) == {topic("pay-a"), topic("orders"), topic("pay-a", "User:bob")}
    with pytest.raises(UsageError, match="--prune-prefix narrows --prune"):
        run(plan, at(empty, file, "--prune-prefix", "pay-"))


def test_what_is_left_alone_is_said_with_what_leaves_it_alone(empty: Process, tmp_path: Path) -> None:
    empty.create(acl("pay-a"), acl("orders"))
    file = written(tmp_path / "file", [topic("pay-a")])
    alone = "1 ACL that the file does not have is left alone"
    assert f"{alone} (see --prune)." in run(plan, at(empty, file)).text
    for narrowed, flags in (
        (["--prune-principal", "User:bob"], "--prune-principal"),
        (["--prune-prefix", "pay-"], "--prune-prefix"),
        (["--prune-principal", "User:bob", "--prune-prefix", "pay-"], "--prune-principal and --prune-prefix"),
    ):
        text = run(plan, at(empty, file, "--prune", *narrowed)).text
        assert f"{alone} (outside of {flags})." in text
        assert "see --prune" not in text


def test_a_folder_is_planned_and_applied_as_one_and_what_is_doubtful_in_it_is_told(
    empty: Process, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    empty.create(acl("old"))
    (tmp_path / "acls" / "team").mkdir(parents=True)
    written(tmp_path / "acls" / "a.csv", [topic("a"), topic("both")], "csv")
    written(tmp_path / "acls" / "team" / "b.jsonl", [topic("both"), topic("pii-*")])
    folder = str(tmp_path / "acls")
    text = run(plan, at(empty, folder, *WHOLE)).text
    assert "3 to create, 1 to delete, 0 unchanged." in text
    told = capsys.readouterr().err
    assert "klamm plan: 2 files read:\n" in told
    assert "klamm plan: 1 ACL in more than one file:\n" in told
    assert "klamm plan: warning: `pii-*` with the pattern type LITERAL" in told
    assert "warning" not in text

    page = run(plan, at(empty, folder, *WHOLE, "--output", "markdown")).text
    assert page.startswith("### klamm plan\n\n3 to create, 1 to delete, 0 unchanged.\n\n**Access lost** (1)\n")

    saved = str(tmp_path / "plan.json")
    run(plan, at(empty, folder, *WHOLE, "--save", saved))
    capsys.readouterr()
    assert run(apply, at(empty, "--plan", saved, "--yes", "--max-delete-percent", "100")).code == 0
    assert "klamm apply: warning: `pii-*`" in capsys.readouterr().err
    assert there(empty) == {topic("a"), topic("both"), topic("pii-*")}
    assert "Nothing to do: all 3 ACLs of the 2 files exist already." in applied(empty, folder).text


def test_a_file_of_a_folder_with_faults_plans_nothing(empty: Process, tmp_path: Path) -> None:
    (tmp_path / "acls").mkdir()
    written(tmp_path / "acls" / "a.jsonl", [topic("a")])
    (tmp_path / "acls" / "notes.txt").write_text("to be done\n")
    with pytest.raises(UsageError, match=r"notes\.txt` is in no format"):
        applied(empty, str(tmp_path / "acls"))
    with pytest.raises(UsageError, match="give either FILE or --plan PLAN"):
        run(apply, at(empty, "--yes"))
    assert there(empty) == set()


USER = """\
apiVersion: kafka.strimzi.io/v1
kind: KafkaUser
metadata: {{name: {0}, labels: {{strimzi.io/cluster: {1}}}}}
spec:
  quotas: {{newRate: 5}}
  authorization:
    type: simple
    acls: [{{resource: {{type: topic, name: {0}}}, operations: [Read], type: deny}}]
"""


def test_what_files_say_besides_is_told_in_each_form_of_the_output(
    empty: Process, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "users"
    folder.mkdir()
    for name, cluster in (("a", "live"), ("b", "try")):
        (folder / f"{name}.yaml").write_text(USER.format(name, cluster))
    (folder / "kustomization.yaml").write_text("apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\n")
    flags = [str(folder), "--of-cluster", "live", "--pass-over", "spec.quotas.newRate"]
    notes = [
        "passed over: 2 spec.quotas.newRate, 1 Kustomization",
        "left out, of other clusters: 1 of try",
        f"without ACLs: {folder}/kustomization.yaml",
    ]
    assert run(plan, at(empty, *flags)).text.splitlines()[:3] == notes
    assert not any(note in capsys.readouterr().err for note in notes)
    page = run(plan, at(empty, *flags, "--output", "markdown")).text
    assert "\n> `left out, of other clusters: 1 of try`\n" in page
    assert all(f"klamm plan: {note}\n" in capsys.readouterr().err for note in notes[:1])
    for done in (planned(empty, *flags), run(apply, at(empty, *flags, "--yes", "--output", "json")).json):
        assert len(done["create"]) == 1
        assert (done["passed_over"], done["of_other_clusters"], done["without_acls"], done["pass_over_in_no_file"]) == (
            {"Kustomization": 1, "spec.quotas.newRate": 2},
            {"try": 1},
            [f"{folder}/kustomization.yaml"],
            [],
        )
    told = capsys.readouterr().err
    assert all(f"klamm apply: {note}\n" in told for note in notes)
    assert applied(empty, *flags).text.splitlines()[:3] == notes
    assert [each["resource_name"] for each in empty.acls()] == ["a"]


def test_a_saved_plan_is_what_is_done(empty: Process, tmp_path: Path) -> None:
    empty.create(acl("old"))
    file, saved = written(tmp_path / "file", [topic("new")]), str(tmp_path / "plan.json")
    shown = run(plan, at(empty, file, *WHOLE, "--save", saved)).text
    Path(file).write_text("something else by now")
    done = run(apply, at(empty, "--plan", saved, "--yes", "--max-delete-percent", "100")).text
    assert done.startswith(shown.partition("\napply will refuse")[0])
    assert there(empty) == {topic("new")}
    with pytest.raises(ServiceError, match="have changed since the plan was made"):
        run(apply, at(empty, "--plan", saved, "--yes", "--max-delete-percent", "100"))
    with pytest.raises(UsageError, match="give either FILE or --plan"):
        run(apply, at(empty, file, "--plan", saved, "--yes"))


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"prunable": 0}, "its `prunable` is not 3"),
        ({"prunable": 10**9}, "its `prunable` is not 3"),
        ({"unchanged": 2}, "do not make up 3 ACLs"),
        ({"delete": bodies("other") * 2}, "is not a plan that this version of klamm has saved"),
        ({"delete": bodies("other")}, "it deletes ACLs that do not exist"),
        ({"create": bodies("a")}, "it creates ACLs that exist already"),
        ({"prune": {"wanted": True, "principals": ["User:zoe"], "prefixes": []}}, "its `prune` leaves alone"),
    ],
)
def test_a_plan_that_somebody_has_edited_is_refused(
    empty: Process, tmp_path: Path, change: dict[str, object], why: str
) -> None:
    empty.create(acl("a"), acl("b"), acl("c"))
    saved = tmp_path / "plan.json"
    run(plan, at(empty, written(tmp_path / "file", [topic("a")]), "--prune", "--save", str(saved)))
    saved.write_text(json.dumps({**json.loads(saved.read_text()), **change}))
    words, before = at(empty, "--plan", str(saved), "--yes", "--max-delete-percent", "100"), there(empty)
    with pytest.raises(UsageError, match="has been edited since it was saved"):
        run(apply, words)
    write_sealed(saved, fields_of(saved))
    with pytest.raises(UsageError, match=why):
        run(apply, words)
    assert there(empty) == before


@pytest.mark.parametrize("foreign", ["acl", "config"])
def test_a_foreign_change_between_plan_and_apply_is_not_overwritten(
    empty: Process, tmp_path: Path, foreign: str
) -> None:
    file, saved = written(tmp_path / "file", [topic("a")]), str(tmp_path / "plan.json")
    run(plan, at(empty, file, "--save", saved))
    if foreign == "acl":
        empty.create(acl("foreign"))
    else:
        empty.post(
            "/v1/configs", {"context": context(), "configs": [{"name": "super.users", "value": f"{SUPER_USER};User:x"}]}
        )
    before = there(empty)
    with pytest.raises(ServiceError, match="nothing was done, plan again"):
        run(apply, at(empty, "--plan", saved, "--yes"))
    assert there(empty) == before


def test_a_foreign_change_while_the_operator_thinks_is_not_overwritten(
    empty: Process, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    empty.create(acl("old"))

    class Slow(Terminal):
        """The operator, who says yes after a colleague has added an ACL."""

        def readline(self, _: int | None = None, /) -> str:  # type: ignore[override]  # the size is never given
            empty.create(acl("colleague"))
            return "y\n"

    monkeypatch.setattr(sys, "stdin", Slow())
    file = written(tmp_path / "file", [topic("mine")])
    with pytest.raises(ServiceError, match=r"somebody else has changed .* 0 of 1 ACLs created and 0 of 1 deleted"):
        run(apply, at(empty, file, *WHOLE), Terminal())
    assert there(empty) == {topic("old"), topic("colleague")}


@pytest.mark.parametrize(
    ("answer", "code", "names"), [("y\n", 0, {"a"}), ("n\n", 1, set()), ("", 1, set()), ("\n", 1, set())]
)
def test_the_operator_is_asked(
    empty: Process, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: str, code: int, names: set[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", Terminal(answer))
    ended = run(apply, at(empty, written(tmp_path / "file", [topic("a")])), Terminal())
    assert (ended.code, "Do this? [y/N]" in ended.text) == (code, True)
    assert {each.resource_name for each in there(empty)} == names


def test_without_a_terminal_nothing_is_done_unless_told_to(
    empty: Process, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = written(tmp_path / "file", [topic("a")])
    monkeypatch.setattr(sys, "stdin", io.StringIO("y\n"))
    for words, out in (([file], io.StringIO()), ([file, "--output", "json"], Terminal()), (["-"], Terminal())):
        with pytest.raises(UsageError, match="--yes"):
            run(apply, at(empty, *words), out)
    assert there(empty) == set()


def test_programs_hear_what_was_done(empty: Process, tmp_path: Path) -> None:
    empty.create(acl("old"))
    done = applied(empty, written(tmp_path / "file", [topic("a"), topic("b")]), *WHOLE, "--output", "json").json
    assert (done["created"], done["deleted"]) == (2, 1)
    assert done["create"] == bodies("a", "b")
    assert "token" not in done
    assert done["transactions"].endswith(f"..{planned(empty, str(tmp_path / 'file'))['token']}")


def test_a_file_with_faults_plans_nothing_and_names_them(empty: Process, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text('{"resource_type": "TOPIC"}\n' + json.dumps(binding_body(topic(""))) + "\n")
    with pytest.raises(UsageError, match=r"(?s)file:1: .*`principal`.*file:2: Invalid empty resource name"):
        planned(empty, str(path))
    with pytest.raises(UsageError, match=r"--format: `xml` is not a format"):
        planned(empty, str(path), "--format", "xml")
    with pytest.raises(UsageError, match="can't be read"):
        planned(empty, str(tmp_path / "none"))


@pytest.mark.parametrize("seed", range(KILLS))
def test_killed_in_the_middle_and_run_again_it_is_finished(empty: Process, tmp_path: Path, seed: int) -> None:
    drawn = Random(seed)
    old = {topic(f"old{number}") for number in range(60)}
    wanted = {topic(f"new{number}") for number in range(120)} | set(drawn.sample(sorted(old, key=repr), 10))
    applied(empty, written(tmp_path / "old", old))
    file = written(tmp_path / "file", wanted)
    command = [sys.executable, "-c", SMALL_CALLS, "apply", *at(empty, file, *WHOLE, "--yes")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if "ACLs created" in line and drawn.random() < 0.2:
                break
        time.sleep(drawn.random() / 50)
        process.send_signal(signal.SIGKILL)

    middle = there(empty)
    assert wanted & old <= middle <= wanted | old
    # Nothing goes before all that is new is there.
    assert wanted <= middle or old <= middle
    try:
        text = applied(empty, file, *WHOLE).text
    except ServiceError as stopped:
        # The last call of the killed one was still under way, and came in between: then it says to plan again.
        assert "somebody else has changed" in str(stopped)  # noqa: PT017 - it may also not come
        text = applied(empty, file, *WHOLE).text
    assert there(empty) == wanted
    assert "Done:" in text or "Nothing to do" in text


def test_ten_thousand_and_more_come_and_go_in_several_calls(empty: Process, tmp_path: Path) -> None:
    many = [topic(f"t{number}") for number in range(10_050)]
    text = applied(empty, written(tmp_path / "file", many), "--timeout", "120").text
    assert "10000 of 10050 ACLs created and 0 of 0 deleted\n" in text
    assert "Done: 10050 created" in text
    limits = ("--max-deletes", "10050", "--max-delete-percent", "100", "--timeout", "120")
    text = applied(empty, written(tmp_path / "none", [topic("other")]), "--prune", *limits).text
    assert "Done: 1 created, 10050 deleted." in text
    assert there(empty) == {topic("other")}
