"""How a program of PostgreSQL is run: under which account, with which environment, and bound to this process' life."""

import ctypes
import os
import pwd
import signal
import stat
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Self

_PR_SET_PDEATHSIG = 1
# PostgreSQL refuses to run as root; one of these accounts exists on practically every system.
_UNPRIVILEGED = ("nobody", "postgres", "daemon")


class EmbeddedPostgresError(Exception):
    """The embedded PostgreSQL can't run; the text is for the operator and says the way out."""


@dataclass(frozen=True, slots=True)
class Account:
    """The account that PostgreSQL runs under when Klamm itself runs as root."""

    name: str
    uid: int
    gid: int

    @classmethod
    def choose(cls, cluster: Path) -> Self | None:
        """The owner of the cluster if it is there, else an unprivileged account; None when Klamm is not root.

        Raises EmbeddedPostgresError if the cluster belongs to somebody whom this process can't become.
        """
        owner = cluster.stat().st_uid if cluster.exists() else None
        if os.geteuid() != 0:
            if owner not in (None, os.geteuid()):
                raise EmbeddedPostgresError(
                    f"the PostgreSQL data in `{cluster}` belongs to user id {owner}, not to {os.geteuid()}; "
                    "run Klamm as that user or as root, or name another folder with --data-dir"
                )
            return None
        if owner:
            return cls._owner(owner, cluster)
        for name in _UNPRIVILEGED:
            try:
                entry = pwd.getpwnam(name)
            except KeyError:
                continue
            return cls(entry.pw_name, entry.pw_uid, entry.pw_gid)
        raise EmbeddedPostgresError(
            f"PostgreSQL can't run as root, and there is no account {' or '.join(_UNPRIVILEGED)} to run it; "
            "run Klamm as a normal user, or set KLAMM_DATABASE_URL to a PostgreSQL of your own"
        )

    @classmethod
    def _owner(cls, uid: int, cluster: Path) -> Self:
        try:
            entry = pwd.getpwuid(uid)
        except KeyError:
            raise EmbeddedPostgresError(
                f"the PostgreSQL data in `{cluster}` belongs to user id {uid}, which has no account here; "
                "give it to an account that exists, or name another folder with --data-dir"
            ) from None
        return cls(entry.pw_name, entry.pw_uid, entry.pw_gid)


@dataclass(frozen=True, slots=True)
class Launcher:
    """Runs PostgreSQL's programs, as `account` or (None) as the caller's own user."""

    account: Account | None

    @contextmanager
    def reach(self, path: Path) -> Iterator[tuple[str, tuple[int, ...]]]:
        """A name of `path` for the child, and the file descriptors that the child must inherit for it.

        Root's folders are often closed to others (0700). Instead of opening them up, the child is handed the open
        folder: a name below /proc/self/fd leads straight to it, whatever the modes of its parents are.
        Raises EmbeddedPostgresError where there is no such way (other systems than Linux).
        """
        closed = self.closed_parent(path)
        if closed is None:
            yield str(path), ()
            return
        if not Path("/proc/self/fd").is_dir():
            raise EmbeddedPostgresError(
                f"the folder `{closed}` is closed to the account that PostgreSQL runs under; "
                "name a folder below one that everybody may enter with --data-dir"
            )
        descriptor = os.open(path, os.O_PATH)
        try:
            yield f"/proc/self/fd/{descriptor}", (descriptor,)
        finally:
            os.close(descriptor)

    def closed_parent(self, path: Path) -> Path | None:
        """The first folder on the way to `path` that the account may not enter; None if the way is open."""
        if self.account is None:
            return None
        for parent in reversed(path.parents):
            facts = parent.stat()
            needed = stat.S_IXUSR if facts.st_uid == self.account.uid else stat.S_IXOTH
            if not facts.st_mode & needed:
                return parent
        return None

    def own(self, path: Path) -> None:
        """Gives `path` to the account that PostgreSQL runs under."""
        if self.account is not None:
            os.chown(path, self.account.uid, self.account.gid)

    def run(
        self, command: Sequence[str], *, timeout_s: float, descriptors: Sequence[int] = (), text_in: str = ""
    ) -> subprocess.CompletedProcess[str]:
        """Runs a program to its end; it gets SIGTERM if this process dies first.

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
                cwd="/",
                env=_environment(),
                pass_fds=descriptors,
                user=self.account.uid if self.account else None,
                group=self.account.gid if self.account else None,
                extra_groups=[] if self.account else None,
                preexec_fn=_bound_to_this_process(signal.SIGTERM),
            )

    def spawn(self, command: Sequence[str], *, descriptors: Sequence[int], log: IO[bytes]) -> subprocess.Popen[bytes]:
        """Starts a server that gets SIGINT, PostgreSQL's fast shutdown, when this process dies: by SIGKILL, too.

        INVARIANT: called from the main thread only, for Linux sends that signal when the forking THREAD ends.
        """
        if threading.current_thread() is not threading.main_thread():
            raise RuntimeError("the embedded PostgreSQL must be started from the main thread")
        with self._failures(command):
            return subprocess.Popen(  # noqa: S603 - PostgreSQL's own programs, no shell
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd="/",
                env=_environment(),
                pass_fds=descriptors,
                user=self.account.uid if self.account else None,
                group=self.account.gid if self.account else None,
                extra_groups=[] if self.account else None,
                # A session of its own: Ctrl-C in the terminal is for Klamm, which stops PostgreSQL last of all.
                start_new_session=True,
                preexec_fn=_bound_to_this_process(signal.SIGINT),  # noqa: PLW1509 - one system call, prepared before
            )

    @contextmanager
    def _failures(self, command: Sequence[str]) -> Iterator[None]:
        try:
            yield
        except subprocess.TimeoutExpired as slow:
            raise EmbeddedPostgresError(f"`{command[0]}` did not end within {slow.timeout:g} s") from None
        except OSError as error:
            # Without a filename it was not the program that failed, but the change of the account before it.
            if self.account is None or error.filename is not None:
                raise
            raise EmbeddedPostgresError(
                f"can't become `{self.account.name}` to run PostgreSQL ({error.strerror}); "
                "run Klamm as a normal user, or set KLAMM_DATABASE_URL to a PostgreSQL of your own"
            ) from None


def _environment() -> dict[str, str]:
    # PG... would change what the programs do, and KLAMM_... holds secrets that are none of PostgreSQL's business.
    return {name: value for name, value in os.environ.items() if not name.startswith(("PG", "KLAMM_", "LC_"))} | {
        "LC_ALL": "C",
        "TZ": "UTC",
    }


def _bound_to_this_process(death_signal: signal.Signals) -> Callable[[], None] | None:
    """What the child does between fork and exec, after the change of its account (which would clear the death signal).

    Linux only. Elsewhere a server outlives a SIGKILL of this process; the next start on its folder names it.
    """
    if sys.platform != "linux":
        return None
    prctl = ctypes.CDLL(None).prctl
    parent = os.getpid()

    def bind() -> None:
        prctl(_PR_SET_PDEATHSIG, int(death_signal), 0, 0, 0)
        if os.getppid() != parent:  # it died before the line above
            os._exit(1)

    return bind
