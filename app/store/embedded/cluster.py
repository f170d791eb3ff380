"""Creates PostgreSQL's own data folder (the cluster), or checks that an existing one can be used."""

import itertools
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

from app.store.embedded.binaries import Binaries
from app.store.embedded.folder import DataFolder
from app.store.embedded.process import EmbeddedPostgresError, Launcher

USER = "klamm"
DATABASE = "klamm"
_CREATE_DATABASE = "CREATE DATABASE klamm;\n"
_INITDB_TIMEOUT_S = 300.0
_TIDYING = "initdb: removing "
_ERROR = re.compile(r"\b(error|fatal|panic):", re.IGNORECASE)
_EXPLANATION = re.compile(r"\b(detail|hint):", re.IGNORECASE)
# Systems without C.UTF-8 (older macOS) use C. The two differ in upper and lower case, which Klamm never asks about.
_LOCALE = "C.UTF-8" if sys.platform == "linux" else "C"


def prepare_cluster(folder: DataFolder, launcher: Launcher, binaries: Binaries) -> None:
    if not folder.cluster.exists():
        _initialize(folder, launcher, binaries)
        return
    _check_major(folder.cluster, binaries)
    if not folder.password():
        raise EmbeddedPostgresError(
            f"`{folder.password_file}`, the password of the PostgreSQL in `{folder.cluster}`, is missing; restore it, "
            "or name another folder with --data-dir"
        )
    if folder.cluster.stat().st_uid != launcher.uid:
        launcher.give(folder.cluster)  # root has put it back
    _refuse_other_server(folder.cluster)


def _initialize(folder: DataFolder, launcher: Launcher, binaries: Binaries) -> None:
    # INVARIANT: a folder with the cluster's name is complete. One that a crash left unfinished is made again.
    unfinished = folder.unfinished
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(mode=0o700)
    maker = launcher.for_initdb()
    maker.give(unfinished)
    # An earlier attempt may have shown its password to another account.
    folder.password_file.unlink(missing_ok=True)
    folder.make_password()
    options = ["-U", USER, "-A", "scram-sha-256", "--pwfile=/dev/stdin", "-E", "UTF8", f"--locale={_LOCALE}"]
    made = _run(maker, [binaries.program("initdb"), *options], unfinished, folder.password())
    if made.returncode != 0:
        raise EmbeddedPostgresError(f"initdb failed in `{unfinished}`: {_cause_of(made)}")
    single = [binaries.program("postgres"), "--single", "postgres"]
    done = _run(maker, single, unfinished, _CREATE_DATABASE)
    if done.returncode != 0 or "ERROR:" in done.stderr:
        raise EmbeddedPostgresError(f"making the database `{DATABASE}` failed in `{unfinished}`: {_cause_of(done)}")
    launcher.give(unfinished)
    unfinished.rename(folder.cluster)
    # INVARIANT: the new name survives a power loss; otherwise the next start would take the cluster for unfinished.
    for path in (folder.path, folder.path.parent):
        _sync(path)


def _run(maker: Launcher, command: list[str], unfinished: Path, text: str) -> subprocess.CompletedProcess[str]:
    with maker.text_in(text, unfinished.parent) as stdin:
        return maker.run(command, unfinished, timeout_s=_INITDB_TIMEOUT_S, stdin=stdin)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _cause_of(ended: subprocess.CompletedProcess[str]) -> str:
    """The first error that a program reports and what explains it, or how it ended, on one line."""
    lines = [line.strip() for line in ended.stderr.splitlines() if line.strip() and _TIDYING not in line]
    first = next((at for at, line in enumerate(lines) if _ERROR.search(line)), None)
    if first is not None:
        more = itertools.takewhile(_EXPLANATION.search, lines[first + 1 :])
        return "; ".join([lines[first], *more])
    if lines:
        return "; ".join(lines[-2:])
    if ended.returncode < 0:
        return f"signal {-ended.returncode} ended it ({signal.strsignal(-ended.returncode)})"
    return f"it ended with status {ended.returncode} and said nothing"


def _check_major(cluster: Path, binaries: Binaries) -> None:
    written_by = (cluster / "PG_VERSION").read_text(encoding="ascii").strip()
    if written_by != binaries.major:
        raise EmbeddedPostgresError(
            f"the data in `{cluster}` was written by PostgreSQL {written_by}, but `{binaries.folder}` holds "
            f"{binaries.version}; set KLAMM_POSTGRES_BIN to the binaries of a PostgreSQL {written_by}, "
            "or name another folder with --data-dir"
        )


def _refuse_other_server(cluster: Path) -> None:
    """Removes a stale postmaster.pid: PostgreSQL would not start if another process had the old server's id by now.

    This happens after a restart of a container. PostgreSQL itself looks at a process that Klamm may not look at.
    """
    pid_file = cluster / "postmaster.pid"
    try:
        pid = int(pid_file.read_text(encoding="utf-8").split()[0])
        is_served = os.path.samestat(Path(f"/proc/{pid}/cwd").stat(), cluster.stat())
    except (OSError, ValueError, IndexError):
        return
    if is_served:
        raise EmbeddedPostgresError(
            f"a PostgreSQL that Klamm did not start is running in `{cluster}` (process {pid}); "
            f"stop it (kill -INT {pid}), or name another folder with --data-dir"
        )
    pid_file.unlink()
