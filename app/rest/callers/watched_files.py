"""Files that change under a running service: written over, replaced, or swapped by a symbolic link (Kubernetes)."""

import time
from collections.abc import Callable
from pathlib import Path

_SETTLES_S = 2.0
"""A file younger than this may change once more and show it neither by its times, which are coarse, nor its size."""


class WatchedFiles:
    """Some files that belong together. Looking at them is a few system calls, which block."""

    def __init__(self, *paths: Path, clock: Callable[[], float] = time.time) -> None:
        self._paths = paths
        self._clock = clock
        self._seen: tuple[object, ...] | None = None

    def changed(self) -> bool:
        """Whether one of them may have changed since the last look; the first look says yes."""
        marks = tuple(_mark_of(path) for path in self._paths)
        if marks == self._seen:
            return False
        settled = all(mark is None or self._clock() - mark[-1] / 1e9 > _SETTLES_S for mark in marks)
        self._seen = marks if settled else None
        return True


def _mark_of(path: Path) -> tuple[int, ...] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns
