"""The files of one command are one set: one cluster, one list of what is wrong, and nothing left out in silence."""

import json
from collections.abc import Callable
from itertools import permutations
from pathlib import Path

import pytest

from app.cli.entry_point import main
from app.client.file_problems import MAX_PROBLEMS, FilesError
from app.client.plan.wanted import Wanted, read_wanted
from app.formats.file_flags import FileFlags
from tests.updates import topic

USER = """\
apiVersion: kafka.strimzi.io/v1
kind: KafkaUser
metadata:
  name: {name}
{where}spec:
  authentication: {{type: scram-sha-512}}
  authorization:
    type: simple
    acls: [{{resource: {{type: topic, name: orders, patternType: literal}}, operations: [{operation}]}}]
"""
TOPIC = "apiVersion: kafka.strimzi.io/v1\nkind: KafkaTopic\nmetadata: {name: orders}\nspec: {partitions: 3}\n"
KUSTOMIZATION = "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nresources: [shop.yaml]\n"
RIGHTLESS = "apiVersion: kafka.strimzi.io/v1\nkind: KafkaUser\nmetadata: {name: idle}\nspec: {}\n"
LINE = (
    '{"resource_type": "TOPIC", "resource_name": "t0", "principal": "User:a", "operation": "READ", '
    '"permission_type": "ALLOW"}\n'
)
BARE_CSV = "User:a,TOPIC,LITERAL,t1,READ,ALLOW,*\n"


def user(name: str, cluster: str = "", namespace: str = "", *, operation: str = "Read") -> str:
    where = f"  namespace: {namespace}\n" if namespace else ""
    where += f"  labels: {{strimzi.io/cluster: {cluster}}}\n" if cluster else ""
    return USER.format(name=name, where=where, operation=operation)


@pytest.fixture
def folder(tmp_path: Path) -> Callable[..., str]:
    """Writes files into a folder, in this order; their names are a.., b.., and so on."""

    def write(*contents: str, **named: str) -> str:
        place = tmp_path / "acls"
        place.mkdir(exist_ok=True)
        for letter, content in zip("abcdefgh", contents, strict=False):
            (place / f"{letter}.yaml").write_text(content)
        for name, content in named.items():
            (place / name.replace("_", ".")).write_text(content)
        return str(place)

    return write


Folder = Callable[..., str]


def read(path: str, **flags: object) -> Wanted:
    return read_wanted([path], FileFlags(**flags))  # type: ignore[arg-type]  # as they are called


def problems(path: str, **flags: object) -> list[str]:
    """Each without the folder."""
    with pytest.raises(FilesError) as caught:
        read(path, **flags)
    lines = str(caught.value).splitlines()
    if len(lines) == 1:
        return [lines[0].replace(f"{path}/", "")]
    assert lines[0] == "nothing was written; fix this first:"
    return [each.replace(f"{path}/", "") for each in lines[1:]]


def test_a_file_without_acls_is_named_and_the_others_are_read(folder: Folder) -> None:
    path = folder(user("shop"), RIGHTLESS, "# nothing yet\n", kustomization_yaml=KUSTOMIZATION)
    wanted = read(path)
    assert set(wanted.acls) == {topic("orders", principal="User:shop")}
    assert wanted.file_set.notes() == [
        "passed over: 1 Kustomization",
        f"without ACLs: {path}/b.yaml, {path}/c.yaml, {path}/kustomization.yaml",
    ]
    assert wanted.file_set.body() == {
        "passed_over": {"Kustomization": 1},
        "of_other_clusters": {},
        "without_acls": [f"{path}/b.yaml", f"{path}/c.yaml", f"{path}/kustomization.yaml"],
        "pass_over_in_no_file": [],
    }


def test_a_kustomization_may_do_without_its_kind_unless_it_changes_what_the_others_say(folder: Folder) -> None:
    path = folder(user("shop"), kustomization_yaml="# ours\nresources:\n  - a.yaml\nnamespace: kafka\n")
    assert read(path).file_set.notes()[0] == "passed over: 1 Kustomization"
    for more in ("patches: [{path: deny.yaml}]\n", "namePrefix: x-\n", "acls: []\n"):
        (found,) = problems(folder(user("shop"), kustomization_yaml=f"resources: [a.yaml]\n{more}"))
        assert found.startswith("`kustomization.yaml` is in no format that Klamm recognises")
    hidden = f"resources: [a.yaml]\n---\n{user('web')}"
    (found,) = problems(folder(user("shop"), kustomization_yaml=hidden))
    assert found.startswith("`kustomization.yaml` is in no format that Klamm recognises")
    assert problems(folder("resources: [b.yaml]\n", kustomization_yaml="resources: [a.yaml]\n")) == [
        "a.yaml:1: it holds no ACLs (passed over: 1 Kustomization)",
        "kustomization.yaml:1: it holds no ACLs (passed over: 1 Kustomization)",
    ]


def test_a_kustomization_says_of_which_cluster_the_users_beside_it_are(folder: Folder) -> None:
    kind = "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\n"
    for head in ("", kind):
        for live, tried, place in (
            ("namespace: live\n", "namespace: try\n", "namespace"),
            ("commonLabels: {strimzi.io/cluster: live}\n", "commonLabels: {strimzi.io/cluster: try}\n", "commonLabels"),
            (
                "labels: [{pairs: {a: b}}, {pairs: {strimzi.io/cluster: live}}]\n",
                "labels: [{pairs: {strimzi.io/cluster: try}}]\n",
                "labels",
            ),
        ):
            files = {"a_yaml": f"{head}resources: [c.yaml]\n{live}", "b_yaml": f"{head}resources: [d.yaml]\n{tried}"}
            (found,) = problems(folder(c_yaml=user("shop"), d_yaml=user("web", operation="All"), **files))
            assert f"`{place}`: it makes the resources of the cluster `" in found
            wanted = read(folder(c_yaml=user("shop"), d_yaml=user("web"), **files), pass_over=frozenset({place}))
            assert wanted.file_set.passed_over()[place] == 2
            path = folder(c_yaml=user("shop"), d_yaml=user("web"), a_yaml=files["a_yaml"], b_yaml=files["a_yaml"])
            assert len(read(path).acls) == 2
    paused = f"{kind}commonAnnotations: {{strimzi.io/pause-reconciliation: 'true'}}\n"
    assert "the users are paused" in problems(folder(user("shop"), b_yaml=paused))[0]
    misspelt = f"{kind}patchs: [{{path: deny.yaml}}]\n"
    assert problems(folder(user("shop"), b_yaml=misspelt)) == [
        "b.yaml:3: `patchs`: there is no such field; did you mean `patches`?"
    ]


def test_files_that_all_have_no_acls_are_refused_one_by_one(folder: Folder) -> None:
    again = "if they are in another one, name it with --format"
    assert problems(folder(RIGHTLESS, "", TOPIC)) == [
        f"a.yaml:1: it holds no ACLs in the format strimzi; {again}",
        "b.yaml:1: it is empty",
        f"c.yaml:1: it holds no ACLs in the format strimzi (passed over: 1 KafkaTopic); {again}",
    ]


def test_what_is_passed_over_is_counted_over_all_files_in_one_line(folder: Folder) -> None:
    kafka = TOPIC.replace("KafkaTopic", "Kafka")
    notes = read(folder(f"{user('shop')}---\n{TOPIC}---\n{kafka}", f"{TOPIC}---\n{TOPIC}")).file_set.notes()
    assert notes[0] == "passed over: 3 KafkaTopic, 1 Kafka"


def test_users_of_two_clusters_are_refused_in_any_order_with_both_names_and_places(tmp_path: Path) -> None:
    contents = [user("shop", "live"), user("web", "try"), user("free"), user("spare", "live")]
    for number, order in enumerate(permutations(contents)):
        place = tmp_path / str(number)
        place.mkdir()
        for letter, content in zip("abcd", order, strict=True):
            (place / f"{letter}.yaml").write_text(content)
        live = min("abcd"[order.index(contents[0])], "abcd"[order.index(contents[3])])
        other = "abcd"[order.index(contents[1])]
        found = problems(str(place))
        first = "try" if other < live else "live"
        assert len(found) == (2 if first == "try" else 1), found
        assert f"{max(live, other)}.yaml:" in found[0]
        assert f"but {place}/{min(live, other)}.yaml:".replace(f"{place}/", "") in found[0]
        assert "`live`" in found[0]
        assert "`try`" in found[0]
        assert found[0].endswith(f"read those of one cluster: --of-cluster {first}")


def test_namespaces_tell_clusters_apart_as_names_do(folder: Folder) -> None:
    path = folder(user("a", "live", "one"), user("b", "", "two"))
    (found,) = problems(path)
    assert "b.yaml:" in found
    assert "it is of the cluster `two/`, but a.yaml:" in found
    assert "is of `one/live`" in found


def test_one_problem_is_told_of_the_second_cluster_of_a_file(folder: Folder) -> None:
    path = folder(user("a", "live"), "---\n".join(user(f"u{number}", "try") for number in range(100)))
    assert len(problems(path)) == 1


def test_those_of_one_cluster_can_be_read_and_the_others_are_counted(folder: Folder) -> None:
    path = folder(user("shop", "live"), f"{user('a', 'try')}---\n{user('b', 'try')}", user("c", "old"))
    wanted = read(path, of_cluster="live")
    assert set(wanted.acls) == {topic("orders", principal="User:shop")}
    assert wanted.file_set.notes() == ["left out, of other clusters: 2 of try, 1 of old"]
    assert wanted.file_set.body()["of_other_clusters"] == {"try": 2, "old": 1}
    # What does not say its cluster may be of another one.
    (found,) = problems(folder(user("shop", "live"), user("a")), of_cluster="live")
    assert "b.yaml:" in found
    assert "it does not say its cluster" in found


def test_a_format_that_says_no_cluster_is_of_none_that_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text(LINE)
    (tmp_path / "b.yaml").write_text(user("shop", "live"))
    (tmp_path / "c.yaml").write_text(KUSTOMIZATION)
    assert len(read(str(tmp_path)).acls) == 2
    (found,) = problems(str(tmp_path), of_cluster="live")
    assert found.startswith("a.jsonl:1: it does not say its cluster, so it may not be of `live`")


def test_a_cluster_that_no_file_is_of_is_a_mistake(folder: Folder) -> None:
    assert problems(folder(user("a", "live"), user("b", "live")), of_cluster="life") == [
        f"{letter}.yaml:1: it holds no ACLs of `life` (left out, of other clusters: 1 of live)" for letter in "ab"
    ]


def test_a_cluster_can_be_named_with_its_namespace(folder: Folder) -> None:
    path = folder(user("a", "live", "one"), user("b", "live", "two"))
    assert set(read(path, of_cluster="two/live").acls) == {topic("orders", principal="User:b")}
    (found,) = problems(path, of_cluster="live")
    assert "it is of the cluster `two/live`, but a.yaml:" in found


def test_a_field_that_is_new_can_be_passed_over_by_its_place(folder: Folder) -> None:
    content = user("shop").replace("spec:\n", "spec:\n  quotas: {newRate: 5}\n")
    path = folder(content)
    (found,) = problems(path)
    assert "a.yaml:6: `newRate`: there is no such field" in found
    assert "--pass-over spec.quotas.newRate" in found
    wanted = read(path, pass_over=frozenset({"spec.quotas.newRate", "spec.quotas.old"}))
    assert wanted.file_set.notes() == [
        "passed over: 1 spec.quotas.newRate",
        "no file has what --pass-over names: spec.quotas.old",
    ]


def test_each_file_is_recognised_by_itself_and_the_named_format_is_for_the_others(tmp_path: Path) -> None:
    place = tmp_path / "acls"
    place.mkdir()
    (place / "a.jsonl").write_text(LINE)
    (place / "b.csv").write_text(BARE_CSV)
    (place / "c.yaml").write_text(user("shop"))
    (found,) = problems(str(place))
    assert found.startswith("`b.csv` is in no format that Klamm recognises")
    (place / "kustomization.yaml").write_text("resources: [c.yaml]\n")
    assert len(read(str(place), format_name="csv").acls) == 3
    # A file that is named is read as the format that is named.
    with pytest.raises(FilesError, match=r"a\.jsonl:1: "):
        read(str(place / "a.jsonl"), format_name="csv")
    # What is known for a table for people is nothing else.
    (place / "d.txt").write_text("PRINCIPAL  HOST  RESOURCE-TYPE  RESOURCE-NAME\nUser:bar   *     TOPIC\n")
    (found,) = problems(str(place), format_name="csv")
    assert found.startswith("`d.txt` is a table of rpk")


def test_all_that_is_wrong_in_a_folder_is_told_at_once(folder: Folder) -> None:
    path = folder(
        user("a", operation="Reed"),
        user("b").replace("spec:", "spce:"),
        "some text\n",
        user("d"),
        bad_jsonl="{}\n{}\nx\n",
    )
    (Path(path) / "e.gz").write_bytes(b"\x1f\x8bnonsense")
    found = problems(path)
    assert [each.partition(": ")[0] for each in found if not each.startswith("bad.jsonl")] == [
        "a.yaml:9",
        "b.yaml:5",
        "c.yaml:1",
        "e.gz:1",
    ]
    assert "bad.jsonl:3: not JSON: Expecting value (column 1)" in found
    assert any(each.startswith("c.yaml:1: is in no format that Klamm recognises; name its") for each in found)
    assert any(each.startswith("e.gz:1: can't be read (") for each in found)


def test_the_check_stops_where_enough_is_wrong_in_all_files_together(folder: Folder) -> None:
    wrong = "---\n".join(user(f"u{number}", operation="Reed") for number in range(15))
    found = problems(folder(wrong, wrong, wrong))
    assert len(found) == MAX_PROBLEMS + 1
    assert found[14].startswith("a.yaml:")
    assert found[15].startswith("b.yaml:")
    assert found[-1] == "b.yaml: the check stopped here; there may be more"


TESTS = "- User:shop may READ topic:orders\n"


def test_klamm_test_tells_what_was_passed_over_and_what_is_wrong(
    folder: Folder, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = folder(
        f"{user('shop', 'live')}---\n{TOPIC}",
        user("web", "try"),
        RIGHTLESS.replace("{name", "{labels: {strimzi.io/cluster: live}, name"),
    )
    tests = tmp_path / "tests.yaml"
    tests.write_text(TESTS)
    assert main(["test", str(tests), "--acls", path, "--of-cluster", "live"]) == 0
    text = capsys.readouterr().out
    assert "Note: passed over: 1 KafkaTopic\n" in text
    assert "Note: left out, of other clusters: 1 of try\n" in text
    assert "Note: without ACLs:" in text
    assert main(["test", str(tests), "--acls", path, "--of-cluster", "live", "--output", "json"]) == 0
    assert "left out, of other clusters: 1 of try" in json.loads(capsys.readouterr().out)["notes"]
    assert main(["test", str(tests), "--acls", path, "--output", "json"]) == 2
    said = capsys.readouterr()
    (problem,) = json.loads(said.out)["problems"]
    assert (problem["file"], problem["field"]) == (f"{path}/b.yaml", "metadata")
    assert "it is of the cluster `try`" in problem["message"]
    assert said.err.startswith("klamm test: nothing was written; fix this first:\n")


@pytest.mark.parametrize("command", ["plan", "apply"])
def test_plan_and_apply_give_what_is_wrong_as_objects(
    folder: Folder, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    path = folder(user("shop").replace("spec:\n", "spec:\n  quotas: {newRate: 5}\n"))
    flags = ["--klamm", "http://127.0.0.1:1", "--as", "User:a", "--output", "json"]
    assert main([command, path, *flags, *(["--yes"] if command == "apply" else [])]) == 2
    (problem,) = json.loads(capsys.readouterr().out)["problems"]
    assert (problem["file"], problem["line"], problem["field"]) == (f"{path}/a.yaml", 6, "spec.quotas.newRate")
    assert problem["message"].startswith("`newRate`: there is no such field")


def test_a_saved_plan_takes_none_of_these_flags(capsys: pytest.CaptureFixture[str]) -> None:
    for flags in (["--pass-over", "spec.x"], ["--of-cluster", "live"], ["--format", "csv"]):
        assert main(["apply", "--plan", "plan.json", "--yes", *flags]) == 2
        assert f"leave out {flags[0]} and --prune..." in capsys.readouterr().err


def test_a_service_takes_none_of_these_flags(capsys: pytest.CaptureFixture[str]) -> None:
    for flags in (["--pass-over", "spec.x"], ["--of-cluster", "live"]):
        assert main(["test", "tests.yaml", "--klamm", "http://127.0.0.1:1", "--as", "User:a", *flags]) == 2
        assert f"{flags[0]} only works with --acls" in capsys.readouterr().err


def test_names_in_the_notes_move_no_cursor_and_are_not_endless(folder: Folder) -> None:
    path = folder(user("a", "live"), *(user(f"u{number}", f'"x{number}\\e[2J"') for number in range(3)))
    (note,) = read(path, of_cluster="live").file_set.notes()
    assert note.isprintable()
    many = "---\n".join(user(f"u{number}", f"c{number:04}") for number in range(1_000))
    (note,) = read(folder(user("a", "live"), many, "", ""), of_cluster="live").file_set.notes()[:1]
    assert note.endswith(" and 980 more")
    assert len(note) < 1_000
