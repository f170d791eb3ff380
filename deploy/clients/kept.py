"""What was made once, and from what: finished clients and fetched tools, in Klamm's cache folder."""

import contextlib
import fcntl
import hashlib
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from app.pipeline.spark.local_cache import cache_folder
from deploy.clients.tools import BuildError

_PATIENCE_S = 1800.0
_KEEP_S = 7 * 86_400
_MARK_LETTERS = 20


def cache(*names: str) -> Path:
    """The clients' part of the cache ($XDG_CACHE_HOME or ~/.cache, and then klamm/clients)."""
    return cache_folder(os.environ, "clients", *names)


def fingerprint(files: Iterable[Path], words: Iterable[str]) -> str:
    """One short name for the contents of these files and for these words, in order."""
    digest = hashlib.sha256()
    for path in files:
        digest.update(b"%b\0%b\0" % (path.name.encode(), hashlib.sha256(path.read_bytes()).digest()))
    for word in words:
        digest.update(b"%b\0" % word.encode())
    return digest.hexdigest()[:_MARK_LETTERS]


def kept(name: str, mark: str, make: Callable[[Path], None]) -> Path:
    """The folder `name-mark`; `make` fills it if it is not there, once, whoever else asks for it at the same time.

    What no run has used for a week goes away when a new one is made. Raises what `make` raises; then nothing is kept.
    """
    folder = cache() / f"{name}-{mark}"
    with locked(name):
        if not folder.is_dir():
            _sweep(name)
            # INVARIANT: a folder with its final name is complete.
            draft = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{name}-"))
            try:
                make(draft)
                draft.rename(folder)
            finally:
                shutil.rmtree(draft, ignore_errors=True)
        os.utime(folder)
    return folder


@contextlib.contextmanager
def locked(name: str) -> Iterator[None]:
    """Alone with this part of the cache, among all processes of the user. Raises BuildError if that takes too long."""
    path = cache() / f"{name}.lock"
    deadline = time.monotonic() + _PATIENCE_S
    with path.open("w") as file:
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise BuildError(
                        f"another process has been holding `{path}` for too long; stop it, and try again"
                    ) from None
                time.sleep(0.2)
        yield


def _sweep(name: str) -> None:
    """Take away what is old, and drafts of runs that were killed."""
    for pattern in (f"{name}-{'[0-9a-f]' * _MARK_LETTERS}", f".{name}-*"):
        for folder in cache().glob(pattern):
            if folder.is_dir() and time.time() - folder.stat().st_mtime > _KEEP_S:
                shutil.rmtree(folder, ignore_errors=True)
