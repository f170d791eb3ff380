"""One export, and one ingest, at a time into one home."""

import fcntl
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from app.pipeline.spark.errors import PipelineError
from app.pipeline.spark.orphans import await_end, children, children_from
from app.pipeline.spark.storage import Home

_ROOMS = {"export": "export", "ingest": "decisions"}


@contextmanager
def alone(home: Home, job: str = "export") -> Iterator[None]:
    """Raise PipelineError if this job is at work in this home already. A process that is killed leaves nothing locked.

    What it left to write for its JVM is waited for, by the names of its children in the lock's file.

    Only where home is a folder of this machine. Elsewhere whoever starts jobs has to see to it; `reconcile` finds
    what two exports at once may have done.
    """
    folder = _folder(home, _ROOMS[job])
    if folder is None:
        yield
        return
    try:
        # Spark passes over names that begin with a dot.
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
            # Of a run that was killed while it wrote.
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
        # A path of another file system, which Spark takes as its default one.
        return None
    return folder
