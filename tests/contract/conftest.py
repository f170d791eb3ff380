"""The three ports of the runtime: as the fake that its tests stand on, as the real thing, and with the app's rights."""

from collections.abc import AsyncIterator

import pytest

from app.formats.database_url import DatabaseUrl
from app.store.embedded.server import EmbeddedPostgres
from app.store.migrate import migrate
from app.store.reading.change_feed import PostgresChangeFeed
from app.store.writing.acl_store import PostgresAclStore, PostgresBulkStore
from tests.contract.subject import Subject
from tests.database_roles import connected, make_roles
from tests.fakes import FakeStore
from tests.newborn import new_store

_DATABASE = "contract"


@pytest.fixture(params=["fake", "postgres", "app role"])
async def store_url(request: pytest.FixtureRequest) -> AsyncIterator[str | None]:
    """Of a newborn store, or None for the fake; only the others start a server."""
    if request.param == "fake":
        yield None
        return
    server: EmbeddedPostgres = request.getfixturevalue("postgres_server")
    async with connected(server.dsn) as admin:
        await admin.execute(f"DROP DATABASE IF EXISTS {_DATABASE} WITH (FORCE)")
        if request.param == "app role":
            roles = await make_roles(server.dsn, _DATABASE)
            await migrate(DatabaseUrl.parse(roles.migrate))
            yield roles.serve
        else:
            yield await new_store(server.dsn, _DATABASE)
        await admin.execute(f"DROP DATABASE {_DATABASE} WITH (FORCE)")


@pytest.fixture
async def subject(store_url: str | None) -> AsyncIterator[Subject]:
    if store_url is None:
        fake = FakeStore()
        yield Subject(fake, fake.feed, fake)
        return
    store, feed, bulk = (
        PostgresAclStore(DatabaseUrl.parse(store_url)),
        PostgresChangeFeed(DatabaseUrl.parse(store_url)),
        PostgresBulkStore(DatabaseUrl.parse(store_url)),
    )
    yield Subject(store, feed, bulk)
    await bulk.close()
    await feed.close()
    await store.close()
