"""Runs PostgreSQL's programs under a separate account, and ends them when this process ends."""

import ctypes
import os
import pwd
import random
import signal
import stat
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Self

_PR_SET_PDEATHSIG = 1
UNPRIVILEGED = ("nobody", "postgres", "daemon")
"""PostgreSQL refuses to run as root, and initdb needs a user id that has a name. Nearly every system has one of these
accounts."""
OWN_IDS = range(60_706, 61_184)
"""User ids that neither distributions nor systemd assign. They are below 65,536, as containers map no others."""

_INSTEAD = "run Klamm as a normal user, or set KLAMM_DATABASE_URL to a PostgreSQL of your own"


class EmbeddedPostgresError(Exception):
    """The message is for the operator, and says what to do."""


@dataclass(frozen=True, slots=True)
class Account:
    """The account that PostgreSQL runs under when Klamm itself runs as root."""

    name: str
    uid: int
    gid: int

    @classmethod
    def choose(cls, cluster: Path) -> Self | None:
        """The owner of the cluster if it exists, else a free user id; None if Klamm does not run as root.

        Raises EmbeddedPostgresError.
        """
        owner = cluster.stat().st_uid if cluster.exists() else None
        if os.geteuid() != 0:
            if owner not in (None, os.geteuid()):
                raise EmbeddedPostgresError(
                    f"the PostgreSQL data in `{cluster}` belongs to user id {owner}, but Klamm runs as user id "
                    f"{os.geteuid()}; run Klamm as the owner or as root, or name another folder with --data-dir"
                )
            return None
        return cls._owner(owner, cluster) if owner else cls._own()

    @classmethod
    def for_making(cls) -> Self:
        """An account with a name, which initdb needs; one without running processes if there is one.

        Raises EmbeddedPostgresError.
        """
        accounts = [cls(entry.pw_name, entry.pw_uid, entry.pw_gid) for entry in _entries()]
        if not accounts:
            raise EmbeddedPostgresError(
                f"PostgreSQL can't run as root, and there is no account {' or '.join(UNPRIVILEGED)} to create its "
                f"data; {_INSTEAD}"
            )
        at_work = _ids_at_work()
        return next((each for each in accounts if each.uid not in at_work), accounts[0])

    @classmethod
    def _own(cls) -> Self:
        taken = _ids_at_work() | {entry.pw_uid for entry in pwd.getpwall()}
        free = [uid for uid in OWN_IDS if uid not in taken]
        if not free:
            raise EmbeddedPostgresError(f"no user id from {OWN_IDS[0]} to {OWN_IDS[-1]} is free; {_INSTEAD}")
        return cls._of_id(random.choice(free))  # noqa: S311 - any that is free will do

    @classmethod
    def _of_id(cls, uid: int) -> Self:
        return cls(f"user id {uid}", uid, uid)

    @classmethod
    def _owner(cls, uid: int, cluster: Path) -> Self:
        try:
            entry = pwd.getpwuid(uid)
        except KeyError:
            if uid in OWN_IDS:
                return cls._of_id(uid)
            raise EmbeddedPostgresError(
                f"the PostgreSQL data in `{cluster}` belongs to user id {uid}, which has no account here; change its "
                "owner to an account that exists, or name another folder with --data-dir"
            ) from None
        return cls(entry.pw_name, entry.pw_uid, entry.pw_gid)


def _entries() -> Iterator[pwd.struct_passwd]:
    for name in UNPRIVILEGED:
        with suppress(KeyError):
            yield pwd.getpwnam(name)


def _ids_at_work() -> set[int]:
    """The real, effective and saved user ids of all processes; empty except on Linux."""
    found: set[int] = set()
    for status in Path("/proc").glob("[0-9]*/status"):
        with suppress(OSError):  # it has just ended
            for line in status.read_text(encoding="utf-8", errors="replace").splitlines():
                if line.startswith("Uid:"):
                    found.update(map(int, line.split()[1:]))
    return found


@dataclass(frozen=True, slots=True)
class Launcher:
    account: Account | None

    def for_making(self) -> "Launcher":
        return self if self.account is None else Launcher(Account.for_making())

    @contextmanager
    def reach(self, path: Path) -> Iterator[tuple[str, tuple[int, ...]]]:
        """A name for `path` that the child can use, and the file descriptors that it must inherit.

        Root's folders are often closed to others (0700). Their modes stay as they are: the child inherits the open
        folder, and a name below /proc/self/fd leads to it whatever the modes of its parents are.
        """
        closed = self.closed_parent(path)
        if closed is None:
            yield str(path), ()
            return
        if not Path("/proc/self/fd").is_dir():
            raise EmbeddedPostgresError(
                f"the account that PostgreSQL runs as can't enter the folder `{closed}`; with --data-dir, name a "
                "folder whose parents everybody may enter"
            )
        descriptor = os.open(path, os.O_PATH)
        try:
            yield f"/proc/self/fd/{descriptor}", (descriptor,)
        finally:
            os.close(descriptor)

    def closed_parent(self, path: Path) -> Path | None:
        if self.account is None:
            return None
        for parent in reversed(path.parents):
            facts = parent.stat()
            needed = stat.S_IXUSR if facts.st_uid == self.account.uid else stat.S_IXOTH
            if not facts.st_mode & needed:
                return parent
        return None

    def own(self, path: Path) -> None:
        if self.account is None:
            return
        ids = (self.account.uid, self.account.gid)
        try:
            if path.is_dir():
                for _, folders, files, at in os.fwalk(path):
                    for name in (*folders, *files):
                        os.chown(name, *ids, dir_fd=at, follow_symlinks=False)
            os.chown(path, *ids, follow_symlinks=False)
        except OSError as error:
            raise EmbeddedPostgresError(
                f"can't change the owner of `{path}` to {self.account.name} ({error.strerror}), which is to run "
                f"PostgreSQL; {_INSTEAD}"
            ) from None

    def take_back(self, path: Path) -> None:
        if self.account is not None:
            os.chown(path, os.geteuid(), os.getegid(), follow_symlinks=False)

    def run(
        self, command: Sequence[str], *, timeout_s: float, descriptors: Sequence[int] = (), text_in: str = ""
    ) -> subprocess.CompletedProcess[str]:
        """Runs a program to its end. The program gets SIGTERM if this process dies first.

        Raises PermissionError if the account may not execute it, EmbeddedPostgresError if it takes too long.
        """
        with self._failures(command):
            return subprocess.run(  # noqa: S603 - PostgreSQL's own programs, no shell
                command,
                input=text_in,
                capture_output=True,
                encoding="utf-8",
                errors="replace",
                timeout=timeout_s,
                check=False,
                **self._child(descriptors, signal.SIGTERM),
            )

    def spawn(self, command: Sequence[str], *, descriptors: Sequence[int], log: IO[bytes]) -> subprocess.Popen[bytes]:
        """Starts a server. It gets SIGINT (PostgreSQL's fast shutdown) when this process dies, even by SIGKILL.

        INVARIANT: only the main thread calls this, because Linux sends that signal when the forking thread ends.
        """
        if threading.current_thread() is not threading.main_thread():
            raise RuntimeError("the embedded PostgreSQL must be started from the main thread")
        with self._failures(command):
            return subprocess.Popen(  # noqa: S603 - PostgreSQL's own programs, no shell
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                # Its own session: Ctrl-C in the terminal is for Klamm, which stops PostgreSQL last of all.
                start_new_session=True,
                **self._child(descriptors, signal.SIGINT),
            )

    def _child(self, descriptors: Sequence[int], death_signal: signal.Signals) -> dict[str, Any]:
        account = self.account
        return {
            "cwd": "/",
            "env": _environment(),
            "pass_fds": descriptors,
            "user": account.uid if account else None,
            "group": account.gid if account else None,
            "extra_groups": [] if account else None,
            # One system call, prepared before the fork.
            "preexec_fn": _bound_to_this_process(death_signal),
        }

    @contextmanager
    def _failures(self, command: Sequence[str]) -> Iterator[None]:
        try:
            yield
        except subprocess.TimeoutExpired as slow:
            raise EmbeddedPostgresError(f"`{command[0]}` did not end within {slow.timeout:g} s") from None
        except OSError as error:
            # An error without a file name comes from the change of account, not from the program.
            if self.account is None or error.filename is not None:
                raise
            raise EmbeddedPostgresError(
                f"can't switch to `{self.account.name}` to run PostgreSQL ({error.strerror}); {_INSTEAD}"
            ) from None


def _environment() -> dict[str, str]:
    # PG... would change what the programs do; KLAMM_... may hold secrets.
    return {name: value for name, value in os.environ.items() if not name.startswith(("PG", "KLAMM_", "LC_"))} | {
        "LC_ALL": "C",
        "TZ": "UTC",
    }


def _bound_to_this_process(death_signal: signal.Signals) -> Callable[[], None] | None:
    """Runs in the child between fork and exec, after the change of account, which would clear the death signal.

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
