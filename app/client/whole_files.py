"""Files that commands write whole or not at all, and over an existing one only with --force."""

import os
import secrets
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TextIO

from app.formats.command_errors import UsageError


def target_of(flag: str, path: str, *, force: bool) -> Path:
    """The file that the path leads to, with links resolved. Raises UsageError if it can't be written."""
    target = Path(os.path.realpath(path))
    if target.exists() and not target.is_file():
        raise UsageError(f"{flag}: `{path}` is not a regular file; name another one, or leave {flag} out")
    if target.exists() and not force:
        raise UsageError(f"{flag}: `{path}` exists already; name another file, or replace it with --force")
    if not target.parent.is_dir():
        raise UsageError(f"{flag}: there is no folder `{target.parent}`; create it first")
    return target


def write_whole(flag: str, target: Path, write: Callable[[TextIO], None], *, force: bool, mode: int = 0o666) -> None:
    """`mode` is the most that others may do with the file, less if it replaces one. Raises UsageError."""
    try:
        with _written_whole(target, replaces=force, mode=mode) as file:
            write(file)
    except FileExistsError:
        raise UsageError(f"{flag}: `{target}` was created in the meantime; replace it with --force") from None
    except OSError as error:
        raise UsageError(f"{flag}: can't write `{target}` ({error.strerror})") from None


@contextmanager
def _written_whole(target: Path, *, replaces: bool, mode: int) -> Iterator[TextIO]:
    """A file beside the target, which takes its place at the end, or is removed if anything fails.

    It has the line ends that are written. Raises OSError; FileExistsError unless it `replaces` a file that exists.
    """
    beside = target.parent / f".{target.name[:100]}.{secrets.token_hex(6)}"
    before = _mode_of(target) if replaces else None
    if before is not None:
        mode &= before
    try:
        with open(beside, "x", encoding="utf-8", newline="", opener=partial(os.open, mode=mode)) as file:
            if before is not None:
                # The umask is for new files.
                os.fchmod(file.fileno(), mode)
            yield file
            file.flush()
            os.fsync(file.fileno())
        if replaces:
            beside.replace(target)
        else:
            _put_new(beside, target)
    finally:
        with suppress(OSError):
            beside.unlink()


def _mode_of(target: Path) -> int | None:
    try:
        return stat.S_IMODE(target.stat().st_mode)
    except FileNotFoundError:
        return None


def _put_new(beside: Path, target: Path) -> None:
    try:
        os.link(beside, target)
    except FileExistsError:
        raise
    except OSError:
        # The file system has no hard links.
        if target.exists():
            raise FileExistsError from None
        beside.replace(target)
