"""The embedded PostgreSQL of the bench, and the store in it that several sections ask: filled once, then reused."""

import asyncio
import json
import os
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

import asyncpg

from app.core.kafka.bindings import AclRow
from app.core.kafka.codes import AclOperation, AclPermissionType, PatternType, ResourceType
from app.formats.database_url import DatabaseUrl
from app.store.embedded.server import EmbeddedPostgres
from app.store.migrate import migrate
from tests.bench.processes import ROOT, Core, klamm_command, klamm_environment, on_core
from tests.bench.workload import realistic

_TIMEOUT_S = 600.0


class Server(NamedTuple):
    """A PostgreSQL, by the DSN of its superuser."""

    dsn: str

    def store(self, name: str) -> str:
        """The DSN of the database of this name."""
        return f"{self.dsn.rpartition('/')[0]}/{name}"

    def new_store(self, name: str) -> str:
        """A newborn store, in place of the one that may have had this name; returns its DSN."""
        self.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')
        self.execute(f'CREATE DATABASE "{name}"')
        asyncio.run(migrate(DatabaseUrl.parse(self.store(name))))
        return self.store(name)

    def copy(self, name: str, other: str) -> str:
        """The DSN of a copy of this store, in place of the one that may have had its name."""
        self.execute(f'DROP DATABASE IF EXISTS "{other}" WITH (FORCE)')
        self.execute(f'CREATE DATABASE "{other}" TEMPLATE "{name}" STRATEGY FILE_COPY')
        return self.store(other)

    def execute(self, statement: str, store: str | None = None) -> str:
        """Run it, in a database of this name; returns the first column of the first row as text."""
        dsn = self.dsn if store is None else self.store(store)
        return asyncio.run(_execute(dsn, statement))

    def pid(self) -> int:
        """The process of which all of PostgreSQL's are children."""
        return int(self.execute("SELECT split_part(pg_read_file('postmaster.pid'), E'\n', 1)"))

    def has_store(self, name: str, acl_count: int) -> bool:
        """Whether a store of this name holds so many ACLs."""
        if self.execute(f"SELECT count(*) FROM pg_database WHERE datname = '{name}'") == "0":  # noqa: S608 - our own names
            return False
        return self.execute("SELECT count(*) FROM acl", name) == str(acl_count)


class ImportFailedError(Exception):
    """`klamm import` has not done its work."""


@contextmanager
def postgres() -> Iterator[Server]:
    """A server for as long as the bench runs, as durable as in production, on the second core."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        with ExitStack() as stack:
            with on_core(Core.LOAD):
                server = stack.enter_context(EmbeddedPostgres(Path(folder, "data")))
            yield Server(server.dsn)


def store_of(size: int) -> str:
    """The name of the store that holds the realistic workload of this size."""
    return f"realistic_{size}"


def filled_store(server: Server, size: int) -> str:
    """The DSN of that store, filled now if it isn't yet."""
    if not server.has_store(store_of(size), size):
        import_acls(server, size)
    return server.store(store_of(size))


def import_acls(server: Server, size: int) -> float:
    """Seconds that `klamm import` takes for so many ACLs, into an empty store.

    Raises ImportFailedError with what it said, TimeoutExpired.
    """
    dsn = server.new_store(store_of(size))
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "acls.jsonl")
        write_acls(file, realistic(size).rows)
        began = time.monotonic()
        with on_core(Core.SERVER):
            done = subprocess.run(
                [*klamm_command("import"), str(file)],
                cwd=ROOT,
                env=klamm_environment(dsn),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                timeout=_TIMEOUT_S,
                check=False,
            )
        took = time.monotonic() - began
    if done.returncode:
        raise ImportFailedError(done.stderr.decode(errors="replace")[-2_000:])
    # What autovacuum and the checkpointer would do within minutes must not fall into what is measured next.
    server.execute("VACUUM (ANALYZE)", store_of(size))
    server.execute("CHECKPOINT")
    return took


async def _execute(dsn: str, statement: str) -> str:
    connection = await asyncpg.connect(dsn, timeout=30)
    try:
        return str(await connection.fetchval(statement, timeout=_TIMEOUT_S))
    finally:
        await connection.close(timeout=30)


def write_acls(file: Path, rows: Sequence[AclRow]) -> None:
    with file.open("w", encoding="utf-8") as lines:
        for row in rows:
            lines.write(json.dumps(binding(row)) + "\n")
        lines.flush()
        os.fsync(lines.fileno())


def binding(row: AclRow) -> dict[str, str]:
    _, resource_type, pattern_type, operation, permission_type, name, principal, host = row
    return {
        "resource_type": ResourceType(resource_type).name,
        "resource_name": name,
        "pattern_type": PatternType(pattern_type).name,
        "principal": principal,
        "host": host,
        "operation": AclOperation(operation).name,
        "permission_type": AclPermissionType(permission_type).name,
    }
