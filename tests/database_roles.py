"""A database as deploy/postgres/roles.sql makes it, and the DSNs of its three login roles."""

import functools
import os
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import asyncpg

from app.formats.database_url import DatabaseUrl
from app.store.embedded.binaries import find_binaries
from app.store.embedded.process import Launcher
from app.store.engine import Connection
from app.store.migrate import migrate
from tests.postgres import be_born
from tests.psql_script import run_script

ROLES_SQL = Path(__file__).parents[1] / "deploy" / "postgres" / "roles.sql"
_ROLES = ROLES_SQL.read_text(encoding="utf-8")
MIGRATE, SERVE, SPARK = "klamm_migrate", "klamm_serve", "klamm_report"
PASSWORD = "planted-password-of-a-role"
_TEMPLATE = "template_with_roles"


@dataclass(frozen=True)
class DatabaseRoles:
    """DSNs of one database."""

    admin: str
    migrate: str
    serve: str
    spark: str


def psql(dsn: str, script: Path, **variables: str) -> str:
    """Run a script; what it said comes back. Raises AssertionError if it failed."""
    url = urlsplit(dsn)
    where = ["-h", str(url.hostname), "-p", str(url.port), "-U", str(url.username), "-d", url.path.lstrip("/")]
    done = subprocess.run(
        [
            *(_psql(), "-X", "-v", "ON_ERROR_STOP=1", *where),
            *(part for name, value in variables.items() for part in ("-v", f"{name}={value}")),
            *("-f", str(script)),
        ],
        env={**os.environ, "PGPASSWORD": str(url.password), "LC_ALL": "C"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


@functools.cache
def _psql() -> str:
    return find_binaries(Launcher()).program("psql")


def as_role(dsn: str, role: str, database: str | None = None) -> str:
    """The DSN of this role, which has the password."""
    url = urlsplit(dsn)
    netloc = f"{role}:{PASSWORD}@{url.netloc.rpartition('@')[2]}"
    return url._replace(netloc=netloc, path=url.path if database is None else f"/{database}").geturl()


@asynccontextmanager
async def connected(dsn: str, **settings: str) -> AsyncIterator[Connection]:
    """A bare connection for as long as the block lasts."""
    connection = await asyncpg.connect(dsn, server_settings=settings)
    try:
        yield connection
    finally:
        await connection.close()


async def make_roles(dsn: str, database: str) -> DatabaseRoles:
    """Run roles.sql by psql as the superuser of this DSN, and give the login roles passwords."""
    psql(dsn, ROLES_SQL, database=database)
    return await _with_passwords(dsn, database)


async def _with_passwords(dsn: str, database: str) -> DatabaseRoles:
    async with connected(dsn) as admin:
        for role in (MIGRATE, SERVE, SPARK):
            await admin.execute(f"ALTER ROLE {role} PASSWORD '{PASSWORD}'")
    named = (as_role(dsn, role, database) for role in (MIGRATE, SERVE, SPARK))
    return DatabaseRoles(f"{dsn.rpartition('/')[0]}/{database}", *named)


async def new_store_with_roles(server: str, database: str) -> DatabaseRoles:
    """A newborn store on the server of this superuser's DSN, a copy of what the migrator's login has made there once.

    What belongs to the database itself, not to what is in it, is not copied: roles.sql runs on the copy as well. It is
    run over a connection: no process is started.
    """
    async with connected(server) as admin:
        # The flag says that it is complete.
        if not await admin.fetchval("SELECT datistemplate FROM pg_database WHERE datname = $1", _TEMPLATE):
            await run_script(server, _ROLES, database=_TEMPLATE)
            roles = await _with_passwords(server, _TEMPLATE)
            await migrate(DatabaseUrl.parse(roles.migrate))
            await admin.execute(f"ALTER DATABASE {_TEMPLATE} IS_TEMPLATE true")
        await admin.execute(f'CREATE DATABASE "{database}" TEMPLATE {_TEMPLATE}')
    await run_script(server, _ROLES, database=database)
    roles = await _with_passwords(server, database)
    await be_born(roles.admin)
    return roles
