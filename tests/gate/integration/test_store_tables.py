"""The tables that code knows are those that the migrations make."""

from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import Connection

from app.formats.database_url import DatabaseUrl
from app.store.migrate import migration_engine
from app.store.tables import metadata


async def test_the_tables_in_code_are_those_of_the_migrations(store_url: str) -> None:
    def differences(connection: Connection) -> list[object]:
        return list(compare_metadata(MigrationContext.configure(connection), metadata))

    engine = migration_engine(DatabaseUrl.parse(store_url))
    async with engine.connect() as connection:
        assert await connection.run_sync(differences) == []
    await engine.dispose()
