"""Newborn stores and data folders: each is a copy of one that was made the whole way, which takes half a second.

A copied store gets a cluster id and an epoch of its own, as at birth. A copied data folder is initialised, not
migrated: whoever starts on it makes its store. Copies of a folder share their password and PostgreSQL's own identifier.
"""

import atexit
import functools
import shutil
import subprocess
import tempfile
import uuid
from pathlib import Path

import asyncpg

from app.formats.database_url import DatabaseUrl
from app.store.embedded.server import EmbeddedPostgres
from app.store.migrate import _random_cluster_id, migrate

_TEMPLATE = "newborn_template"


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
