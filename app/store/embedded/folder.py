"""The data folder of an embedded PostgreSQL: its lock, and the files that outlive the process.

<data dir>/lock              locked while a process supervises the server; holds its process id
<data dir>/password          of PostgreSQL's user klamm, 0600, owned by the user that runs Klamm
<data dir>/port              the port of the last start
<data dir>/postgresql.log    what the server says; one older file is kept
<data dir>/postgres/         PostgreSQL's own data folder (the cluster)
"""

import fcntl
import os
import secrets
import socket
import stat
import time
from collections.abc import Container
from contextlib import suppress
from pathlib import Path
from typing import IO

from app.formats.secret_files import others_may_write
from app.store.embedded.process import OWN_IDS, EmbeddedPostgresError

LOOPBACK = "127.0.0.1"
_LOG_LIMIT_BYTES = 16 * 1024 * 1024
_LOG_TAIL_BYTES = 16 * 1024
_SERVER_END_TIMEOUT_S = 15.0
_POLL_S = 0.02
_FILES = ("lock", "password", "port", "postgresql.log", "postgresql.log.1")
_OTHER_PLACE = "name another folder with --data-dir (KLAMM_DATA_DIR)"


class FolderHeldError(EmbeddedPostgresError): ...


class DataFolder:
    def __init__(self, path: Path) -> None:
        self.path = path.absolute()
        self.cluster = self.path / "postgres"
        self.unfinished = self.path / "postgres.new"
        self.password_file = self.path / "password"
        self._lock: IO[str] | None = None
        self._log_start = 0

    def hold(self) -> None:
        """Takes the lock until `release` or the end of this process. Raises EmbeddedPostgresError, FolderHeldError."""
        try:
            make_own_folder(self.path)
            self._refuse_what_is_not_ours()
            lock = self._open_private("lock", "a+")
        except OSError as error:
            raise EmbeddedPostgresError(
                f"can't keep data in `{self.path}` ({error.strerror}: `{error.filename}`); "
                "name a folder that you may write with --data-dir (KLAMM_DATA_DIR)"
            ) from None
        self._take(lock)
        lock.truncate(0)
        lock.write(f"{os.getpid()}\n")
        lock.flush()
        self._lock = lock

    @property
    def lock_descriptor(self) -> int:
        """For the server to inherit.

        INVARIANT: the lock is free only when all processes of the server have ended, whatever happened to Klamm.
        """
        if self._lock is None:
            raise RuntimeError("the data folder is not held")
        return self._lock.fileno()

    def release(self) -> None:
        if self._lock is not None:
            self._lock.truncate(0)
            self._lock.close()
            self._lock = None

    def _take(self, lock: IO[str]) -> None:
        """After a SIGKILL of its supervisor, a server needs some time for its last checkpoint."""
        deadline = time.monotonic() + _SERVER_END_TIMEOUT_S
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                lock.seek(0)
                holder = lock.read().strip()
            else:
                return
            if _is_alive(holder) or time.monotonic() > deadline:
                lock.close()
                raise FolderHeldError(
                    f"`{self.path}` is in use by the Klamm process {holder or 'unknown'}; "
                    f"stop that one first, or {_OTHER_PLACE}"
                )
            time.sleep(_POLL_S)

    def make_password(self) -> None:
        if self.password():
            return
        with self._open_private("password", "w") as file:
            file.write(f"{secrets.token_urlsafe(32)}\n")
            file.flush()
            os.fsync(file.fileno())

    def password(self) -> str:
        try:
            return self._read("password").strip()
        except FileNotFoundError:
            return ""

    def port(self) -> int:
        with suppress(FileNotFoundError, ValueError):
            remembered = int(self._read("port"))
            if port_is_free(remembered):
                return remembered
        with socket.socket() as probe:
            probe.bind((LOOPBACK, 0))
            port = int(probe.getsockname()[1])
        with self._open_private("port", "w") as file:
            file.write(f"{port}\n")
        return port

    def open_log(self) -> IO[bytes]:
        log = self.path / "postgresql.log"
        if log.exists() and log.stat().st_size > _LOG_LIMIT_BYTES:
            log.replace(log.with_suffix(".log.1"))
        descriptor = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        self._log_start = os.fstat(descriptor).st_size
        return os.fdopen(descriptor, "ab")

    def last_words(self) -> str:
        with (self.path / "postgresql.log").open("rb") as log:
            log.seek(max(self._log_start, log.seek(0, os.SEEK_END) - _LOG_TAIL_BYTES))
            lines = log.read().decode(errors="replace").splitlines()
        return next((line for line in reversed(lines) if "FATAL:" in line or "PANIC:" in line), "".join(lines[-1:]))

    def _refuse_what_is_not_ours(self) -> None:
        if (self.path / "PG_VERSION").exists():
            raise EmbeddedPostgresError(
                f"`{self.path}` is a data folder of PostgreSQL itself; name a folder of Klamm's own with --data-dir"
            )
        owners = (os.geteuid(),)
        # A first start that was killed may have left them to initdb's account. The next one removes them unread.
        made_anew = (self.unfinished,) if self.cluster.exists() else (self.unfinished, self.password_file)
        for path in (*(self.path / name for name in _FILES), self.cluster, self.unfinished):
            try:
                facts = path.lstat()
            except FileNotFoundError:
                continue
            is_file = path.name in _FILES
            if not (stat.S_ISREG if is_file else stat.S_ISDIR)(facts.st_mode):
                kind = "a symbolic link" if stat.S_ISLNK(facts.st_mode) else "something else"
                raise EmbeddedPostgresError(
                    f"`{path}` should be a {'file' if is_file else 'folder'}, but is {kind}; remove it, or "
                    f"{_OTHER_PLACE}"
                )
            if path not in made_anew:
                _refuse_owner(path, facts, owners if is_file or owners != (0,) else (0, *OWN_IDS))

    def _read(self, name: str) -> str:
        with self._open_private(name, "r") as file:
            return file.read()

    def _open_private(self, name: str, mode: str) -> IO[str]:
        def opener(path: str, flags: int) -> int:
            return os.open(path, flags | os.O_NOFOLLOW, 0o600)

        return open(self.path / name, mode, encoding="ascii", opener=opener)


def port_is_free(port: int) -> bool:
    with socket.socket() as probe:
        # PostgreSQL sets it too: connections left over from its last run don't matter.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except (OSError, OverflowError):
            return False
    return True


def make_own_folder(path: Path) -> None:
    """Makes the folder, and those above it that are missing.

    INVARIANT: afterwards no other user can change any part of the path. Each folder above it belongs to root or to this
    process' user; either nobody else can write to it, or it is sticky like /tmp, so that nobody else can move ours.
    Raises EmbeddedPostgresError for a path that is not safe, OSError for what the system refuses.
    """
    _make_way(path.parent)
    facts = _made(path, 0o700)
    if stat.S_ISLNK(facts.st_mode):
        raise EmbeddedPostgresError(
            f"`{path}` is a symbolic link; name the folder that it leads to (`{path.readlink()}`) with --data-dir"
        )
    _refuse_owner(path, facts, (os.geteuid(),))
    _refuse_open(path, facts)


def _make_way(folder: Path) -> None:
    # From the root down: nobody can replace what has been checked.
    if folder != folder.parent:
        _make_way(folder.parent)
    facts = _made(folder, 0o755)
    _refuse_owner(folder, facts, (0, os.geteuid()))
    if stat.S_ISLNK(facts.st_mode):
        folder.stat()  # raises for links in a circle
        _make_way(folder.parent / folder.readlink())
    elif not facts.st_mode & stat.S_ISVTX:
        _refuse_open(folder, facts)


def _made(folder: Path, mode: int) -> os.stat_result:
    if not os.path.lexists(folder):
        with suppress(FileExistsError):
            folder.mkdir(mode)
    return folder.lstat()


def _refuse_owner(path: Path, facts: os.stat_result, owners: Container[int]) -> None:
    if facts.st_uid not in owners:
        raise EmbeddedPostgresError(
            f"`{path}` belongs to user id {facts.st_uid}, but Klamm runs as user id {os.geteuid()}; run Klamm as its "
            f"owner, or {_OTHER_PLACE}"
        )


def _refuse_open(path: Path, facts: os.stat_result) -> None:
    if others_may_write(facts):
        raise EmbeddedPostgresError(
            f"other users can write to `{path}` (mode {stat.S_IMODE(facts.st_mode):04o}); check that nothing in it is "
            f"theirs and remove that permission (chmod go-w), or {_OTHER_PLACE}"
        )


def _is_alive(process: str) -> bool:
    try:
        os.kill(int(process), 0)
    except (ValueError, ProcessLookupError):
        return False
    except PermissionError:
        return True
    return True
