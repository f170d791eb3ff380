"""The store is away or hangs: decisions go on, and all flows again when it is back."""

import asyncio
import logging

import pytest

from app.runtime.readiness import State
from tests.fakes import FakeStore
from tests.klamm import until
from tests.virtual_time import in_virtual_time, now
from tests.world import OPTIONS, authorizer_on, create, may_read, until_ready


@in_virtual_time
async def test_without_the_store_it_serves_on_and_says_how_old_it_is() -> None:
    store = FakeStore()
    store.commit([create("a")])
    async with authorizer_on(store, OPTIONS) as authorizer:
        store.unreachable = True
        await until(lambda: authorizer.readiness.state is State.LAGGING, limit_s=1.1)
        began_at = now()
        while now() < began_at + 20:
            assert may_read(authorizer, "a")
            assert authorizer.readiness.ready()
            await asyncio.sleep(0.1)
        assert 20 < authorizer.readiness.age_s < 22
        assert authorizer.metrics.feed_poll_failures < 60
        store.unreachable, back_at = False, now()
        store.commit([create("b")])
        await until(lambda: may_read(authorizer, "b"))
        assert now() - back_at < 1
        await until_ready(authorizer)
        assert authorizer.readiness.age_s < 0.1
        assert authorizer.metrics.image_loads == 1


@in_virtual_time
async def test_a_store_that_hangs_is_noticed_and_come_back_to() -> None:
    store = FakeStore()
    store.commit([create("a")])
    async with authorizer_on(store, OPTIONS) as authorizer:
        store.hang("poll")
        await until(lambda: authorizer.readiness.state is State.LAGGING, limit_s=3.1)
        assert "no answer in time" in str(authorizer.readiness.checks())
        polls = authorizer.metrics.feed_polls
        await asyncio.sleep(21)
        # One every two seconds and a little: after a look that hung there is no long rest.
        assert authorizer.metrics.feed_polls - polls >= 10
        assert may_read(authorizer, "a")
        store.release("poll")
        back_at = now()
        await until_ready(authorizer)
        assert now() - back_at < 2


@in_virtual_time
async def test_looks_that_never_end_are_replaced_by_a_snapshot_which_comes_in_parts() -> None:
    store = FakeStore()
    store.commit([create("a")])
    async with authorizer_on(store, OPTIONS) as authorizer:
        feed = authorizer._loader._feed
        ask = feed.poll

        async def slow(applied_offset: int, limit: int) -> object:
            if applied_offset == 1 < store.tables.last_offset:
                await asyncio.sleep(60)
            return await ask(applied_offset, limit)

        feed.poll = slow  # type: ignore[method-assign,assignment]  # a look that takes too long for its size
        store.commit([create("b")])
        await until(lambda: may_read(authorizer, "b"))
        assert authorizer.metrics.image_loads == 2
        assert authorizer.metrics.feed_poll_failures == 3


@in_virtual_time
async def test_troubles_are_logged_when_they_begin_and_end_not_at_every_try(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "app.runtime.loader")
    store = FakeStore()
    async with authorizer_on(store, OPTIONS) as authorizer:
        caplog.clear()
        store.unreachable = True
        await asyncio.sleep(30)
        store.unreachable = False
        await until_ready(authorizer)
    assert [record.message for record in caplog.records] == ["feed_in_trouble", "feed_recovered"]


@in_virtual_time
async def test_the_age_counts_from_before_a_look_not_from_its_answer() -> None:
    store = FakeStore()
    async with authorizer_on(store, OPTIONS) as authorizer:
        await asyncio.sleep(0.5)
        store.hang("poll")
        store.disconnect()
        await asyncio.sleep(1.5)
        store.release("poll")
        polls = authorizer.metrics.feed_polls
        await asyncio.sleep(0.1)
        assert authorizer.metrics.feed_polls == polls
        assert 1.59 < authorizer.readiness.age_s < 1.61


@in_virtual_time
async def test_a_fault_of_ours_is_logged_with_its_cause_once_not_at_every_try(caplog: pytest.LogCaptureFixture) -> None:
    store = FakeStore()
    async with authorizer_on(store, OPTIONS) as authorizer:
        store.poll_fault = ZeroDivisionError("planted")
        await asyncio.sleep(30)
        assert authorizer.metrics.feed_poll_failures > 20
        assert authorizer.readiness.ready()
        store.poll_fault = None
        await until_ready(authorizer)
    assert [record.message for record in caplog.records if record.exc_info] == ["loader_failed"]
