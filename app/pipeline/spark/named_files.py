"""Files and folders that the command line names, checked before Spark starts, which takes seconds."""

import argparse
import os
import re
import stat
from collections.abc import Mapping
from pathlib import Path

from app.pipeline.spark.errors import PipelineError
from app.pipeline.spark.session import is_of_this_machine, is_submitted

# Variables that may put a plain path on another file system.
_ELSEWHERE = ("HADOOP_CONF_DIR", "SPARK_CONF_DIR")
# What Spark takes for a URL, or for a pattern.
_NO_PLAIN_PATH = re.compile(r"^[A-Za-z][A-Za-z0-9+.-]*:|[*?\[{]")


def check_files(arguments: argparse.Namespace, home: str, environ: Mapping[str, str], *, writes_home: bool) -> None:
    """Raise PipelineError for a file or a home that can't be read or written.

    What Spark reads is checked only if its file system is this machine's.
    """
    for name, value in vars(arguments).items():
        if isinstance(value, Path) and name != "metrics_file":
            # Only `output` is replaced by a new file, which must not happen to a device.
            _check_written(f"--{name.replace('_', '-')}", value, is_replaced=name == "output")
    if not _is_local(arguments, environ):
        return
    if (metrics := arguments.metrics_file) is not None:
        # Unset while it is checked: after a refusal nothing must be written there.
        arguments.metrics_file = None
        _check_written("--metrics-file", metrics, is_replaced=True)
        arguments.metrics_file = metrics
    named = [(name, getattr(arguments, name, None)) for name in ("resources", "teams")]
    for name, path in (*named, *(("decisions", each) for each in getattr(arguments, "decisions", None) or ())):
        if path is not None and not _NO_PLAIN_PATH.search(path):
            _check_read(f"--{name}", path, is_folder=name == "decisions")
    folder = local_folder(arguments, home, environ)
    if folder is not None:
        _check_home(folder, writes=writes_home)


def local_folder(arguments: argparse.Namespace, home: str, environ: Mapping[str, str]) -> Path | None:
    """None if the home may be on another file system than this machine's."""
    return Path(home) if _is_local(arguments, environ) and not _NO_PLAIN_PATH.search(home) else None


def _is_local(arguments: argparse.Namespace, environ: Mapping[str, str]) -> bool:
    if is_submitted(environ) or any(environ.get(name) for name in _ELSEWHERE):
        return False
    if any("fs.defaultFS" in each for each in arguments.conf):
        return False
    return is_of_this_machine(arguments.master)


def _check_written(flag: str, path: Path, *, is_replaced: bool) -> None:
    way_out = "name another file"
    mode = _mode(flag, path)
    if mode is not None and stat.S_ISDIR(mode):
        raise PipelineError(f"{flag}: `{path}` is a folder; name a file")
    if mode is not None and is_replaced and not stat.S_ISREG(mode):
        raise PipelineError(f"{flag}: `{path}` is not a regular file, and would be replaced by one; {way_out}")
    folder = _mode(flag, path.parent)
    if folder is None or not stat.S_ISDIR(folder):
        raise PipelineError(f"{flag}: there is no folder `{path.parent}`; create it, or {way_out}")
    if not os.access(path if mode is not None and not is_replaced else path.parent, os.W_OK):
        raise PipelineError(f"{flag}: `{path}` can't be written (Permission denied); {way_out}")


def _check_read(flag: str, path: str, *, is_folder: bool) -> None:
    mode = _mode(flag, Path(path))
    if mode is None:
        raise PipelineError(f"{flag}: there is no {'folder' if is_folder else 'file or folder'} `{path}`")
    if is_folder and not stat.S_ISDIR(mode):
        raise PipelineError(f"{flag}: `{path}` is not a folder; name the one that decision.log.path names")
    if not os.access(path, os.R_OK):
        raise PipelineError(f"{flag}: `{path}` can't be read (Permission denied); let this user read it")


def _check_home(home: Path, *, writes: bool) -> None:
    there, mode = home, _mode("--home", home)
    while mode is None:
        there = there.parent
        mode = _mode("--home", there)
    if not stat.S_ISDIR(mode):
        raise PipelineError(f"--home: `{home}` can't be created, as `{there}` is not a folder; name another one")
    needed = os.R_OK | os.X_OK | (os.W_OK if writes else 0)
    if not os.access(there, needed):
        rights = "read and write in" if writes else "read"
        raise PipelineError(f"--home: this user may not {rights} `{there}`; name another, or change its permissions")


def _mode(flag: str, path: Path) -> int | None:
    try:
        return path.stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise PipelineError(f"{flag}: `{path}`: {error.strerror}; name another one") from None
