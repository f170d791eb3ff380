"""`at`: many random questions about the past, each answered as core answers on the image of then."""

from collections.abc import AsyncIterator

import pytest

from app.store.engine import Connection
from tests.past_worlds import World, compare, world_on


@pytest.fixture
async def world(store_url: str, database: Connection) -> AsyncIterator[World]:
    async with world_on(store_url, database) as world:
        yield world


@pytest.mark.parametrize("first", range(10, 300, 29))
async def test_many_answers_of_the_past_equal_core_on_the_image_of_then(
    world: World, monkeypatch: pytest.MonkeyPatch, first: int
) -> None:
    monkeypatch.setattr("app.runtime.past._STRETCH", 20)
    # Some moments are recent, and most are not.
    monkeypatch.setattr("app.store.reading.state._RECENT", 25)
    await compare(world, range(first, first + 29), 100)
