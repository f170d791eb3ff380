"""Files that hold secrets: tokens, private keys, keys of seals. They are refused where others could get at them."""

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


def lets_others_in(mode: int, owner: int, reader: int, *, is_read_only: bool) -> bool:
    """Whether a file of this mode is open to more than its owner and its reader (user ids).

    The group may read what root has written for others, as with a pod's fsGroup. Modes don't count on a read-only
    mount, such as the secrets of Kubernetes and Docker: whoever mounted it has decided, and nobody could change them.
    """
    allowed = _GROUP_MAY_READ if owner == _ROOT != reader else 0
    return not is_read_only and bool(mode & _ANYBODY_ELSE & ~allowed)
