"""A file that changes in every way that files are changed, and is seen to."""

import os
from pathlib import Path

import pytest

from app.rest.callers.static_tokens import WatchedFile

LATER_S = 3600.0


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "file"
    path.write_text("old")
    return path


def watched(path: Path, after_s: float = LATER_S) -> WatchedFile:
    """Seen for the first time, by a clock that is so far ahead that it is old."""
    watch = WatchedFile(path, clock=lambda: os.stat(path.parent).st_ctime + after_s)  # noqa: PTH116 - as text
    assert watch.changed()
    return watch


def test_a_file_that_stays_is_looked_at_once(file: Path) -> None:
    watch = watched(file)
    assert not watch.changed()
    assert not watch.changed()


def test_writing_over_it_is_seen(file: Path) -> None:
    watch = watched(file)
    file.write_text("longer than before")
    assert watch.changed()
    assert not watch.changed()


def test_another_file_in_its_place_is_seen_whatever_its_size_and_time(file: Path) -> None:
    watch = watched(file)
    status = file.stat()
    other = file.with_name("other")
    other.write_text("new")
    os.utime(other, ns=(status.st_atime_ns, status.st_mtime_ns))
    other.replace(file)
    assert watch.changed()


def test_a_symbolic_link_that_is_swapped_is_seen(tmp_path: Path) -> None:
    # Kubernetes: token -> ..data/token, ..data -> ..2026_11_21
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "token").write_text(name)
    data = tmp_path / "..data"
    data.symlink_to("first")
    (tmp_path / "token").symlink_to("..data/token")
    watch = watched(tmp_path / "token")
    beside = tmp_path / "..new"
    beside.symlink_to("second")
    beside.replace(data)
    assert watch.changed()
    assert not watch.changed()


def test_its_end_and_its_return_are_seen(file: Path) -> None:
    watch = watched(file)
    file.unlink()
    assert watch.changed()
    assert not watch.changed()
    file.write_text("old")
    assert watch.changed()


def test_a_young_file_is_looked_at_again_for_its_times_are_coarse(file: Path) -> None:
    watch = watched(file, after_s=0.0)
    assert watch.changed()
    assert watch.changed()
