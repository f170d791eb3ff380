"""Creates PostgreSQL's own data folder (the cluster), or checks that an existing one can be used."""

import itertools
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

from app.store.embedded.binaries import Binaries
from app.store.embedded.folder import DataFolder
from app.store.embedded.process import EmbeddedPostgresError, Launcher

USER = "klamm"
DATABASE = "klamm"
_INITDB_TIMEOUT_S = 300.0
_PREDECESSOR_TIMEOUT_S = 15.0
_POLL_S = 0.02
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
    _await_end_of_predecessor(folder.cluster)


def _initialize(folder: DataFolder, launcher: Launcher, binaries: Binaries) -> None:
    # INVARIANT: a folder with the cluster's name is complete. One that a crash left unfinished is made again.
    maker = launcher.for_making()
    unfinished = folder.cluster.with_suffix(".new")
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(mode=0o700)
    maker.own(unfinished)
    # An earlier attempt may have shown its password to another account.
    folder.password_file.unlink(missing_ok=True)
    folder.make_password()
    maker.own(folder.password_file)
    try:
        with (
            maker.reach(unfinished) as (cluster, cluster_fds),
            maker.reach(folder.password_file) as (password, password_fds),
        ):
            options = ["-U", USER, "-A", "scram-sha-256", f"--pwfile={password}", "-E", "UTF8", f"--locale={_LOCALE}"]
            command = [binaries.program("initdb"), "-D", cluster, *options]
            made = maker.run(command, timeout_s=_INITDB_TIMEOUT_S, descriptors=(*cluster_fds, *password_fds))
    finally:
        maker.take_back(folder.password_file)
    if made.returncode != 0:
        raise EmbeddedPostgresError(f"initdb failed in `{unfinished}`: {_cause_of(made)}")
    _create_database(unfinished, maker, binaries)
    launcher.own(unfinished)
    unfinished.rename(folder.cluster)
    # INVARIANT: the new name survives a power loss; otherwise the next start would take the cluster for unfinished.
    for path in (folder.path, folder.path.parent):
        _sync(path)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _create_database(path: Path, maker: Launcher, binaries: Binaries) -> None:
    with maker.reach(path) as (cluster, descriptors):
        command = [binaries.program("postgres"), "--single", "-D", cluster, "postgres"]
        statement = f"CREATE DATABASE {DATABASE};\n"
        done = maker.run(command, timeout_s=_INITDB_TIMEOUT_S, descriptors=descriptors, text_in=statement)
    if done.returncode != 0 or "ERROR:" in done.stderr:
        raise EmbeddedPostgresError(f"making the database `{DATABASE}` failed in `{path}`: {_cause_of(done)}")


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


def _await_end_of_predecessor(cluster: Path) -> None:
    """After a SIGKILL of its supervisor, a server needs some time for its last checkpoint."""
    deadline = time.monotonic() + _PREDECESSOR_TIMEOUT_S
    while alive := _processes_in(cluster):
        if time.monotonic() > deadline:
            raise EmbeddedPostgresError(
                f"a PostgreSQL that Klamm did not start is running in `{cluster}` (process {alive[0]}); "
                f"stop it (kill -INT {alive[0]}), or name another folder with --data-dir"
            )
        time.sleep(_POLL_S)
    if Path("/proc/self/cwd").exists():
        # No server runs in this folder. PostgreSQL would refuse to start if another process had the old server's id by
        # now, for example after a restart of the container.
        (cluster / "postmaster.pid").unlink(missing_ok=True)


def _processes_in(cluster: Path) -> list[int]:
    home = cluster.stat()
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # the process has just ended, or belongs to another user
            if os.path.samestat((entry / "cwd").stat(), home):
                found.append(int(entry.name))
    return sorted(found)
