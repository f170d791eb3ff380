"""The data folder of an embedded PostgreSQL: its lock, and what is kept there between two starts.

<data dir>/lock              held while a process supervises the server; names its process id
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
from contextlib import suppress
from pathlib import Path
from typing import IO

from app.store.embedded.process import EmbeddedPostgresError
from app.store.embedded.way import walk_to_own_folder

LOOPBACK = "127.0.0.1"
_LOG_LIMIT_BYTES = 16 * 1024 * 1024
_LOG_TAIL_BYTES = 16 * 1024


class FolderHeldError(EmbeddedPostgresError):
    """Another process uses the folder."""


class DataFolder:
    def __init__(self, path: Path) -> None:
        self.path = path.absolute()
        self.cluster = self.path / "postgres"
        self.password_file = self.path / "password"
        self._lock: IO[str] | None = None
        self._ours = ("lock", "password", "password.new", "port", "postgresql.log", "postgresql.log.1")
        self._log_start = 0

    def hold(self) -> None:
        """Makes the folder if need be and takes its lock until `release` or the end of this process.

        Raises EmbeddedPostgresError if it can't be made or written, if it or something in it is a symbolic link or
        another user's, or if another process holds it.
        """
        try:
            # For root others may pass, but not list: PostgreSQL runs under another account. All files here are 0600.
            walk_to_own_folder(self.path, 0o700 if os.geteuid() else 0o711)
            self._refuse_bare_cluster()
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
        """Makes a password unless there is one; it must exist before the cluster."""
        if not self.password():
            self._write_password("password")

    def new_password(self) -> str:
        """A password that replaces the one on file with `keep_new_password`."""
        self._write_password("password.new")
        return self._read("password.new").strip()

    def keep_new_password(self) -> None:
        (self.path / "password.new").replace(self.password_file)

    def password(self) -> str:
        """Empty if there is none."""
        try:
            return self._read("password").strip()
        except FileNotFoundError:
            return ""

    def port(self) -> int:
        """The port of the last start while it is free, else another free one, which is then remembered."""
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
        """The server's last fatal line since the log was opened, else its last line."""
        with (self.path / "postgresql.log").open("rb") as log:
            log.seek(max(self._log_start, log.seek(0, os.SEEK_END) - _LOG_TAIL_BYTES))
            lines = log.read().decode(errors="replace").splitlines()
        return next((line for line in reversed(lines) if "FATAL:" in line or "PANIC:" in line), "".join(lines[-1:]))

    def _refuse_bare_cluster(self) -> None:
        if (self.path / "PG_VERSION").exists():
            raise EmbeddedPostgresError(
                f"`{self.path}` is a data folder of PostgreSQL itself; name a folder of Klamm's own with --data-dir"
            )

    def _refuse_what_is_not_ours(self) -> None:
        for name in (*self._ours, self.cluster.name, f"{self.cluster.name}.new"):
            path = self.path / name
            try:
                facts = path.lstat()
            except FileNotFoundError:
                continue
            is_file = name in self._ours
            if not (stat.S_ISREG if is_file else stat.S_ISDIR)(facts.st_mode):
                kind = "a symbolic link" if stat.S_ISLNK(facts.st_mode) else "of another kind"
                raise EmbeddedPostgresError(
                    f"`{path}` should be a {'file' if is_file else 'folder'}, and is {kind}; "
                    "remove it, or name another folder with --data-dir"
                )
            if name.startswith("password") and not os.geteuid():
                # Earlier versions gave it to the account that PostgreSQL runs under, as the making of a cluster does.
                os.chown(path, 0, 0, follow_symlinks=False)
            elif is_file and facts.st_uid != os.geteuid():
                raise EmbeddedPostgresError(
                    f"`{path}` belongs to user id {facts.st_uid}, not to {os.geteuid()}, which runs Klamm; "
                    "give it to that user, or name another folder with --data-dir"
                )

    def _write_password(self, name: str) -> None:
        with self._open_private(name, "w") as file:
            file.write(f"{secrets.token_urlsafe(32)}\n")
            file.flush()
            os.fsync(file.fileno())

    def _read(self, name: str) -> str:
        with self._open_private(name, "r") as file:
            return file.read()

    def _open_private(self, name: str, mode: str) -> IO[str]:
        def opener(path: str, flags: int) -> int:
            return os.open(path, flags | os.O_NOFOLLOW, 0o600)

        return open(self.path / name, mode, encoding="ascii", opener=opener)


def port_is_free(port: int) -> bool:
    with socket.socket() as probe:
        # As PostgreSQL does: connections that linger from its last run don't matter.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except (OSError, OverflowError):
            return False
    return True
