"""The log of a replica names the database that is in trouble, once; what callers hear does not."""

import logging
from collections.abc import Iterator

import pytest

from app.core.continuity import KnownHistory
from app.core.kafka.errors import StoreUnavailableException
from app.core.mutations import AlterConfigs
from app.formats.database_url import DatabaseUrl
from app.store.reading.change_feed import PostgresChangeFeed
from app.store.writing.acl_store import PostgresAclStore
from tests.store_on_postgres import SHORT

CLOSED_PORT = "postgresql://klamm:planted-4711-trouble@127.0.0.1:1/acls"


def _told(caplog: pytest.LogCaptureFixture, event: str = "database_in_trouble") -> list[dict[str, object]]:
    return [vars(line) for line in caplog.records if line.message == event]


async def test_an_outage_is_logged_once_with_its_place_and_callers_hear_no_place(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.WARNING)
    feed = PostgresChangeFeed(DatabaseUrl.parse(CLOSED_PORT), SHORT)
    with pytest.raises(StoreUnavailableException) as snapshot:
        async with feed.snapshot():
            pytest.fail("there is nobody")
    with pytest.raises(StoreUnavailableException) as poll:
        await feed.poll(0, 10)
    await feed.close()

    (line,) = _told(caplog)
    assert line["where"] == DatabaseUrl.parse(CLOSED_PORT).shown == "database `127.0.0.1:1/acls`, user `klamm`"
    assert line["why"] == snapshot.value.message
    for heard in (snapshot.value.message, poll.value.message):
        assert "127.0.0.1" not in heard
        assert "acls" not in heard
    assert "planted-4711" not in caplog.text


async def test_the_next_outage_is_logged_again(
    database_url: str, migrated_database_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    assert database_url == migrated_database_url
    feed = PostgresChangeFeed(DatabaseUrl.parse(migrated_database_url), SHORT)
    assert (await feed.poll(0, 10)).head.last_offset == 0
    for _ in range(2):
        with pytest.raises(StoreUnavailableException):
            async with feed.snapshot():
                raise StoreUnavailableException("planted outage")
        assert (await feed.poll(0, 10)).head.last_offset == 0
    await feed.close()
    assert [line["why"] for line in _told(caplog)] == ["planted outage"] * 2


async def test_a_database_that_takes_no_updates_is_logged_once_and_again_the_next_time(
    migrated_database_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    store = PostgresAclStore(DatabaseUrl.parse(migrated_database_url), SHORT)
    changes = AlterConfigs((("audit.level", "DEBUG"),), "User:admin")

    def planted() -> Iterator[AlterConfigs]:
        raise StoreUnavailableException("planted refusal")
        yield changes

    for _ in range(2):
        for _ in range(3):
            with pytest.raises(StoreUnavailableException):
                await store.write(planted(), KnownHistory())
        await store.write([changes], KnownHistory())
    await store.close()

    first, second = _told(caplog, "updates_in_trouble")
    assert first["where"] == second["where"] == DatabaseUrl.parse(migrated_database_url).shown
    assert first["why"] == second["why"] == "planted refusal"
