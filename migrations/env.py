"""Alembic's entry: runs on the connection that `app.store.migrate` hands over, or on `-x database_url=...`."""

import asyncio

from alembic import context
from sqlalchemy import Connection

from app.formats.database_url import DatabaseUrl
from app.store.migrate import migration_engine
from app.store.tables import metadata


def _run(connection: Connection) -> None:
    context.configure(connection=connection, target_metadata=metadata, transaction_per_migration=True)
    with context.begin_transaction():
        context.run_migrations()


async def _run_on_url(database_url: str) -> None:
    engine = migration_engine(DatabaseUrl.parse(database_url))
    async with engine.connect() as connection:
        await connection.run_sync(_run)
    await engine.dispose()


_handed_over = context.config.attributes.get("connection")
if _handed_over is not None:
    _run(_handed_over)
else:
    asyncio.run(_run_on_url(context.get_x_argument(as_dictionary=True)["database_url"]))
