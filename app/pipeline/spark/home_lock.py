"""One job at a time writes into a home: a file lock where it is a folder, a lease where it is on an object store.

The JVM of a killed run goes on for a moment and finishes what it was writing. The lock's file names it, so that the
next run can wait for its end. That needs Linux' /proc; elsewhere the manifests' counts show what such a JVM has done.
"""

import fcntl
import os
import re
import shutil
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Protocol

from pyspark.sql import SparkSession

from app.pipeline.spark.errors import PipelineError
from app.pipeline.spark.lease import Lease
from app.pipeline.spark.s3_object import S3Object
from app.pipeline.spark.storage import Home

_NAME, _LEASE = ".lock", "lock.json"
_PROC = Path("/proc")
_PATIENCE_S = 60.0
_POLL_S = 0.1
_LINE = re.compile(r"([0-9]+) ([0-9]+) ([0-9]+)")
_GENERATION = re.compile(r"^generation ([0-9]{1,18})$", re.MULTILINE)
_JOB = re.compile(r"^job ([a-z-]+)$", re.MULTILINE)
# Their places in a `stat` file, counted from what follows the name.
_PARENT, _STARTED = 1, 19


class HomeLock(Protocol):
    """`acquire` raises PipelineError if another run holds it, and tells `note` what it waits for."""

    generation: int
    """Goes up with every holder. Manifests name it."""

    def acquire(self, job: str, note: Callable[[str], None]) -> None: ...

    def check(self) -> None:
        """Raise PipelineError if this run may not be the only one any more. Called before a manifest is written."""

    def release(self) -> None: ...


@contextmanager
def home_lock(
    home: Home, job: str, note: Callable[[str], None] = lambda _: None, spark: SparkSession | None = None
) -> Iterator[HomeLock]:
    """Raise PipelineError if another job is at work in this home. Waits for processes that a killed run left.

    Without `spark`, a home on an object store is not locked.
    """
    lock = lock_of(home, spark)
    lock.acquire(job, note)
    try:
        yield lock
    except KeyboardInterrupt:
        # A lease that is lost interrupts the run.
        lock.check()
        raise
    finally:
        lock.release()


def lock_of(home: Home, spark: SparkSession | None = None) -> HomeLock:
    root = home.root.removeprefix("file://") if home.root.startswith("file:///") else home.root
    if root.startswith("s3a://") and spark is not None:
        return Lease(S3Object.of(spark, home.room(_LEASE)))
    folder = None if "://" in root or root.startswith("file:") else _made(Path(root))
    return NoLock() if folder is None else FileLock(folder)


class NoLock:
    """For a file system without a lock. `reconcile` finds what two exports at once may have done."""

    generation = 0

    def acquire(self, job: str, note: Callable[[str], None]) -> None:
        note(f"this home can't be locked against another {job}; make sure that only one runs at a time")

    def check(self) -> None: ...

    def release(self) -> None: ...


class FileLock:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._file: IO[str] | None = None
        self.generation = 0

    def acquire(self, job: str, note: Callable[[str], None]) -> None:
        try:
            # Spark ignores names that begin with a dot.
            file = self._file = (self._folder / _NAME).open("a+", encoding="ascii", errors="replace")
        except OSError as error:
            raise PipelineError(
                f"can't write into `{self._folder}` ({error.strerror}); name another --home, or let this user write "
                "there"
            ) from None
        try:
            self._take(file, job, note)
        except BaseException:
            self.release()
            raise

    def _take(self, file: IO[str], job: str, note: Callable[[str], None]) -> None:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            holder = _JOB.search(file.read())
            raise PipelineError(
                f"another {holder[1] if holder else 'job'} is running in `{self._folder}`; wait for it, or stop it"
            ) from None
        file.seek(0)
        left = file.read()
        last = _GENERATION.search(left)
        self.generation = (int(last[1]) if last else 0) + 1
        # A run that is refused meanwhile names this job, and one after a kill still knows the children that were left.
        orphans = children_from(left)
        self._write(file, job, orphans)
        await_end(orphans, str(self._folder), note)
        self._write(file, job, children())
        for folder in self._folder.glob("*/*/.spark-staging-*"):
            shutil.rmtree(folder, ignore_errors=True)

    def _write(self, file: IO[str], job: str, those: Iterable["Child"]) -> None:
        file.truncate(0)
        file.writelines([f"generation {self.generation}\n", f"job {job}\n", *(f"{child}\n" for child in those)])
        file.flush()

    def check(self) -> None:
        try:
            is_ours = self._file is not None and os.path.samestat(
                os.fstat(self._file.fileno()), (self._folder / _NAME).stat()
            )
        except OSError:
            is_ours = False
        if not is_ours:
            raise PipelineError(
                f"`{self._folder}` was moved or deleted while this run wrote into it; find out where it is, and run "
                "this again"
            )

    def release(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None


def _made(folder: Path) -> Path | None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        # The path may be on another file system, if that is Spark's default.
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


def await_end(
    left: Iterable[Child], at: str, note: Callable[[str], None] = lambda _: None, patience_s: float = _PATIENCE_S
) -> None:
    """Return once none of them is an orphan. Raises PipelineError if that takes too long."""
    deadline = time.monotonic() + patience_s
    for child in left:
        if child.is_orphan():
            note(f"waiting up to {patience_s:.0f} s for process {child.pid} of a killed run to end")
        while child.is_orphan():
            if time.monotonic() > deadline:
                raise PipelineError(
                    f"process {child.pid} of a killed run is still running, and may write into `{at}`; end it (kill "
                    f"{child.pid}), and run this again"
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
