"""The ports of the runtime: as the fake that its tests stand on, as the real thing, with its rights, and over HTTP.

What holds for another service in the place of the store, too, has the marker `upstream`.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from app.formats.database_url import DatabaseUrl
from app.store.reading.change_feed import PostgresChangeFeed
from app.store.writing.acl_store import PostgresAclStore
from app.store.writing.bulk_store import PostgresBulkStore
from app.upstream.acl_store import UpstreamAclStore
from app.upstream.change_feed import UpstreamChangeFeed
from app.upstream.connection import Connection
from tests.database_roles import connected, new_store_with_roles
from tests.fakes import FakeStore
from tests.gate.contract.followed import FollowedSubject, feed_of, options_of, service_on
from tests.gate.contract.subject import Subject
from tests.postgres import Postgres, new_store
from tests.store_on_postgres import PATIENT

_DATABASE = "contract"


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "store_url" in metafunc.fixturenames:
        followed = ["upstream"] if metafunc.definition.get_closest_marker("upstream") else []
        metafunc.parametrize("store_url", ["fake", "postgres", "app role", *followed], indirect=True)


@pytest.fixture
async def store_url(request: pytest.FixtureRequest) -> AsyncIterator[str | None]:
    """Of a newborn store, or of a service on one; None for the fake."""
    if request.param == "fake":
        yield None
        return
    if request.param == "upstream":
        with service_on(FakeStore()) as url:
            yield url
        return
    server: Postgres = request.getfixturevalue("postgres")
    async with connected(server.dsn) as admin:
        await admin.execute(f"DROP DATABASE IF EXISTS {_DATABASE} WITH (FORCE)")
        if request.param == "app role":
            yield (await new_store_with_roles(server.dsn, _DATABASE)).serve
        else:
            yield await new_store(server.dsn, _DATABASE)
        await admin.execute(f"DROP DATABASE {_DATABASE} WITH (FORCE)")


@asynccontextmanager
async def following(url: str) -> AsyncIterator[Subject]:
    connection = Connection(options_of(url))
    writers, feed = UpstreamChangeFeed(connection), feed_of(url)
    store = UpstreamAclStore(connection, writers)
    for each in (writers, feed):
        async with each.snapshot() as reader:
            assert [some async for some in reader.slices()] == []
    await writers.poll(0, 1)
    yield FollowedSubject(store, feed, FakeStore(), url)
    await store.close()
    for each in (writers, feed):
        await each.close()


@pytest.fixture
async def subject(store_url: str | None, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Subject]:
    # A machine that stands still for a second is no outage here.
    monkeypatch.setattr("app.upstream.change_feed._PATIENCE_S", 30.0)
    if store_url is None:
        fake = FakeStore()
        yield Subject(fake, fake.feed, fake)
        return
    if store_url.startswith("http:"):
        async with following(store_url) as followed:
            yield followed
        return
    store, feed, bulk = (
        PostgresAclStore(DatabaseUrl.parse(store_url), PATIENT),
        PostgresChangeFeed(DatabaseUrl.parse(store_url), PATIENT),
        PostgresBulkStore(DatabaseUrl.parse(store_url), PATIENT),
    )
    yield Subject(store, feed, bulk)
    await bulk.close()
    await feed.close()
    await store.close()
