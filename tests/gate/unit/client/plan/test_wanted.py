"""Files and folders of wanted ACLs: which are read is said, and none is left out without a word."""

import io
import os
from pathlib import Path

import pytest

from app.client.plan import wanted as wanted_module
from app.client.plan.wanted import read_wanted
from app.formats.command_errors import UsageError
from tests.updates import topic

LINE = '{{"resource_type": "TOPIC", "resource_name": "{}", "principal": "User:a", "operation": "READ", '
LINE += '"permission_type": "ALLOW"}}\n'


def written(path: Path, *names: str) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(map(LINE.format, names)))
    return str(path)


def refusal(*paths: Path | str) -> str:
    with pytest.raises(UsageError) as caught:
        read_wanted([str(each) for each in paths])
    return str(caught.value)


def told(*paths: Path | str) -> str:
    err = io.StringIO()
    read_wanted([str(each) for each in paths]).print_sources("klamm plan", err)
    return err.getvalue()


def test_files_and_folders_are_read_in_a_stable_order_and_told(tmp_path: Path) -> None:
    one = written(tmp_path / "one.jsonl", "t0")
    for name in ("b.jsonl", "a.jsonl", "team/c.jsonl"):
        written(tmp_path / "acls" / name, f"t-{name}", "t1")
    wanted = read_wanted([one, str(tmp_path / "acls")])
    assert set(wanted.acls) == {
        topic(name, principal="User:a") for name in ("t0", "t1", "t-a.jsonl", "t-b.jsonl", "t-team/c.jsonl")
    }
    assert [(Path(each.path).name, each.acls) for each in wanted.sources] == [
        ("one.jsonl", 1),
        ("a.jsonl", 2),
        ("b.jsonl", 2),
        ("c.jsonl", 2),
    ]
    text = told(one, tmp_path / "acls")
    assert text.splitlines()[:3] == [
        "klamm plan: 4 files read:",
        f"  `{one}`: 1 ACL",
        f"  `{tmp_path / 'acls' / 'a.jsonl'}`: 2 ACLs",
    ]


def test_of_one_file_that_was_named_nothing_is_said(tmp_path: Path) -> None:
    assert told(written(tmp_path / "one.jsonl", "t0")) == ""


def test_the_only_file_of_a_folder_is_told(tmp_path: Path) -> None:
    written(tmp_path / "acls" / "one.jsonl", "t0")
    assert "1 file read:" in told(tmp_path / "acls")


def test_the_same_acl_in_two_files_is_told(tmp_path: Path) -> None:
    first = written(tmp_path / "a.jsonl", "t0", "t0", "t1")
    other = written(tmp_path / "b.jsonl", "t0", "t2")
    text = told(first, other)
    assert text.endswith(
        "klamm plan: 1 ACL in more than one file:\n"
        f"  ALLOW User:a from * READ on TOPIC LITERAL t0: in `{first}` and `{other}`\n"
    )


def test_long_lists_end_with_how_many_more_there_are(tmp_path: Path) -> None:
    names = [f"t{number}" for number in range(100)]
    text = told(written(tmp_path / "a.jsonl", *names), written(tmp_path / "b.jsonl", *names))
    assert "100 ACLs in more than one file:" in text
    assert text.endswith(f"  ... and {100 - wanted_module._LINES_SHOWN} more\n")


def test_what_is_not_understood_is_an_error_that_names_it(tmp_path: Path) -> None:
    written(tmp_path / "acls" / "a.jsonl", "t0")
    (tmp_path / "acls" / "README.md").write_text("# Our ACLs\n\nOne file for each team.\n")
    assert refusal(tmp_path / "acls").startswith(f"`{tmp_path / 'acls' / 'README.md'}` is in no format")


def test_names_that_begin_with_a_dot_are_left_out_and_told(tmp_path: Path) -> None:
    written(tmp_path / "acls" / "a.jsonl", "t0")
    written(tmp_path / "acls" / ".hidden.jsonl", "t1")
    written(tmp_path / "acls" / ".git" / "HEAD", "t2")
    wanted = read_wanted([str(tmp_path / "acls")])
    assert set(wanted.acls) == {topic("t0", principal="User:a")}
    text = told(tmp_path / "acls")
    assert "klamm plan: 2 names left out:\n" in text
    assert f"  `{tmp_path / 'acls' / '.git'}` (its name begins with a dot)\n" in text


def test_a_folder_as_kubernetes_mounts_it_is_read(tmp_path: Path) -> None:
    written(tmp_path / "acls" / "..2026" / "a.jsonl", "t0")
    (tmp_path / "acls" / "..data").symlink_to("..2026")
    (tmp_path / "acls" / "a.jsonl").symlink_to("..data/a.jsonl")
    assert set(read_wanted([str(tmp_path / "acls")]).acls) == {topic("t0", principal="User:a")}


def test_an_empty_folder_is_no_plan_to_delete_everything(tmp_path: Path) -> None:
    (tmp_path / "acls" / "team").mkdir(parents=True)
    assert "has no files in it" in refusal(tmp_path / "acls")
    written(tmp_path / "acls" / ".hidden.jsonl", "t1")
    assert "has no files in it" in refusal(tmp_path / "acls")


def test_what_is_no_file_is_an_error_and_is_not_opened(tmp_path: Path) -> None:
    written(tmp_path / "acls" / "a.jsonl", "t0")
    os.mkfifo(tmp_path / "acls" / "pipe")
    assert "is not a regular file" in refusal(tmp_path / "acls")
    (tmp_path / "acls" / "pipe").unlink()
    (tmp_path / "acls" / "gone.jsonl").symlink_to("nowhere")
    assert "is not a regular file" in refusal(tmp_path / "acls")


def test_a_link_to_a_folder_is_an_error_for_it_may_lead_back(tmp_path: Path) -> None:
    written(tmp_path / "acls" / "a.jsonl", "t0")
    (tmp_path / "acls" / "loop").symlink_to(tmp_path / "acls")
    assert "is a link to another folder" in refusal(tmp_path / "acls")


def test_a_file_that_is_named_twice_is_an_error(tmp_path: Path) -> None:
    path = written(tmp_path / "acls" / "a.jsonl", "t0")
    (tmp_path / "b.jsonl").symlink_to(path)
    for other in (path, tmp_path / "acls", tmp_path / "b.jsonl"):
        assert "is given twice" in refusal(path, other)
    assert "is given twice" in refusal(tmp_path / "acls", path)


def test_a_folder_of_too_many_files_is_probably_another_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wanted_module, "MAX_FILES", 2)
    for number in range(3):
        written(tmp_path / "acls" / f"{number}.jsonl", "t0")
    assert "has more than 2 files" in refusal(tmp_path / "acls")


def test_names_of_files_move_no_cursor(tmp_path: Path) -> None:
    written(tmp_path / "acls" / "a\x1b[2J\n.jsonl", "t0")
    text = told(tmp_path / "acls")
    assert "\x1b" not in text
    assert text.count("\n") == 2
