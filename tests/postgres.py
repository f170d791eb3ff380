"""PostgreSQL for tests: servers, newborn stores on them, and a look from outside now and then.

Each store and each data folder is a copy of one that was made the whole way, which takes half a second. A copied store
gets a cluster id and an epoch of its own, as at birth. A copied folder is initialised, not migrated: whoever starts on
it makes its store. Copies of a folder share their password and PostgreSQL's own identifier.
"""

import asyncio
import atexit
import functools
import itertools
import os
import shutil
import signal
import subprocess
import tempfile
import uuid
from collections.abc import Coroutine, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

import asyncpg

from app.formats.database_url import DatabaseUrl
from app.store.embedded.server import EmbeddedPostgres
from app.store.migrate import _random_cluster_id, migrate

T = TypeVar("T")

_TEMPLATE = "newborn_template"


class Postgres:
    """A server with its data in this folder, started by `with`; it keeps port and password while it is stopped."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.dsn = folder, ""
        """A superuser's DSN."""
        self._server = EmbeddedPostgres(new_folder(folder))
        self._numbers = itertools.count(1)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, _kind: object, _error: object, _trace: object) -> None:
        self.stop()

    def start(self) -> None:
        """Come up, unless it is there."""
        if self._server.pid is None:
            dsn = self._server.start()
            assert self.dsn in ("", dsn)
            self.dsn = dsn

    def stop(self) -> None:
        """Go away; what is committed stays."""
        self._server.stop()

    def new_store(self) -> str:
        """The DSN of a new database with a newborn store: all tables, no ACLs, an epoch of its own."""
        name = f"store_{next(self._numbers)}"
        return run(new_store(self.dsn, name))

    def processes(self) -> list[int]:
        """The server's process and all of its backends."""
        return processes_in(self.folder)

    def empty(self) -> str:
        """The DSN of a new database without a table."""
        name = f"empty_{next(self._numbers)}"
        run(execute(self.dsn, f'CREATE DATABASE "{name}"'))
        return f"{self.dsn.rpartition('/')[0]}/{name}"

    def drop(self, dsn: str) -> None:
        """Drop this database with whatever is still connected to it."""
        name = dsn.rpartition("/")[2]
        run(execute(self.dsn, f'DROP DATABASE "{name}" WITH (FORCE)'))


@dataclass(frozen=True)
class Store:
    """A database with a store, and the server that it stands on."""

    server: Postgres
    dsn: str


def processes_in(folder: Path) -> list[int]:
    """Every process that works below this folder: PostgreSQL's do so in their data folder."""
    found = []
    for process in Path("/proc").iterdir():
        if not process.name.isdecimal():
            continue
        try:
            where = (process / "cwd").readlink()
        except OSError:
            continue  # it has ended meanwhile, or it is another user's
        if where.is_relative_to(folder):
            found.append(int(process.name))
    return found


class Frozen:
    """These processes stand still for as long as the block lasts: their sockets stay open and say nothing."""

    def __init__(self, processes: Iterable[int]) -> None:
        self._processes = list(processes)

    def __enter__(self) -> Self:
        self._send(signal.SIGSTOP)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._send(signal.SIGCONT)

    def _send(self, sig: int) -> None:
        for each in self._processes:
            try:
                os.kill(each, sig)
            except ProcessLookupError:
                continue


def run(work: Coroutine[Any, Any, T]) -> T:
    """Run it in a thread with a loop of its own: the test's loop, if there is one, stands still meanwhile."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, work).result()


def migrated(dsn: str) -> None:
    run(migrate(DatabaseUrl.parse(dsn)))


def sql(dsn: str, statement: str, *values: object) -> list[Sequence[Any]]:
    """The rows of one statement over a connection of its own."""
    return run(_sql(dsn, statement, values))


async def _sql(dsn: str, statement: str, values: Sequence[object]) -> list[Sequence[Any]]:
    connection = await asyncpg.connect(dsn, timeout=30)
    try:
        return [tuple(row) for row in await connection.fetch(statement, *values, timeout=60)]
    finally:
        await connection.close(timeout=30)


async def new_store(server: str, name: str) -> str:
    """Make a database with a newborn store on the server of this superuser's DSN; the store's DSN comes back."""
    base = server.rpartition("/")[0]
    await _make_template(server, f"{base}/{_TEMPLATE}")
    await execute(server, f'CREATE DATABASE "{name}" TEMPLATE {_TEMPLATE}')
    await be_born(f"{base}/{name}")
    return f"{base}/{name}"


async def be_born(copied: str) -> None:
    """Give a copied store a cluster id and an epoch of its own."""
    birth = "UPDATE acl_head SET cluster_id = $1, epoch = $2"
    await execute(copied, birth, _random_cluster_id(), uuid.uuid4())
    await execute(copied, "DELETE FROM acl_epoch WHERE number < (SELECT max(number) FROM acl_epoch)")


async def _make_template(server: str, template: str) -> None:
    """Once for each server. The flag says that it is complete."""
    connection = await asyncpg.connect(server, timeout=30)
    try:
        is_complete = await connection.fetchval("SELECT datistemplate FROM pg_database WHERE datname = $1", _TEMPLATE)
        if is_complete:
            return
        if is_complete is None:
            await connection.execute(f"CREATE DATABASE {_TEMPLATE}", timeout=60)
        await migrate(DatabaseUrl.parse(template))
        await connection.execute(f"ALTER DATABASE {_TEMPLATE} IS_TEMPLATE true", timeout=60)
    finally:
        await connection.close(timeout=30)


async def execute(dsn: str, statement: str, *values: object) -> None:
    """One statement over a connection of its own."""
    connection = await asyncpg.connect(dsn, timeout=30)
    try:
        await connection.execute(statement, *values, timeout=60)
    finally:
        await connection.close(timeout=30)


def new_folder(path: Path) -> Path:
    """Make an initialised data folder here, unless there is one; the path comes back."""
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        # shutil would not keep the owner of the cluster, which PostgreSQL insists on.
        subprocess.run(["/bin/cp", "-a", str(_initialised_folder()), str(path)], check=True, timeout=60)
    return path


@functools.cache
def _initialised_folder() -> Path:
    """Made once for each process of the run, and gone with it."""
    home = Path(tempfile.mkdtemp(prefix="klamm-newborn-"))
    atexit.register(shutil.rmtree, home)
    folder = home / "data"
    with EmbeddedPostgres(folder):
        pass
    # What only a start leaves there.
    for name in ("lock", "port", "postgresql.log"):
        (folder / name).unlink()
    # Tests kill processes, never the machine: nobody needs to wait for the disk.
    with (folder / "postgres" / "postgresql.conf").open("a", encoding="utf-8") as settings:
        settings.write("fsync = off\n")
    return folder
