"""Full collections, of all that a process of tests holds."""

import asyncio
import gc

from app.core.collection import collection_paused
from app.metrics.declared import Metrics
from app.runtime.collection import Collector
from tests.gate.unit.runtime.test_collection import collector
from tests.klamm import until

__all__ = ["collector"]


async def test_full_collections_are_its_own_and_come_in_time(
    collector: tuple[Collector, Metrics, list[int]],
) -> None:
    taken, _, collected = collector
    usual = gc.get_threshold()
    taken.open()
    assert gc.get_threshold()[:2] == (usual[0], 1)
    assert gc.get_threshold()[2] > 1_000_000
    await until(lambda: collected.count(2) >= 3)
    await taken.close()
    assert gc.get_threshold() == usual


async def test_nothing_is_collected_while_an_image_is_built(
    collector: tuple[Collector, Metrics, list[int]],
) -> None:
    taken, _, collected = collector
    with collection_paused():
        taken.open()
        await asyncio.sleep(0.1)
        assert collected == []
    await until(lambda: 2 in collected)
    await taken.close()
