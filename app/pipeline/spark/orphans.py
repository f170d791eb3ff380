"""What a run that was killed left behind: its JVM goes on for a moment, and writes what it had begun.

By Linux' /proc; elsewhere nothing is known of it, and what it may have done is found by the counts of manifests.
"""

import os
import re
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from app.pipeline.spark.errors import PipelineError

_PROC = Path("/proc")
_PATIENCE_S = 60.0
_LOOK_S = 0.1
_LINE = re.compile(r"([0-9]+) ([0-9]+) ([0-9]+)")
_PARENT, _STARTED = 1, 19
"""Where they stand in a `stat` file, counted from what follows the name."""


@dataclass(frozen=True, slots=True)
class Child:
    """A process, whose parent it was, and when it began (clock ticks since the machine did): no other has all three."""

    pid: int
    parent: int
    started: int

    def is_orphan(self) -> bool:
        """Whether it outlives its parent."""
        now = _looked_at(self.pid)
        return now is not None and now.started == self.started and now.parent != self.parent

    def __str__(self) -> str:
        return f"{self.pid} {self.parent} {self.started}"


def children() -> list[Child]:
    """Of this process, as of now."""
    mine = os.getpid()
    return [child for child in _all() if child.parent == mine]


def children_from(text: str) -> list[Child]:
    """Those that stand in these lines, as `str` makes them; lines that are none are passed over."""
    return [Child(*map(int, line.groups())) for line in map(_LINE.fullmatch, text.splitlines()) if line]


def await_end(left: Iterable[Child], at: str, patience_s: float = _PATIENCE_S) -> None:
    """Return once none of them is an orphan. Raises PipelineError, with the way out, if that does not come."""
    deadline = time.monotonic() + patience_s
    for child in left:
        while child.is_orphan():
            if time.monotonic() > deadline:
                raise PipelineError(
                    f"a run that was killed has left process {child.pid}, which may still write into `{at}`; "
                    f"end it (kill {child.pid}), and run this again"
                )
            time.sleep(_LOOK_S)


def _all() -> Iterator[Child]:
    for folder in _PROC.glob("[0-9]*"):
        child = _looked_at(int(folder.name))
        if child is not None:
            yield child


def _looked_at(pid: int) -> Child | None:
    try:
        text = (_PROC / str(pid) / "stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    # The name may hold anything, even brackets.
    rest = text.rpartition(")")[2].split()
    if rest[0] in "ZX":
        return None
    return Child(pid, int(rest[_PARENT]), int(rest[_STARTED]))
