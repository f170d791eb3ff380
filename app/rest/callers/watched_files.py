"""Files that change under a running service: written over, replaced, or swapped by a symbolic link (Kubernetes)."""

import time
from collections.abc import Callable
from pathlib import Path

_SETTLES_S = 2.0
"""A younger file may change once more without a change of its times, which are coarse, or its size."""


class WatchedFiles:
    """Files that belong together. To look at them takes some blocking system calls."""

    def __init__(self, *paths: Path, clock: Callable[[], float] = time.time) -> None:
        self._paths = paths
        self._clock = clock
        self._seen: tuple[object, ...] | None = None

    def changed(self) -> bool:
        """Whether one of them may have changed since the last call; true for the first one."""
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
