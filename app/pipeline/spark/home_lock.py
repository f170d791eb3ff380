"""One export, and one ingest, at a time into one home, also after a run that was killed.

The JVM of a killed run goes on for a moment and finishes what it was writing. The lock's file names it, so that the
next run can wait for its end. That needs Linux' /proc; elsewhere the manifests' counts show what such a JVM has done.
"""

import fcntl
import os
import re
import shutil
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from app.pipeline.spark.errors import PipelineError
from app.pipeline.spark.storage import Home

_ROOMS = {"export": "export", "ingest": "decisions"}
_PROC = Path("/proc")
_PATIENCE_S = 60.0
_POLL_S = 0.1
_LINE = re.compile(r"([0-9]+) ([0-9]+) ([0-9]+)")
# Their places in a `stat` file, counted from what follows the name.
_PARENT, _STARTED = 1, 19


@contextmanager
def home_lock(home: Home, job: str) -> Iterator[None]:
    """Raise PipelineError if this job is already at work in this home. Waits for what a killed run left behind.

    It only works where home is a folder of this machine; `reconcile` finds what two exports at once may have done.
    """
    folder = _folder(home, _ROOMS[job])
    if folder is None:
        yield
        return
    try:
        # Spark ignores names that begin with a dot.
        lock = (folder / ".lock").open("a+", encoding="ascii", errors="replace")
    except OSError as error:
        raise PipelineError(
            f"can't write into `{folder}` ({error.strerror}); name another --home, or let this user write there"
        ) from None
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise PipelineError(f"another {job} is at work in `{home.root}`; wait for it, or stop it") from None
        lock.seek(0)
        await_end(children_from(lock.read()), home.root)
        lock.truncate(0)
        lock.writelines(f"{child}\n" for child in children())
        lock.flush()
        for left in folder.glob("*/.spark-staging-*"):
            shutil.rmtree(left, ignore_errors=True)
        yield


def _folder(home: Home, room: str) -> Path | None:
    root = home.root.removeprefix("file://") if home.root.startswith("file:///") else home.root
    if "://" in root or root.startswith("file:"):
        return None
    folder = Path(root) / room
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        # The path may be one of another file system, which is Spark's default.
        return None
    return folder


@dataclass(frozen=True, slots=True)
class Child:
    """A process; `started` is in clock ticks since boot. No two processes share all three."""

    pid: int
    parent: int
    started: int

    def is_orphan(self) -> bool:
        now = _process(self.pid)
        return now is not None and now.started == self.started and now.parent != self.parent

    def __str__(self) -> str:
        return f"{self.pid} {self.parent} {self.started}"


def children() -> list[Child]:
    everything = (_process(int(folder.name)) for folder in _PROC.glob("[0-9]*"))
    return [child for child in everything if child is not None and child.parent == os.getpid()]


def children_from(text: str) -> list[Child]:
    return [Child(*map(int, line.groups())) for line in map(_LINE.fullmatch, text.splitlines()) if line]


def await_end(left: Iterable[Child], at: str, patience_s: float = _PATIENCE_S) -> None:
    """Return once none of them is an orphan. Raises PipelineError if that takes too long."""
    deadline = time.monotonic() + patience_s
    for child in left:
        while child.is_orphan():
            if time.monotonic() > deadline:
                raise PipelineError(
                    f"a run that was killed has left process {child.pid}, which may still write into `{at}`; "
                    f"end it (kill {child.pid}), and run this again"
                )
            time.sleep(_POLL_S)


def _process(pid: int) -> Child | None:
    try:
        text = (_PROC / str(pid) / "stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    # The name may hold anything, even brackets.
    rest = text.rpartition(")")[2].split()
    if rest[0] in "ZX":
        return None
    return Child(pid, int(rest[_PARENT]), int(rest[_STARTED]))
