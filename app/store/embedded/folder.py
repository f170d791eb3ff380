"""The data folder of an embedded PostgreSQL: its lock, and the files that outlive the process.

<data dir>/lock              locked while a process supervises the server; holds its process id
<data dir>/password          of PostgreSQL's user klamm, 0600, owned by the user that runs Klamm
<data dir>/port              the port of the last start
<data dir>/postgresql.log    what the server says; one older file is kept
<data dir>/postgres/         PostgreSQL's own data folder (the cluster)
"""

import errno
import fcntl
import os
import secrets
import socket
import stat
from contextlib import suppress
from pathlib import Path
from typing import IO

from app.formats.secret_files import others_may_write
from app.store.embedded.process import EmbeddedPostgresError

LOOPBACK = "127.0.0.1"
_LOG_LIMIT_BYTES = 16 * 1024 * 1024
_LOG_TAIL_BYTES = 16 * 1024
_LINKS_AT_MOST = 40
_FOLDER = os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC | getattr(os, "O_PATH", os.O_RDONLY)
_OTHER_PLACE = "name another folder with --data-dir"


class FolderHeldError(EmbeddedPostgresError): ...


class DataFolder:
    def __init__(self, path: Path) -> None:
        self.path = path.absolute()
        self.cluster = self.path / "postgres"
        self.password_file = self.path / "password"
        self._lock: IO[str] | None = None
        self._ours = ("lock", "password", "port", "postgresql.log", "postgresql.log.1")
        self._log_start = 0

    def hold(self) -> None:
        """Takes the lock until `release` or the end of this process. Raises EmbeddedPostgresError, FolderHeldError."""
        try:
            # Root's PostgreSQL runs under another account, which must pass through the folder. All files are 0600.
            walk_to_own_folder(self.path, 0o700 if os.geteuid() else 0o711)
            self._refuse_what_is_not_ours()
            lock = self._open_private("lock", "a+")
        except OSError as error:
            raise EmbeddedPostgresError(
                f"can't keep data in `{self.path}` ({error.strerror}: `{error.filename}`); "
                "name a folder that you may write with --data-dir"
            ) from None
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            with lock:
                lock.seek(0)
                holder = lock.read().strip() or "unknown"
            raise FolderHeldError(
                f"`{self.path}` is in use by the Klamm process {holder}; "
                "stop that one first, or name another folder with --data-dir"
            ) from None
        lock.truncate(0)
        lock.write(f"{os.getpid()}\n")
        lock.flush()
        self._lock = lock

    def release(self) -> None:
        if self._lock is not None:
            self._lock.close()
            self._lock = None

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
        for name in (*self._ours, self.cluster.name, f"{self.cluster.name}.new"):
            path = self.path / name
            try:
                facts = path.lstat()
            except FileNotFoundError:
                continue
            is_file = name in self._ours
            if not (stat.S_ISREG if is_file else stat.S_ISDIR)(facts.st_mode):
                kind = "a symbolic link" if stat.S_ISLNK(facts.st_mode) else "something else"
                raise EmbeddedPostgresError(
                    f"`{path}` should be a {'file' if is_file else 'folder'}, but is {kind}; remove it, or name "
                    "another folder with --data-dir"
                )
            if name == "password" and not os.geteuid():
                # An interrupted first start has given the file to the account that made the cluster.
                os.chown(path, 0, 0, follow_symlinks=False)
            elif is_file and facts.st_uid != os.geteuid():
                raise EmbeddedPostgresError(
                    f"`{path}` belongs to user id {facts.st_uid}, but Klamm runs as user id {os.geteuid()}; change "
                    "its owner, or name another folder with --data-dir"
                )

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


def walk_to_own_folder(path: Path, mode: int) -> None:
    """Walks from the root to the folder, one folder at a time, and makes those that are missing.

    INVARIANT: afterwards no other user can change any part of the path. Each folder above it belongs to root or to this
    process' user; either nobody else can write to it, or it is sticky like /tmp, so that nobody else can move ours.
    Raises EmbeddedPostgresError for a path that is not safe, OSError for what the system refuses.
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
            f"`{path}` is a symbolic link of user id {facts.st_uid}, who can point it anywhere; {_OTHER_PLACE}"
        )
    return target


def _step(at: int, path: Path, mode: int) -> int:
    try:
        try:
            found = os.open(path.name, _FOLDER, dir_fd=at)
        except FileNotFoundError:
            with suppress(FileExistsError):
                os.mkdir(path.name, mode, dir_fd=at)
            found = os.open(path.name, _FOLDER, dir_fd=at)
    except OSError as fault:
        raise OSError(fault.errno, fault.strerror, str(path)) from None
    os.close(at)
    return found


def _check_parent(path: Path, facts: os.stat_result, name: str) -> None:
    if facts.st_uid not in (0, os.geteuid()):
        raise EmbeddedPostgresError(
            f"`{path}` belongs to user id {facts.st_uid}, who could replace `{name}` with another folder; run Klamm "
            f"as that user, or {_OTHER_PLACE}"
        )
    if others_may_write(facts) and not facts.st_mode & stat.S_ISVTX:
        raise EmbeddedPostgresError(
            f"other users can write to `{path}` (mode {stat.S_IMODE(facts.st_mode):04o}) and could replace `{name}` "
            f"with another folder; remove that permission (chmod go-w), or {_OTHER_PLACE}"
        )


def _check_own(path: Path, facts: os.stat_result) -> None:
    if facts.st_uid != os.geteuid():
        raise EmbeddedPostgresError(
            f"`{path}` belongs to user id {facts.st_uid}, but Klamm runs as user id {os.geteuid()}; run Klamm as the "
            f"owner, or {_OTHER_PLACE}"
        )
    if others_may_write(facts):
        raise EmbeddedPostgresError(
            f"other users can write to `{path}` (mode {stat.S_IMODE(facts.st_mode):04o}); check that nothing in it is "
            f"theirs and remove that permission (chmod go-w), or {_OTHER_PLACE}"
        )
