"""Runs PostgreSQL's programs, and ends them when this process ends.

PostgreSQL refuses to run as root. `Launcher` is the one place that changes to another user id.
"""

import ctypes
import os
import pwd
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Self

_PR_SET_PDEATHSIG = 1
OWN_IDS = range(60_706, 61_184)
"""User ids that neither distributions nor systemd assign. They are below 65,536, as containers map no others."""
_GROUP = OWN_IDS[0]
_INITDB_ACCOUNTS = ("games", "bin", "daemon", "nobody")
"""initdb needs a user id that has a name. Hardly any system runs something as one of the first."""

_INSTEAD = "run Klamm as a normal user, or set KLAMM_DATABASE_URL to a PostgreSQL of your own"


class EmbeddedPostgresError(Exception):
    """The message is for the operator, and says what to do."""


@dataclass(frozen=True, slots=True)
class Launcher:
    """Runs programs as this process' user (None), or as user id `uid` if this process is root's.

    They know PostgreSQL's data folder as PGDATA.
    """

    uid: int | None = None

    @classmethod
    def for_cluster(cls, cluster: Path) -> Self:
        """As the owner of PostgreSQL's data folder; for a new one, or one of root's, as a user id without an account.

        Raises EmbeddedPostgresError.
        """
        if os.geteuid() != 0:
            return cls()
        if sys.platform != "linux":
            raise EmbeddedPostgresError(f"PostgreSQL can't run as root; {_INSTEAD}")
        owner = cluster.stat().st_uid if cluster.exists() else 0
        uid = owner or next((uid for uid in OWN_IDS if not _has_account(uid)), None)
        if uid is None:
            raise EmbeddedPostgresError(f"every user id from {OWN_IDS[0]} to {OWN_IDS[-1]} has an account; {_INSTEAD}")
        return cls(uid)

    def for_initdb(self) -> "Launcher":
        """Raises EmbeddedPostgresError."""
        if self.uid is None:
            return self
        for name in _INITDB_ACCOUNTS:
            with suppress(KeyError):
                return Launcher(pwd.getpwnam(name).pw_uid)
        raise EmbeddedPostgresError(
            f"PostgreSQL can't run as root, and there is no account {' or '.join(_INITDB_ACCOUNTS)} to create its "
            f"data; {_INSTEAD}"
        )

    def give(self, path: Path) -> None:
        """Makes the user the owner of the folder and of all in it. No link is followed."""
        if self.uid is None:
            return
        try:
            for _, folders, files, at in os.fwalk(path):
                for name in (".", *folders, *files):
                    os.chown(name, self.uid, _GROUP, dir_fd=at, follow_symlinks=False)
        except OSError as error:
            raise self._denied(error) from None

    @contextmanager
    def text_in(self, text: str, folder: Path) -> Iterator[IO[bytes]]:
        """Standard input that a program may also open (/dev/stdin), as it may not open root's pipes."""
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(text.encode())
            file.seek(0)
            if self.uid is not None:
                os.fchown(file.fileno(), self.uid, _GROUP)
            yield file

    def run(
        self, command: Sequence[str], data: Path, *, timeout_s: float, stdin: IO[bytes] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Runs a program to its end. The program gets SIGTERM if this process dies first.

        Raises PermissionError if the user may not execute it, EmbeddedPostgresError if it takes too long.
        """
        with self._failures(command), self._child(data, signal.SIGTERM) as child:
            return subprocess.run(  # noqa: S603 - PostgreSQL's own programs, no shell
                command,
                stdin=stdin or subprocess.DEVNULL,
                capture_output=True,
                encoding="utf-8",
                errors="replace",
                timeout=timeout_s,
                check=False,
                **child,
            )

    def spawn(
        self, command: Sequence[str], data: Path, *, log: IO[bytes], inherited: Sequence[int] = ()
    ) -> subprocess.Popen[bytes]:
        """Starts a server. It gets SIGINT (PostgreSQL's fast shutdown) when this process dies.

        INVARIANT: only the main thread calls this, because Linux sends that signal when the forking thread ends.
        """
        if threading.current_thread() is not threading.main_thread():
            raise RuntimeError("the embedded PostgreSQL must be started from the main thread")
        with self._failures(command), self._child(data, signal.SIGINT, inherited) as child:
            return subprocess.Popen(  # noqa: S603 - PostgreSQL's own programs, no shell
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                # Its own session: Ctrl-C in the terminal is for Klamm, which stops PostgreSQL last of all.
                start_new_session=True,
                **child,
            )

    @contextmanager
    def _child(
        self, data: Path, death_signal: signal.Signals, inherited: Sequence[int] = ()
    ) -> Iterator[dict[str, Any]]:
        """What the child is to be, as arguments of subprocess."""
        # One system call, prepared before the fork.
        child = {"cwd": "/", "preexec_fn": _bound_to_this_process(death_signal)}
        if self.uid is None:
            yield child | {"env": _environment(str(data)), "pass_fds": inherited}
            return
        # Root's folders are often closed to others (0700). The name of an open folder leads to it nevertheless.
        descriptor = os.open(data, os.O_RDONLY | os.O_DIRECTORY)
        try:
            yield child | {
                "env": _environment(f"/proc/self/fd/{descriptor}"),
                "pass_fds": (descriptor, *inherited),
                "user": self.uid,
                "group": _GROUP,
                "extra_groups": [],
            }
        finally:
            os.close(descriptor)

    @contextmanager
    def _failures(self, command: Sequence[str]) -> Iterator[None]:
        try:
            yield
        except subprocess.TimeoutExpired as slow:
            raise EmbeddedPostgresError(f"`{command[0]}` did not end within {slow.timeout:g} s") from None
        except OSError as error:
            # Root may enter every folder, so what is not about the program comes from the change of user.
            if self.uid is None or error.filename == command[0]:
                raise
            raise self._denied(error) from None

    def _denied(self, error: OSError) -> EmbeddedPostgresError:
        return EmbeddedPostgresError(
            f"PostgreSQL can't run as root, and not as user id {self.uid} either ({error.strerror}); {_INSTEAD}"
        )


def _has_account(uid: int) -> bool:
    try:
        pwd.getpwuid(uid)
    except KeyError:
        return False
    return True


def _environment(data: str) -> dict[str, str]:
    # PG... would change what the programs do; KLAMM_... may hold secrets.
    return {name: value for name, value in os.environ.items() if not name.startswith(("PG", "KLAMM_", "LC_"))} | {
        "LC_ALL": "C",
        "TZ": "UTC",
        "PGDATA": data,
    }


def _bound_to_this_process(death_signal: signal.Signals) -> Callable[[], None] | None:
    """Runs in the child between fork and exec, after the change of user, which would clear the death signal.

    Linux only. Elsewhere a server outlives a SIGKILL of this process, and the next start on its folder reports it.
    """
    if sys.platform != "linux":
        return None
    prctl = ctypes.CDLL(None).prctl
    parent = os.getpid()

    def bind() -> None:
        prctl(_PR_SET_PDEATHSIG, int(death_signal), 0, 0, 0)
        if os.getppid() != parent:  # the parent died before the line above
            os._exit(1)

    return bind
