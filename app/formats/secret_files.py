"""Files that others must not get at: secrets (tokens, private keys, keys of seals), and what says who may do what."""

import os
import stat
from pathlib import Path
from typing import BinaryIO

from app.formats.command_errors import UsageError

_ROOT = 0
_GROUP_MAY_READ = 0o040
_ANYBODY_ELSE = 0o077


def refuse_if_open(file: BinaryIO, path: Path, where: str, what: str) -> None:
    """Raises UsageError, which begins with `where`, if other users can read or change the secret (`what`) in the file.

    A pipe or a device keeps nothing that others could read.
    """
    found = os.fstat(file.fileno())
    is_read_only = bool(os.fstatvfs(file.fileno()).f_flag & os.ST_RDONLY)
    if stat.S_ISREG(found.st_mode) and lets_others_in(
        found.st_mode, found.st_uid, os.geteuid(), is_read_only=is_read_only
    ):
        mode = stat.S_IMODE(found.st_mode)
        raise UsageError(
            f"{where}: other users can read or change {what} in `{path}` (mode {mode:04o}); restrict it to its owner: "
            "chmod 600"
        )


def refuse_if_writable(file: BinaryIO, path: Path) -> None:
    """Raises UsageError if other users can change what the file says.

    A link counts for nothing, only the file that it leads to. As above, a pipe and a read-only mount do not count.
    """
    found = os.fstat(file.fileno())
    if not stat.S_ISREG(found.st_mode) or os.fstatvfs(file.fileno()).f_flag & os.ST_RDONLY:
        return
    if found.st_uid not in (_ROOT, os.geteuid()):
        raise UsageError(
            f"`{path}` belongs to user id {found.st_uid}, who can change it, but Klamm runs as user id {os.geteuid()}; "
            "give it to root or to that user (chown), or mount it read-only"
        )
    if others_may_write(found):
        raise UsageError(
            f"other users can change `{path}` (mode {stat.S_IMODE(found.st_mode):04o}); take that permission away: "
            "chmod go-w"
        )


def others_may_write(found: os.stat_result) -> bool:
    """Whether anyone may write there but its owner, root and this user's own group."""
    by_group = found.st_mode & stat.S_IWGRP and found.st_gid not in (_ROOT, os.getegid())
    return bool(by_group or found.st_mode & stat.S_IWOTH)


def lets_others_in(mode: int, owner: int, reader: int, *, is_read_only: bool) -> bool:
    """Whether a file of this mode is open to more than its owner and its reader (user ids).

    The group may read what root has written for others, as with a pod's fsGroup. Modes don't count on a read-only
    mount, such as the secrets of Kubernetes and Docker: whoever mounted it has decided, and nobody could change them.
    """
    allowed = _GROUP_MAY_READ if owner == _ROOT != reader else 0
    return not is_read_only and bool(mode & _ANYBODY_ELSE & ~allowed)
