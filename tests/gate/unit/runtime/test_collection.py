"""Garbage collection and a new image: a full collection over a million ACLs would stop every request."""

import asyncio
import gc
from collections.abc import AsyncIterator

import pytest

from app.core.kafka.configs import AuthorizerConfig
from app.metrics.declared import Metrics
from app.runtime.collection import Collector
from app.runtime.snapshot import load_image
from tests.fakes import FakeStore
from tests.klamm import until
from tests.world import create


async def test_no_collection_walks_over_a_loaded_image() -> None:
    store = FakeStore()
    store.commit([create("a", "b")])
    try:
        image = await load_image(store.another_feed(), AuthorizerConfig(), 60.0, Metrics())
        node = image.index.principals.get("User:alice")
        assert node is not None
        assert not is_walked_over(node)
        assert gc.isenabled()
    finally:
        gc.unfreeze()


def is_walked_over(thing: object) -> bool:
    return any(each is thing for each in gc.get_objects())


@pytest.fixture
async def collector() -> AsyncIterator[tuple[Collector, Metrics, list[int]]]:
    """A collector that looks all the time, what it looks at, and the generations that are collected."""
    metrics, collected = Metrics(), []

    def note(phase: str, info: dict[str, int]) -> None:
        if phase == "start":
            collected.append(info["generation"])

    gc.callbacks.append(note)
    taken = Collector(metrics, look_s=0.0, every_s=0.02)
    try:
        yield taken, metrics, collected
    finally:
        gc.callbacks.remove(note)
        gc.unfreeze()


async def test_what_the_feed_adds_is_frozen_before_it_is_much(
    collector: tuple[Collector, Metrics, list[int]],
) -> None:
    taken, metrics, _ = collector
    taken.open()
    for records in (10_000, 25_000):
        grown: list[object] = [[]]
        metrics.records_applied = records
        await until(lambda grown=grown: not is_walked_over(grown))  # type: ignore[misc]  # bound to this one
    metrics.records_applied += 9_999
    grown = [[]]
    for _ in range(20):
        await asyncio.sleep(0)
    assert is_walked_over(grown)
    await taken.close()


@pytest.mark.parametrize(("what", "number"), [("connections", 700), ("watch_readers", 340)])
async def test_connections_and_readers_are_frozen_before_they_are_many(
    collector: tuple[Collector, Metrics, list[int]], what: str, number: int
) -> None:
    taken, metrics, _ = collector
    taken.open()
    for _ in range(2):
        grown: list[object] = [[]]
        setattr(metrics, what, number)
        await until(lambda grown=grown: not is_walked_over(grown))  # type: ignore[misc]  # bound to this one
        setattr(metrics, what, 0)
        for _ in range(20):
            await asyncio.sleep(0)
    await taken.close()
