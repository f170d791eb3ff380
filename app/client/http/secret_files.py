"""Files that hold secrets: read only if nobody else is let in, as ssh and PostgreSQL have it."""

import os
import stat
from pathlib import Path
from typing import BinaryIO

from app.formats.command_errors import UsageError

_ROOT = 0
_GROUP_MAY_READ = 0o040
_ANYBODY_ELSE = 0o077


def refuse_if_open(file: BinaryIO, path: Path, where: str, what: str) -> None:
    """Raises UsageError, in words that begin with `where`, if others could get at the secret (`what`) in an open file.

    What is no ordinary file, such as a pipe, keeps nothing that others could read.
    """
    found = os.fstat(file.fileno())
    is_read_only = bool(os.fstatvfs(file.fileno()).f_flag & os.ST_RDONLY)
    if stat.S_ISREG(found.st_mode) and lets_others_in(
        found.st_mode, found.st_uid, os.geteuid(), is_read_only=is_read_only
    ):
        mode = stat.S_IMODE(found.st_mode)
        raise UsageError(
            f"{where}: others can get at {what} in `{path}` (mode {mode:04o}); make it yours alone: chmod 600"
        )


def lets_others_in(mode: int, owner: int, reader: int, *, is_read_only: bool) -> bool:
    """Whether a file of this mode is open to more than its owner and its reader (user ids).

    The group may read what root has put there for others, as for a pod's fsGroup. On a read-only mount, as secrets of
    Kubernetes and Docker are, no mode is looked at: who made the mount has decided, and nobody could mend it from here.
    """
    allowed = _GROUP_MAY_READ if owner == _ROOT != reader else 0
    return not is_read_only and bool(mode & _ANYBODY_ELSE & ~allowed)
