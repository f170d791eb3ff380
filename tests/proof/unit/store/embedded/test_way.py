"""The way to the data folder: no link, no folder of others, nothing on the way that others can change."""

import os
import pwd
from pathlib import Path

import pytest

from app.store.embedded.folder import DataFolder
from app.store.embedded.process import OWN_IDS, EmbeddedPostgresError

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
NOBODY = pwd.getpwnam("nobody").pw_uid
STRANGER = os.geteuid() + 4711


def held(path: Path) -> Path:
    folder = DataFolder(path)
    folder.hold()
    folder.release()
    return path


def refused(path: Path) -> str:
    with pytest.raises(EmbeddedPostgresError) as refusal:
        DataFolder(path).hold()
    assert "--data-dir" in str(refusal.value)
    return str(refusal.value)


def test_what_is_missing_on_the_way_is_made_for_nobody_else_to_write(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        held(tmp_path / "a" / "b" / "data")
    finally:
        os.umask(before)
    assert [path.stat().st_mode & 0o022 for path in (tmp_path / "a", tmp_path / "a" / "b" / "data")] == [0, 0]


@pytest.mark.parametrize("is_there", [True, False])
def test_a_link_in_the_folder_s_place_is_refused_and_named(tmp_path: Path, is_there: bool) -> None:  # noqa: FBT001 - a case
    victim = tmp_path / "victim"
    if is_there:
        victim.mkdir()
    (tmp_path / "data").symlink_to(victim)
    told = refused(tmp_path / "data")
    assert f"`{tmp_path}/data` is a symbolic link" in told
    assert f"(`{victim}`)" in told
    assert list(tmp_path.glob("victim/*")) == []
    assert victim.exists() == is_there


def test_links_of_one_s_own_on_the_way_are_fine(tmp_path: Path) -> None:
    (tmp_path / "disk" / "deep").mkdir(parents=True)
    (tmp_path / "absolute").symlink_to(tmp_path / "disk")
    (tmp_path / "relative").symlink_to("absolute/deep/../deep")
    held(tmp_path / "relative" / "data")
    assert (tmp_path / "disk" / "deep" / "data" / "lock").exists()
    held(tmp_path / "relative" / ".." / "deep" / "data")


def test_a_link_to_nowhere_on_the_way_is_told(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("nowhere")
    assert "No such file" in refused(tmp_path / "link" / "data")
    assert not (tmp_path / "nowhere").exists()


def test_links_in_a_circle_are_told(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    assert "Too many levels of symbolic links" in refused(tmp_path / "a" / "data")


@as_root
def test_a_link_of_somebody_else_on_the_way_is_refused(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "link").symlink_to("disk")
    os.chown(tmp_path / "link", NOBODY, -1, follow_symlinks=False)
    assert f"link` belongs to user id {NOBODY}" in refused(tmp_path / "link" / "data")
    assert list((tmp_path / "disk").iterdir()) == []


@as_root
def test_a_link_of_one_s_own_may_lead_to_no_folder_of_others(tmp_path: Path) -> None:
    (tmp_path / "theirs" / "disk").mkdir(parents=True)
    os.chown(tmp_path / "theirs", NOBODY, -1)
    (tmp_path / "link").symlink_to("theirs/disk")
    assert f"theirs` belongs to user id {NOBODY}" in refused(tmp_path / "link" / "data")


@as_root
def test_a_folder_of_somebody_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    os.chown(tmp_path / "data", NOBODY, -1)
    assert f"`{tmp_path}/data` belongs to user id {NOBODY}, but Klamm runs as user id 0" in refused(tmp_path / "data")
    assert list((tmp_path / "data").iterdir()) == []


@as_root
def test_a_folder_below_one_of_somebody_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "home" / "data").mkdir(parents=True)
    os.chown(tmp_path / "home", NOBODY, -1)
    assert f"`{tmp_path}/home` belongs to user id {NOBODY}" in refused(tmp_path / "home" / "data")
    assert list((tmp_path / "home" / "data").iterdir()) == []


@pytest.mark.parametrize("mode", [0o777, 0o757, 0o2757])
def test_a_way_that_others_may_write_is_refused(tmp_path: Path, mode: int) -> None:
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(mode)
    told = refused(tmp_path / "open" / "data")
    assert f"other users can write to `{tmp_path}/open` (mode {mode:04o})" in told
    assert list((tmp_path / "open").iterdir()) == []


def test_below_a_sticky_folder_there_is_a_place_of_one_s_own(tmp_path: Path) -> None:
    (tmp_path / "tmp").mkdir()
    (tmp_path / "tmp").chmod(0o1777)
    held(tmp_path / "tmp" / "data")


@as_root
def test_in_a_sticky_folder_somebody_may_have_been_there_before(tmp_path: Path) -> None:
    (tmp_path / "tmp" / "data" / "deep").mkdir(parents=True)
    (tmp_path / "tmp").chmod(0o1777)
    os.chown(tmp_path / "tmp" / "data", NOBODY, -1)
    assert f"belongs to user id {NOBODY}" in refused(tmp_path / "tmp" / "data")
    assert f"belongs to user id {NOBODY}" in refused(tmp_path / "tmp" / "data" / "deep")


def test_a_folder_that_others_may_write_is_refused(tmp_path: Path) -> None:
    held(tmp_path / "data").chmod(0o777)
    assert "other users can write to" in refused(tmp_path / "data")


def test_one_s_own_group_may_write_as_on_systems_where_each_user_has_one(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    os.chown(tmp_path / "home", -1, os.getegid())
    (tmp_path / "home").chmod(0o775)
    held(tmp_path / "home" / "data")


@as_root
def test_another_group_may_not(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    os.chown(tmp_path / "home", -1, 4711)
    (tmp_path / "home").chmod(0o775)
    assert "other users can write to" in refused(tmp_path / "home" / "data")


@pytest.mark.parametrize("name", ["lock", "password", "port", "postgresql.log", "postgresql.log.1"])
@pytest.mark.parametrize("is_there", [True, False])
def test_a_link_in_a_file_s_place_is_refused(tmp_path: Path, name: str, is_there: bool) -> None:  # noqa: FBT001 - a case
    data = held(tmp_path / "data")
    victim = tmp_path / "victim"
    if is_there:
        victim.write_text("precious")
    (data / name).unlink(missing_ok=True)
    (data / name).symlink_to(victim)
    assert f"`{data}/{name}` should be a file, but is a symbolic link" in refused(data)
    assert [path.read_text() for path in tmp_path.glob("victim")] == ["precious"] * is_there


@pytest.mark.parametrize("name", ["postgres", "postgres.new"])
def test_a_link_in_the_cluster_s_place_is_refused(tmp_path: Path, name: str) -> None:
    data = held(tmp_path / "data")
    (tmp_path / "victim").mkdir()
    (data / name).symlink_to(tmp_path / "victim")
    assert f"`{data}/{name}` should be a folder, but is a symbolic link" in refused(data)


def test_what_waits_for_a_reader_is_no_file(tmp_path: Path) -> None:
    data = held(tmp_path / "data")
    (data / "lock").unlink()
    os.mkfifo(data / "lock")
    assert "is something else" in refused(data)


@as_root
@pytest.mark.parametrize("name", ["lock", "password", "postgres"])
def test_what_is_somebody_else_s_in_the_folder_is_refused(tmp_path: Path, name: str) -> None:
    data = held(tmp_path / "data")
    (data / "password").write_text("kept\n")
    (data / "postgres").mkdir()
    os.chown(data / name, NOBODY, -1)
    assert f"{name}` belongs to user id {NOBODY}, but Klamm runs as user id 0" in refused(data)


@as_root
@pytest.mark.parametrize("name", ["password", "postgres.new"])
def test_what_a_first_start_that_was_killed_gave_away_is_no_hindrance(tmp_path: Path, name: str) -> None:
    data = held(tmp_path / "data")
    (data / "password").write_text("given\n")
    (data / "postgres.new").mkdir()
    os.chown(data / name, NOBODY, -1)
    held(data)


@as_root
@pytest.mark.parametrize("owner", [0, OWN_IDS[0], OWN_IDS[-1]])
def test_root_s_cluster_may_belong_to_an_id_of_its_own(tmp_path: Path, owner: int) -> None:
    data = held(tmp_path / "data")
    (data / "postgres").mkdir()
    os.chown(data / "postgres", owner, -1)
    held(data)


def test_whoever_is_not_root_has_the_same_rules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = held(tmp_path / "data")
    monkeypatch.setattr(os, "geteuid", lambda: STRANGER)
    assert "belongs to user id" in refused(data)
