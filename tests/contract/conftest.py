"""The three ports of the runtime, once as the fake that its tests stand on and once as the real thing."""

from collections.abc import AsyncIterator

import pytest

from app.store.acl_store import PostgresAclStore
from app.store.bulk import PostgresBulkStore
from app.store.change_feed import PostgresChangeFeed
from app.store.migrate import migrate
from tests.contract.subject import Subject
from tests.fakes import FakeStore


@pytest.fixture(params=["fake", "postgres"])
def store_url(request: pytest.FixtureRequest) -> str | None:
    """Of an empty database, or None for the fake; only the former starts a server."""
    return str(request.getfixturevalue("database_url")) if request.param == "postgres" else None


@pytest.fixture
async def subject(store_url: str | None) -> AsyncIterator[Subject]:
    if store_url is None:
        fake = FakeStore()
        yield Subject(fake, fake.feed, fake)
        return
    await migrate(store_url)
    store, feed, bulk = PostgresAclStore(store_url), PostgresChangeFeed(store_url), PostgresBulkStore(store_url)
    yield Subject(store, feed, bulk)
    await bulk.close()
    await feed.close()
    await store.close()
