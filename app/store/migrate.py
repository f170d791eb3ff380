"""Brings a database's schema to what this version needs; safe however many replicas start at once."""

import asyncio
import base64
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from uuid import uuid4

import asyncpg
from alembic import command
from alembic.config import Config
from alembic.script.revision import ResolutionError
from alembic.util import CommandError
from sqlalchemy import Connection, func, insert, select, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine
from sqlalchemy.pool import NullPool

from app.core.kafka.codes import CODED_FIELDS
from app.core.kafka.errors import InconsistentClusterIdException, StoreUnavailableException
from app.formats.database_url import DatabaseUrl
from app.store.engine import StoreTimeouts, connect, retry_backoff
from app.store.faults import translated_faults
from app.store.grants import grant
from app.store.tables import acl_head, code_name
from app.store.writing.settled_digest import settle_digest

_TIMEOUTS = StoreTimeouts(lock_s=4.0, statement_s=5.0)

_LOCK_KEY = 0x6B6C616D6D
"""The key of the advisory lock that lets one process migrate at a time; a session lock, as each migration commits."""

_LOCK_PATIENCE_S = 60.0


async def migrate(url: DatabaseUrl, *, cluster_id: str | None = None) -> None:
    """Applies what is missing, and grants what the group roles lack. It needs a direct connection, not a pooler's.

    `cluster_id` is the id of a store that is created here (else a random one).
    Raises StoreUnavailableException, or InconsistentClusterIdException if the store has another cluster's id.
    """

    def upgrade(connection: Connection) -> None:
        _upgrade(_config(connection, cluster_id or _random_cluster_id()))
        _name_codes(connection)
        grant(connection)
        if cluster_id is not None:
            _check_cluster_id(connection, cluster_id)
        connection.commit()

    await _run_locked(url, upgrade)
    await settle_digest(url, _TIMEOUTS)


def _upgrade(config: Config) -> None:
    try:
        command.upgrade(config, "head")
    except CommandError as error:
        if not isinstance(error.__cause__, ResolutionError):
            raise
        raise StoreUnavailableException(
            "the store's schema is from a newer version of Klamm, or from another program; run that version, or point "
            "`database.url` at the right database"
        ) from None


async def downgrade(url: DatabaseUrl, revision: str) -> None:
    """Undoes the migrations after this revision; "base" undoes all, and the ACLs are lost with the tables."""
    await _run_locked(url, lambda connection: command.downgrade(_config(connection), revision))


def migration_engine(url: DatabaseUrl) -> AsyncEngine:
    return create_async_engine(
        "postgresql+asyncpg://",
        async_creator=partial(connect, url, _TIMEOUTS, "migration"),
        poolclass=NullPool,
    )


async def _run_locked(url: DatabaseUrl, work: Callable[[Connection], None]) -> None:
    engine = migration_engine(url)
    try:
        with translated_faults():
            async with _bare_faults(), engine.connect() as connection:
                await _refuse_other_encodings(connection)
                await _take_lock(connection)
                await connection.run_sync(work)
                # The lock is freed with the session, which ends here.
    finally:
        await engine.dispose()


@asynccontextmanager
async def _bare_faults() -> AsyncIterator[None]:
    try:
        yield
    except DBAPIError as fault:
        cause = fault.orig.__cause__ if fault.orig is not None else None
        if isinstance(cause, asyncpg.PostgresError | asyncpg.InterfaceError | OSError):
            raise cause from fault
        raise


async def _refuse_other_encodings(connection: AsyncConnection) -> None:
    encoding = await connection.scalar(text("SHOW server_encoding"))
    if encoding != "UTF8":
        raise StoreUnavailableException(
            f"the database has the encoding `{encoding}`, which can't hold every name; create it with encoding UTF8",
        )


async def _take_lock(connection: AsyncConnection) -> None:
    # This polls instead of waiting: a waiting statement would hold a snapshot, and lock_timeout is short.
    backoff = retry_backoff()
    deadline = asyncio.get_running_loop().time() + _LOCK_PATIENCE_S
    while not await connection.scalar(select(func.pg_try_advisory_lock(_LOCK_KEY))):
        await connection.commit()
        if asyncio.get_running_loop().time() > deadline:
            raise StoreUnavailableException(
                "another process has been migrating this database for a minute; retry, or find that process in "
                "pg_locks",
            )
        await asyncio.sleep(backoff.next_s())
    await connection.commit()


def _config(connection: Connection, cluster_id: str | None = None) -> Config:
    config = Config()
    config.set_main_option("script_location", "migrations:")  # the package, wherever it is installed
    config.attributes.update(connection=connection, cluster_id=cluster_id)
    return config


def _name_codes(connection: Connection) -> None:
    known = {(row.field, row.code) for row in connection.execute(select(code_name.c.field, code_name.c.code))}
    missing = [
        {"field": field, "code": int(code), "name": code.name}
        for field, codes in CODED_FIELDS.items()
        for code in codes
        if (field, int(code)) not in known
    ]
    if missing:
        connection.execute(insert(code_name), missing)


def _check_cluster_id(connection: Connection, expected: str) -> None:
    found = connection.scalar(select(acl_head.c.cluster_id))
    if found != expected:
        raise InconsistentClusterIdException(
            f"this store belongs to cluster `{found}`, not to `{expected}`; point `database.url` at the right database "
            "or leave `cluster.id` out",
        )


def _random_cluster_id() -> str:
    """As Kafka's Uuid.randomUuid: 22 characters of URL-safe base64, not beginning with a dash."""
    while (cluster_id := base64.urlsafe_b64encode(uuid4().bytes).decode().rstrip("=")).startswith("-"):
        pass
    return cluster_id
