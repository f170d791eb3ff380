"""One export at a time into one home."""

import fcntl
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from app.pipeline.errors import PipelineError
from app.pipeline.storage import Home


@contextmanager
def alone(home: Home) -> Iterator[None]:
    """Raise PipelineError if another export is at work in this home. A process that is killed leaves nothing locked.

    Only where home is a folder of this machine. Elsewhere whoever starts exports has to see to it; `reconcile` finds
    what two of them at once may have done.
    """
    folder = _folder(home)
    if folder is None:
        yield
        return
    # Spark passes over names that begin with a dot.
    with (folder / ".lock").open("wb") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise PipelineError(f"another export is at work in `{home.root}`; wait for it, or stop it") from None
        for left in (folder / "records").glob(".spark-staging-*"):
            # Of a run that was killed while it wrote.
            shutil.rmtree(left, ignore_errors=True)
        yield


def _folder(home: Home) -> Path | None:
    root = home.root.removeprefix("file://") if home.root.startswith("file:///") else home.root
    if "://" in root or root.startswith("file:"):
        return None
    folder = Path(root) / "export"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        # A path of another file system, which Spark takes as its default one.
        return None
    return folder
