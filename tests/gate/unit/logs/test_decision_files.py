"""The decision log's files: names, rotation, left-overs, retention, and a folder that goes."""

import errno
import fcntl
import logging
import os
import shutil
import stat
from pathlib import Path

import pytest

from app.formats.clock import SYSTEM_CLOCK, Clock
from app.formats.command_errors import UsageError
from app.logs import decision_files
from app.logs.decision_files import DecisionFiles, FileBounds, prepare_folder
from app.logs.lines import OncePerMinute
from app.metrics.declared import Metrics
from tests.virtual_time import VIRTUAL_CLOCK, freeze, in_virtual_time

LINE = b'{"n":1}\n'


def files_in(
    folder: Path, *, rotate_bytes: int = 1_000, retention_bytes: int = 1 << 30, clock: Clock = SYSTEM_CLOCK
) -> DecisionFiles:
    bounds = FileBounds(
        folder=folder, rotate_bytes=rotate_bytes, rotate_s=60, retention_bytes=retention_bytes, clock=clock
    )
    return DecisionFiles(bounds, Metrics())


def names(folder: Path) -> list[str]:
    return sorted(each.name for each in folder.iterdir())


def contents(folder: Path) -> dict[str, bytes]:
    return {each.name: each.read_bytes() for each in folder.iterdir()}


def refuse_renames(fault: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def rename(source: Path, target: Path) -> None:
        raise OSError(fault, os.strerror(fault), str(source), None, str(target))

    monkeypatch.setattr(Path, "rename", rename)


def test_a_file_has_its_open_name_until_it_is_closed(tmp_path: Path) -> None:
    files = files_in(tmp_path)
    assert names(tmp_path) == []
    files.append(LINE)
    [opened] = names(tmp_path)
    assert opened.startswith("_decisions-2")
    assert f"Z-{os.getpid()}-1.jsonl" in opened
    files.append(LINE)
    files.finish()
    assert contents(tmp_path) == {opened.removeprefix("_"): LINE * 2}


def test_others_than_owner_and_group_can_not_read_it(tmp_path: Path) -> None:
    folder = tmp_path / "new"
    prepare_folder(folder)
    files = files_in(folder)
    files.append(LINE)
    files.finish()
    [path] = folder.iterdir()
    assert stat.S_IMODE(path.stat().st_mode) & ~0o640 == 0
    assert stat.S_IMODE(folder.stat().st_mode) & ~0o750 == 0


def test_a_file_that_is_large_enough_is_closed(tmp_path: Path) -> None:
    files = files_in(tmp_path, rotate_bytes=3 * len(LINE))
    for _ in range(7):
        files.append(LINE)
        files.tidy()
    sizes = [size for _, size in sorted((name.lstrip("_"), len(text)) for name, text in contents(tmp_path).items())]
    assert sizes == [3 * len(LINE), 3 * len(LINE), len(LINE)]
    assert sum(name.startswith("_") for name in names(tmp_path)) == 1


@in_virtual_time
async def test_a_file_that_is_old_enough_is_closed_though_nothing_comes(tmp_path: Path) -> None:
    files = files_in(tmp_path, clock=VIRTUAL_CLOCK)
    files.tidy()
    assert files.tidy_s() is None
    files.append(LINE)
    freeze(59)
    files.tidy()
    assert files.tidy_s() == pytest.approx(1)
    assert names(tmp_path)[0].startswith("_decisions-20270115T080000.000")
    freeze(1)
    assert files.tidy_s() == 0
    files.tidy()
    assert names(tmp_path)[0].startswith("decisions-")
    assert files.tidy_s() is None


def test_nothing_is_ever_overwritten(tmp_path: Path) -> None:
    files = files_in(tmp_path)
    files.append(LINE)
    [opened] = names(tmp_path)
    (tmp_path / opened.removeprefix("_")).write_bytes(b"of another")
    files.finish()
    assert sorted(contents(tmp_path).values()) == [b"of another", LINE]
    assert all(name.startswith("decisions-") and name.endswith(".jsonl") for name in names(tmp_path))


def test_a_file_that_could_not_be_renamed_is_renamed_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = files_in(tmp_path)
    files.append(LINE)
    with monkeypatch.context() as full:
        refuse_renames(errno.ENOSPC, full)
        with pytest.raises(OSError, match="No space left"):
            files.finish()
        assert files.tidy_s() == 0
        with pytest.raises(OSError, match="No space left"):
            files.tidy()
    files.append(b"next\n")
    files.tidy()
    found = contents(tmp_path)
    assert {name[0]: text for name, text in found.items()} == {"d": LINE, "_": b"next\n"}


# a folder that is removed


@pytest.mark.parametrize("is_open", [True, False])
def test_a_removed_folder_is_made_again(
    is_open: bool,  # noqa: FBT001 - a parameter of a table
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    folder = tmp_path / "log"
    prepare_folder(folder)
    files = files_in(folder)
    files.append(b"lost\n")
    if not is_open:
        files.finish()
    shutil.rmtree(folder)
    if is_open:
        # Somebody may have moved it away only, so the next try finds out.
        with pytest.raises(FileNotFoundError):
            files.append(LINE)
    files.append(LINE)
    files.tidy()
    files.finish()
    assert list(contents(folder).values()) == [LINE]
    assert stat.S_IMODE(folder.stat().st_mode) & ~0o750 == 0
    assert caplog.messages == ["decision_log_folder_made_again"]
    shutil.rmtree(folder)
    files.tidy()
    assert names(folder) == []


def test_a_folder_is_not_made_again_below_one_that_is_gone_or_on_another_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "disk" / "log"
    folder.parent.mkdir()
    prepare_folder(folder)
    files = files_in(folder)
    files.append(LINE)
    files.finish()
    shutil.rmtree(folder.parent)
    for _ in range(2):
        with pytest.raises(FileNotFoundError):
            files.append(LINE)
    # What is mounted at the parent's place is away: its mount point is on the disk below.
    folder.parent.mkdir()
    monkeypatch.setattr(decision_files, "_device_of", lambda path: None if path == folder else -1)
    with pytest.raises(FileNotFoundError, match="is not mounted"):
        files.append(LINE)
    assert names(folder.parent) == []


# left-overs


def test_an_empty_left_over_is_deleted(tmp_path: Path) -> None:
    (tmp_path / "_decisions-20260101T000000.000000Z-1-1.jsonl").touch()
    files_in(tmp_path).tidy()
    assert names(tmp_path) == []


def test_other_files_are_left_alone(tmp_path: Path) -> None:
    others = ["_SUCCESS", "_decisions-a.txt", "decisions.jsonl", "notes.jsonl"]
    for name in others:
        (tmp_path / name).write_bytes(b"x" * 10_000)
    (tmp_path / "_decisions-folder.jsonl").mkdir()
    (tmp_path / "_decisions-link.jsonl").symlink_to(tmp_path / "notes.jsonl")
    (tmp_path / "decisions-folder.jsonl").mkdir()
    before = names(tmp_path)
    files = files_in(tmp_path, retention_bytes=4_096)
    files.tidy()
    assert names(tmp_path) == before
    assert files.tidy_s() is None


def test_a_file_that_is_taken_for_a_left_over_as_it_is_made_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flock, taken = fcntl.flock, list[str]()

    def late(descriptor: int, how: int) -> None:
        if not taken:
            taken.extend(names(tmp_path))
            (tmp_path / taken[0]).unlink()
        flock(descriptor, how)

    monkeypatch.setattr(fcntl, "flock", late)
    files = files_in(tmp_path)
    files.append(LINE)
    [opened] = names(tmp_path)
    assert opened.endswith("-2.jsonl")
    assert (tmp_path / opened).read_bytes() == LINE


# retention


def closed(folder: Path, number: int, size: int, end: str = ".jsonl") -> str:
    path = folder / f"decisions-20260101T0000{number:02d}.000000Z-1-1{end}"
    path.write_bytes(b"x" * size)
    return path.name


@in_virtual_time
async def test_the_oldest_files_beyond_the_bound_are_deleted_and_told_once_a_minute(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    made = [closed(tmp_path, number, 10_000, ".jsonl.gz" if number == 4 else ".jsonl") for number in range(6)]
    files = files_in(tmp_path, retention_bytes=35_000, rotate_bytes=1, clock=VIRTUAL_CLOCK)
    with caplog.at_level(logging.WARNING):
        files.tidy()
        assert names(tmp_path) == made[3:]
        told = []
        for seconds in (1, 58.9, 0.1):
            freeze(seconds)
            files.append(b"y" * 9_999 + b"\n")
            files.tidy()
            told.append(caplog.messages.count("decision_log_files_deleted"))
    assert told == [1, 1, 2]
    assert [vars(each)["files"] for each in caplog.records] == [3, 3]
    assert files._metrics.decision_log_files_deleted == 6
    assert len(names(tmp_path)) == 3


def test_small_files_count_for_what_they_take(tmp_path: Path) -> None:
    made = [closed(tmp_path, number, 10) for number in range(5)]
    files_in(tmp_path, retention_bytes=2 * 4_096).tidy()
    assert names(tmp_path) == made[3:]


def test_the_newest_file_is_kept_however_large_it_is(tmp_path: Path) -> None:
    made = [closed(tmp_path, number, 50_000) for number in range(2)]
    files_in(tmp_path, retention_bytes=4_096).tidy()
    assert names(tmp_path) == made[1:]


def test_the_open_file_is_never_deleted(tmp_path: Path) -> None:
    files = files_in(tmp_path, retention_bytes=4_096, rotate_bytes=1 << 20)
    files.append(b"x" * 100_000)
    files.tidy()
    assert len(names(tmp_path)) == 1


# a disk that takes nothing


def test_a_folder_that_has_gone_is_told_and_its_return_is_enough(tmp_path: Path) -> None:
    folder = tmp_path / "log"
    folder.mkdir()
    files = files_in(folder)
    files.append(LINE)
    folder.rename(tmp_path / "away")
    folder.write_text("a file")
    for _ in range(2):
        with pytest.raises(OSError, match=r"was removed|Not a directory"):
            files.append(LINE)
    folder.unlink()
    (tmp_path / "away").rename(folder)
    files.append(LINE)
    files.tidy()
    assert sorted(name[0] for name in names(folder)) == ["_", "d"]
    files.finish()
    assert list(contents(folder).values()) == [LINE, LINE]


# the start


def test_a_folder_that_is_missing_is_made_and_nothing_is_left_in_it(tmp_path: Path) -> None:
    prepare_folder(tmp_path / "log")
    prepare_folder(tmp_path / "log")
    assert names(tmp_path / "log") == []


@pytest.mark.parametrize("path", ["file", "file/log", "missing/log"])
def test_a_folder_that_can_not_be_used_refuses_the_start(path: str, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UsageError) as refused:
        prepare_folder(tmp_path / path)
    assert str(refused.value).startswith(
        f"decision.log.path: can't make, lock and rename files in `{tmp_path / path}` ("
    )
    assert "leave decision.log.path out" in str(refused.value)
    assert names(tmp_path) == ["file"]


def test_what_is_told_seldom_is_told_once_a_minute() -> None:
    seldom = OncePerMinute()
    told = [seldom.is_due(now) for now in (0, 1, 59.9, 60, 61, 120)]
    assert told == [True, False, False, True, False, True]
