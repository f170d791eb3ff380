"""Klamm's cache folder on this machine: results of downloads and searches, kept for the next start."""

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path

from app.pipeline.spark.errors import PipelineError

_WRITABLE_BY_OTHERS = 0o022


def cache_folder(environ: Mapping[str, str], *names: str) -> Path:
    """In $XDG_CACHE_HOME/klamm (~/.cache/klamm), for this user alone, as programs are run from it.

    Raises PipelineError if it can't be made, or if somebody else could put files into it.
    """
    root = _root(environ)
    folder = root.joinpath(*names)
    try:
        root.parent.mkdir(parents=True, exist_ok=True)
        for depth in range(len(names) + 1):
            each = root.joinpath(*names[:depth])
            each.mkdir(mode=0o700, exist_ok=True)
            facts = each.stat()
            if facts.st_uid != os.geteuid() or facts.st_mode & _WRITABLE_BY_OTHERS:
                raise PipelineError(
                    f"others can write into the cache folder `{each}`; name another one with XDG_CACHE_HOME, or make "
                    "it yours alone (chmod go-w)"
                )
    except OSError as error:
        raise PipelineError(
            f"can't keep a cache in `{folder}` ({error.strerror}); name a folder that you may write with XDG_CACHE_HOME"
        ) from None
    return folder


def put_file(path: Path, content: bytes, mode: int) -> None:
    """Writes the file atomically, even with other writers."""
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
        Path(name).chmod(mode)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def _root(environ: Mapping[str, str]) -> Path:
    named = environ.get("XDG_CACHE_HOME", "")
    # Its specification says to ignore relative paths.
    if Path(named).is_absolute():
        return Path(named) / "klamm"
    try:
        return Path.home() / ".cache" / "klamm"
    except (RuntimeError, KeyError):  # a container's user may have no home
        raise PipelineError("there is no home folder to keep a cache in; name a folder with XDG_CACHE_HOME") from None
