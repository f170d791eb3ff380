"""Fixtures of integration tests: a migrated database, the store on it, a bare connection beside them, and limits."""

from collections.abc import AsyncIterator

import asyncpg
import pytest

from app.formats.database_url import DatabaseUrl
from app.store.engine import Connection, StoreTimeouts
from app.store.reading.change_feed import PostgresChangeFeed
from app.store.writing.acl_store import PostgresAclStore
from tests.klamm import until

PATIENT = StoreTimeouts(
    connect_s=30.0,
    answer_s=30.0,
    statement_s=60.0,
    lock_s=30.0,
    idle_in_transaction_s=60.0,
    transaction_s=60.0,
)
"""For tests that are not about time limits: no machine is that slow."""

SHORT = StoreTimeouts(
    answer_s=1.0,
    heartbeat_s=0.2,
    statement_s=3.0,
    lock_s=2.5,
    idle_in_transaction_s=3.0,
    transaction_s=6.0,
    slice_s=3.0,
)
"""So that tests of what does not answer take some seconds."""


async def closed(store: PostgresAclStore) -> None:
    """Waits until it has noticed that its connection was ended."""
    connection = store._feed._kept._connection
    assert connection is not None
    await until(connection.is_closed, "the connection is closed")


@pytest.fixture
def store_url(migrated_database_url: str) -> str:
    return migrated_database_url


@pytest.fixture
async def store(store_url: str) -> AsyncIterator[PostgresAclStore]:
    store = PostgresAclStore(DatabaseUrl.parse(store_url), PATIENT)
    yield store
    await store.close()


@pytest.fixture
async def feed(store_url: str) -> AsyncIterator[PostgresChangeFeed]:
    feed = PostgresChangeFeed(DatabaseUrl.parse(store_url), PATIENT)
    yield feed
    await feed.close()


@pytest.fixture
async def database(store_url: str) -> AsyncIterator[Connection]:
    """For looking into the store from outside, and for damaging it."""
    connection = await asyncpg.connect(store_url)
    yield connection
    await connection.close()
