"""Garbage collection and a new image: a full collection over a million ACLs would stop every request."""

import gc

from app.core.configs import AuthorizerConfig
from app.runtime.counters import RuntimeMetrics
from app.runtime.snapshot import load_image
from tests.fakes import FakeStore
from tests.unit.runtime.world import create


async def test_no_collection_walks_over_a_loaded_image() -> None:
    store = FakeStore()
    store.commit([create("a", "b")])
    try:
        image = await load_image(store.another_feed(), AuthorizerConfig(), 60.0, RuntimeMetrics())
        node = image.index.principal("User:alice")
        assert node is not None
        assert all(each is not node for each in gc.get_objects())
        assert gc.isenabled()
    finally:
        gc.unfreeze()
