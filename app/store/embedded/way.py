"""The path to a private folder: no step of it may be another user's to change, now or later.

INVARIANT: after the walk the path may be used safely. Each folder above it belongs to root or to this process' user and
is writable by nobody else, or is sticky, as /tmp is, where nobody else can move ours.
"""

import errno
import os
import stat
from contextlib import suppress
from pathlib import Path

from app.store.embedded.process import EmbeddedPostgresError

_LINKS_AT_MOST = 40
_FOLDER = os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC | getattr(os, "O_PATH", os.O_RDONLY)
_OTHER_PLACE = "name another folder with --data-dir"


def walk_to_own_folder(path: Path, mode: int) -> None:
    """Walks to the folder from the root, step by step, and makes what is missing.

    Raises EmbeddedPostgresError for a symbolic link in its place, a folder of another user, or a path that others can
    change; OSError for what the system refuses.
    """
    at = os.open("/", _FOLDER)
    here = Path("/")
    todo = list(reversed(path.absolute().parts[1:]))
    links = 0
    try:
        while todo:
            name = todo.pop()
            _check_parent(here, os.fstat(at), name)
            target = _link(at, here / name, is_last=not todo)
            if target is None:
                at, here = _step(at, here / name, mode if not todo else 0o755), here / name
                continue
            links += 1
            if links > _LINKS_AT_MOST:
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(here / name))
            todo += reversed(target.parts[1:] if target.is_absolute() else target.parts)
            if target.is_absolute():
                os.close(at)
                at, here = os.open("/", _FOLDER), Path("/")
        _check_own(path, os.fstat(at))
    finally:
        os.close(at)


def _link(at: int, path: Path, *, is_last: bool) -> Path | None:
    """The target if this is a link. Raises EmbeddedPostgresError for another user's."""
    try:
        facts = os.stat(path.name, dir_fd=at, follow_symlinks=False)
    except FileNotFoundError:
        return None
    if not stat.S_ISLNK(facts.st_mode):
        return None
    target = Path(os.readlink(path.name, dir_fd=at))
    if is_last:
        raise EmbeddedPostgresError(
            f"`{path}` is a symbolic link; name the folder that it leads to (`{target}`) with --data-dir"
        )
    if facts.st_uid not in (0, os.geteuid()):
        raise EmbeddedPostgresError(
            f"`{path}` is a symbolic link of user id {facts.st_uid}, who can make it lead anywhere; {_OTHER_PLACE}"
        )
    return target


def _step(at: int, path: Path, mode: int) -> int:
    """Opens the folder of this name and closes its parent."""
    try:
        with suppress(FileExistsError):
            if not _is_there(at, path.name):
                os.mkdir(path.name, mode, dir_fd=at)
        found = os.open(path.name, _FOLDER, dir_fd=at)
    except OSError as fault:
        raise OSError(fault.errno, fault.strerror, str(path)) from None
    os.close(at)
    return found


def _is_there(at: int, name: str) -> bool:
    try:
        os.stat(name, dir_fd=at, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True


def _check_parent(path: Path, facts: os.stat_result, name: str) -> None:
    if facts.st_uid not in (0, os.geteuid()):
        raise EmbeddedPostgresError(
            f"`{path}` belongs to user id {facts.st_uid}, who could put another folder in the place of `{name}`; "
            f"run Klamm as that user, or {_OTHER_PLACE}"
        )
    if others_write(facts) and not facts.st_mode & stat.S_ISVTX:
        raise EmbeddedPostgresError(
            f"others may write to `{path}` (mode {stat.S_IMODE(facts.st_mode):04o}), and could put another folder in "
            f"the place of `{name}`; take that right from them (chmod go-w), or {_OTHER_PLACE}"
        )


def _check_own(path: Path, facts: os.stat_result) -> None:
    if facts.st_uid != os.geteuid():
        raise EmbeddedPostgresError(
            f"`{path}` belongs to user id {facts.st_uid}, not to {os.geteuid()}, which runs Klamm; "
            f"run Klamm as that user, or {_OTHER_PLACE}"
        )
    if others_write(facts):
        raise EmbeddedPostgresError(
            f"others may write to `{path}` (mode {stat.S_IMODE(facts.st_mode):04o}); see that nothing in it is theirs, "
            f"and take that right from them (chmod go-w), or {_OTHER_PLACE}"
        )


def others_write(facts: os.stat_result) -> bool:
    """Whether others than its owner, root and this user's own group may write there."""
    by_group = facts.st_mode & stat.S_IWGRP and facts.st_gid not in (0, os.getegid())
    return bool(by_group or facts.st_mode & stat.S_IWOTH)
