"""PostgreSQL from the outside: one of a test's own that can be stopped, its processes, and a statement now and then."""

import asyncio
import itertools
import os
import signal
from collections.abc import Coroutine, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

import asyncpg

from app.formats.database_url import DatabaseUrl
from app.store.embedded.server import EmbeddedPostgres
from app.store.migrate import migrate
from tests.newborn import new_folder, new_store

T = TypeVar("T")

_numbers = itertools.count(1)


class OwnPostgres:
    """A server that keeps its port and its password while it is stopped, as a machine that comes back does."""

    def __init__(self, folder: Path) -> None:
        self._server = EmbeddedPostgres(new_folder(folder))
        self.folder = folder
        self.dsn = self._server.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.stop()

    def start(self) -> None:
        """Come back, unless it is there."""
        if self._server.pid is None:
            assert self._server.start() == self.dsn

    def stop(self) -> None:
        """Go away; what is committed stays."""
        self._server.stop()

    def new_store(self) -> str:
        """The DSN of another database with a newborn store."""
        return run(new_store(self.dsn, f"store_{next(_numbers)}"))

    def processes(self) -> list[int]:
        """The server's process and all of its backends."""
        return processes_in(self.folder)


@dataclass(frozen=True)
class Store:
    """A database with a store, and the server that it stands on."""

    server: OwnPostgres
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
    """Run it in a loop of its own, which leaves the test's loop as it was."""
    loop = asyncio.new_event_loop()
    try:
        return loop.run_until_complete(work)
    finally:
        loop.close()


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
