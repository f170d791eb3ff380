"""The files of the decision log. Each process has one open; it is closed by size and age, and the oldest are deleted.

`_decisions-<UTC start>-<pid>-<number>.jsonl` is open, and locked (flock) by the process that writes it. Once closed,
it is `decisions-...` and never changes again.
"""

import errno
import fcntl
import logging
import os
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from app.formats.clock import SYSTEM_CLOCK, Clock
from app.formats.command_errors import UsageError
from app.formats.lines import append_whole
from app.logs.lines import OncePerMinute
from app.metrics.declared import Metrics

_LOG = logging.getLogger(__name__)
_OPEN, _CLOSED, _END = "_decisions-", "decisions-", ".jsonl"
_FILE_MODE, _FOLDER_MODE = 0o640, 0o750
_ATTEMPTS = 100
# The smallest file takes this on most disks, so many small files count for the room they take.
_LEAST_BYTES = 4_096
_LOOKS_PER_KEPT = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class FileBounds:
    folder: Path
    rotate_bytes: int
    rotate_s: float
    retention_bytes: int
    clock: Clock = SYSTEM_CLOCK


class _OpenFile:
    __slots__ = ("_descriptor", "opened_at", "path", "size")

    def __init__(self, path: Path, descriptor: int, opened_at: float) -> None:
        self.path = path
        self.opened_at = opened_at
        self.size = 0
        self._descriptor = descriptor

    def is_there(self) -> bool:
        return _is_at(self.path, self._descriptor)

    def append(self, lines: bytes) -> None:
        append_whole(self._descriptor, lines, self.size)
        self.size += len(lines)

    def finish(self) -> None:
        """Closes the file and gives it its closed name. After an OSError it is a left-over."""
        try:
            # INVARIANT: the lock is held until nobody can take the file for a left-over any more.
            _finish(self.path, self._descriptor)
        finally:
            self.abandon()

    def abandon(self) -> None:
        with suppress(OSError):
            os.close(self._descriptor)


class DecisionFiles:
    """The folder to which one process writes, from one thread."""

    def __init__(self, bounds: FileBounds, metrics: Metrics) -> None:
        self._bounds = bounds
        self._metrics = metrics
        self._clock = bounds.clock.monotonic
        self._file: _OpenFile | None = None
        self._number = 0
        self._left_over = True
        """Whether there may be open files that nobody writes to."""
        self._closed_bytes = bounds.retention_bytes
        """Bytes closed since the closed files were last counted; at first enough to count them."""
        self._deleted = 0
        self._may_tell = OncePerMinute()
        self._device = _device_of(bounds.folder)

    def append(self, lines: bytes) -> None:
        file = self._file
        if file is not None and not file.is_there():
            # It may come back with its folder.
            self._file, self._left_over = None, True
            file.abandon()
            raise FileNotFoundError(errno.ENOENT, "the open file was removed", str(file.path))
        if file is None:
            self._make_removed_folder()
            file = self._file = self._opened()
        try:
            file.append(lines)
        except OSError:
            # The next file may be on another disk; what this one holds is worth reading.
            with suppress(OSError):
                self.finish()
            raise

    def tidy_s(self) -> float | None:
        """Seconds until `tidy` has something to do; None means not before the next line."""
        if self._left_over:
            return 0.0
        return None if self._file is None else max(0.0, self._ends_in_s(self._file))

    def _ends_in_s(self, file: _OpenFile) -> float:
        return file.opened_at + self._bounds.rotate_s - self._clock()

    def tidy(self) -> None:
        """Closes the open file if it is due, closes left-overs, and deletes any excess. Raises OSError."""
        file = self._file
        if file is not None and (file.size >= self._bounds.rotate_bytes or self._ends_in_s(file) <= 0):
            self.finish()
        if self._file is None:
            self._make_removed_folder()
        if self._left_over:
            self._adopt()
        if self._closed_bytes * _LOOKS_PER_KEPT >= self._bounds.retention_bytes:
            self._delete_oldest()

    def finish(self) -> None:
        """Raises OSError if the open file can't be renamed, which a later `tidy` does."""
        file, self._file = self._file, None
        if file is None:
            return
        try:
            file.finish()
        except OSError:
            self._left_over = True
            raise
        self._closed_bytes += max(file.size, _LEAST_BYTES)

    def _make_removed_folder(self) -> None:
        folder = self._bounds.folder
        if _device_of(folder) is not None:
            return
        # INVARIANT: not where the disk that it was on is missing, whose place the lines would take.
        if self._device is None or _device_of(folder.parent) != self._device:
            raise FileNotFoundError(errno.ENOENT, "the folder is gone, or its disk is not mounted", str(folder))
        folder.mkdir(mode=_FOLDER_MODE, exist_ok=True)
        _LOG.warning("decision_log_folder_made_again", extra={"folder": folder})

    def _opened(self) -> _OpenFile:
        for _ in range(_ATTEMPTS):
            self._number += 1
            path = (
                self._bounds.folder / f"{_OPEN}{_stamp(self._bounds.clock.wall())}-{os.getpid()}-{self._number}{_END}"
            )
            try:
                flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC
                descriptor = os.open(path, flags, _FILE_MODE)
            except FileExistsError:
                continue
            # In between, a starting process may have taken it for a left-over.
            if _is_locked(descriptor) and _is_at(path, descriptor):
                return _OpenFile(path, descriptor, self._clock())
            os.close(descriptor)
        raise OSError(errno.EBUSY, "no name is free", str(self._bounds.folder))

    def _adopt(self) -> None:
        """Closes files that dead processes left open, whose locks nobody holds."""
        own = None if self._file is None else self._file.path.name
        for name in _names(self._bounds.folder, _OPEN, (_END,)):
            # Where a lock belongs to the process (NFS), a second lock on its own file would end the first.
            if name != own:
                _adopt(self._bounds.folder / name)
        self._left_over = False

    def _delete_oldest(self) -> None:
        """Keeps the newest closed files, and the very newest always. Names sort by their start."""
        folder, kept, failed, deleted = self._bounds.folder, 0, 0, self._deleted
        self._closed_bytes = 0
        names = _names(folder, _CLOSED, (_END, f"{_END}.gz"))
        for at, name in enumerate(reversed(names)):
            # Another process may delete as well.
            with suppress(FileNotFoundError):
                size = (folder / name).stat().st_size
                kept += max(size, _LEAST_BYTES)
                if at and kept > self._bounds.retention_bytes:
                    try:
                        (folder / name).unlink()
                    except PermissionError:
                        failed += 1
                    else:
                        self._deleted += 1
                        self._metrics.decision_log_files_deleted += 1
        if (failed or self._deleted > deleted) and self._may_tell.is_due(self._clock()):
            why = "the closed files exceeded decision.log.retention.bytes; some may not have been ingested"
            extra = {"files": self._deleted, "not_permitted": failed, "folder": folder, "why": why}
            _LOG.warning("decision_log_files_deleted", extra=extra)
            self._deleted = 0


def prepare_folder(folder: Path) -> None:
    """Makes the folder, but no parent of it. Raises UsageError if files in it can't be made, locked and renamed."""
    probe = folder / f"_klamm-probe-{os.getpid()}-{time.time_ns()}"
    try:
        folder.mkdir(mode=_FOLDER_MODE, exist_ok=True)
        descriptor = os.open(probe, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, _FILE_MODE)
        try:
            _is_locked(descriptor)
            _rename(probe, probe.with_suffix(".renamed"))
        finally:
            os.close(descriptor)
            for each in (probe, probe.with_suffix(".renamed")):
                each.unlink(missing_ok=True)
    except OSError as fault:
        raise UsageError(
            f"decision.log.path: can't make, lock and rename files in `{folder}` ({fault.strerror}); name a folder "
            "that this user may write to, or leave decision.log.path out"
        ) from None


def _device_of(path: Path) -> int | None:
    """Of a file or folder; None if there is none."""
    try:
        return path.stat().st_dev
    except (FileNotFoundError, NotADirectoryError):
        return None


def _stamp(now: float) -> str:
    seconds, rest = divmod(now, 1)
    return f"{time.strftime('%Y%m%dT%H%M%S', time.gmtime(seconds))}.{int(rest * 1_000_000):06d}Z"


def _names(folder: Path, start: str, ends: tuple[str, ...]) -> list[str]:
    with os.scandir(folder) as entries:
        named = [each for each in entries if each.name.startswith(start) and each.name.endswith(ends)]
        return sorted(each.name for each in named if each.is_file(follow_symlinks=False))


def _adopt(path: Path) -> None:
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except (FileNotFoundError, PermissionError):
        # It has gone meanwhile, or is another user's, whose own services will close it.
        return
    try:
        if _is_locked(descriptor) and _is_at(path, descriptor):
            _finish(path, descriptor)
    finally:
        os.close(descriptor)


def _finish(path: Path, descriptor: int) -> None:
    """Gives a file its closed name, or deletes it if it is empty. The caller holds its lock."""
    if not os.fstat(descriptor).st_size:
        path.unlink(missing_ok=True)
        return
    name = path.name.removeprefix("_")
    for number in range(_ATTEMPTS):
        target = path.with_name(name if not number else f"{name.removesuffix(_END)}-{number}{_END}")
        with suppress(FileExistsError):
            _rename(path, target)
            return
    raise FileExistsError(errno.EEXIST, "no name is free", str(path))


def _rename(source: Path, target: Path) -> None:
    # INVARIANT: only the holder of `_X`'s lock makes `X`, and no other file can be opened as `_X` meanwhile.
    if target.exists():
        raise FileExistsError(errno.EEXIST, "the name is taken", str(target))
    source.rename(target)


def _is_locked(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_at(path: Path, descriptor: int) -> bool:
    try:
        there = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    return os.path.samestat(there, os.fstat(descriptor))
