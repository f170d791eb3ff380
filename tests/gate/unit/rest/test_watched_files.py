"""A file that changes in every way that files are changed, and is seen to."""

import os
from pathlib import Path

import pytest

from app.rest.callers.static_tokens import WatchedFile

LATER = 4_102_444_800.0
"""In the year 2100 whatever is changed here has been as it is for long."""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "file"
    path.write_text("old")
    return path


def watched(path: Path) -> WatchedFile:
    """Seen for the first time."""
    watch = WatchedFile(path)
    assert watch.changed(LATER)
    return watch


def test_a_file_that_stays_is_looked_at_once(file: Path) -> None:
    watch = watched(file)
    assert not watch.changed(LATER)
    assert not watch.changed(LATER)


def test_writing_over_it_is_seen(file: Path) -> None:
    watch = watched(file)
    file.write_text("longer than before")
    assert watch.changed(LATER)
    assert not watch.changed(LATER)


def test_another_file_in_its_place_is_seen_whatever_its_size_and_time(file: Path) -> None:
    watch = watched(file)
    status = file.stat()
    other = file.with_name("other")
    other.write_text("new")
    os.utime(other, ns=(status.st_atime_ns, status.st_mtime_ns))
    other.replace(file)
    assert watch.changed(LATER)


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
    assert watch.changed(LATER)
    assert not watch.changed(LATER)


def test_its_end_and_its_return_are_seen(file: Path) -> None:
    watch = watched(file)
    file.unlink()
    assert watch.changed(LATER)
    assert not watch.changed(LATER)
    file.write_text("old")
    assert watch.changed(LATER)


def test_a_young_file_is_looked_at_again_for_its_times_are_coarse(file: Path) -> None:
    changed_at = file.stat().st_ctime
    watch = WatchedFile(file)
    assert watch.changed(changed_at)
    assert watch.changed(changed_at + 1.9)
    assert watch.changed(changed_at + 2.1)
    assert not watch.changed(changed_at + 2.1)
