"""Following the feed: whole transactions, in order, one image a batch."""

import asyncio
import gc
import itertools
import logging
from collections.abc import Iterator
from dataclasses import replace

import pytest

from app.core.index.tree import AclIndex
from app.core.kafka.configs import AuthorizerConfig
from app.core.mutations import AlterConfigs
from app.runtime.readiness import State
from tests.fakes import FakeStore
from tests.klamm import until
from tests.virtual_time import in_virtual_time, now
from tests.world import ALICE, OPTIONS, authorizer_on, create, delete, may_read, names_in, unopened, until_ready


@in_virtual_time
async def test_a_hint_brings_a_change_at_once() -> None:
    store = FakeStore()
    async with authorizer_on(store, OPTIONS) as authorizer:
        await asyncio.sleep(0.3)
        store.commit([create("a")])
        written_at = now()
        await until(lambda: may_read(authorizer, "a"))
        assert now() - written_at < 0.01
        assert authorizer.metrics.records_applied == 1


@in_virtual_time
async def test_a_lost_hint_costs_a_second_at_most() -> None:
    store = FakeStore()
    store.notify_lost = True
    async with authorizer_on(store, OPTIONS) as authorizer:
        for number in range(5):
            await asyncio.sleep(0.37)
            store.commit([create(f"t{number}")])
            written_at, offset = now(), store.tables.last_offset
            await until(lambda: authorizer.image.offset == offset)  # noqa: B023 - awaited within the turn
            assert now() - written_at < 1.1


@in_virtual_time
async def test_losing_the_hints_connection_wakes_the_loader() -> None:
    store = FakeStore()
    async with authorizer_on(store, OPTIONS) as authorizer:
        store.notify_lost = True
        store.commit([create("a")])
        store.disconnect()
        lost_at = now()
        await until(lambda: may_read(authorizer, "a"))
        assert now() - lost_at < 0.1


@in_virtual_time
async def test_a_wait_for_hints_that_hangs_does_not_stop_the_loader() -> None:
    store = FakeStore()
    store.hang("wait")
    async with authorizer_on(store, OPTIONS) as authorizer:
        for number in range(5):
            store.commit([create(f"t{number}")])
            written_at = now()
            await until(lambda: len(names_in(authorizer.image)) == store.tables.last_offset)
            assert now() - written_at < 1.1
        store.release("wait")


@in_virtual_time
async def test_hints_that_never_bring_news_do_not_make_the_loader_spin() -> None:
    store = FakeStore()
    async with authorizer_on(store, OPTIONS) as authorizer:
        polls, began_at = authorizer.metrics.feed_polls, now()
        while now() < began_at + 10:
            store.disconnect()
            await asyncio.sleep(0.0005)
        assert authorizer.metrics.feed_polls - polls < 150


@in_virtual_time
async def test_several_looks_bring_what_one_does_not() -> None:
    store = FakeStore()
    async with authorizer_on(store, replace(OPTIONS, poll_records=3)) as authorizer:
        store.notify_lost = True
        for number in range(10):
            store.commit([create(f"{number}-a", f"{number}-b")])
        store.disconnect()
        began_at = now()
        await until(lambda: authorizer.image.offset == 20)
        assert now() - began_at < 0.1
        assert authorizer.metrics.transactions_applied == 10


@in_virtual_time
async def test_a_transaction_is_seen_whole_or_not_at_all_and_a_batch_stands_on_one_offset() -> None:
    """At every offset exactly one of the topics is allowed; each transaction moves the permission on."""
    store, topics, seen = FakeStore(), [f"t{number}" for number in range(5)], set()
    store.commit([create(topics[0])])
    async with authorizer_on(store, OPTIONS) as authorizer:

        async def decide() -> None:
            while True:
                caller, offset = authorizer.rights.authorization(ALICE), authorizer.image.offset
                allowed = [topic for topic in topics if caller.decide(3, 2, topic).allowed]
                assert len(allowed) == 1
                seen.add((offset, allowed[0]))
                await asyncio.sleep(0)

        reader = asyncio.create_task(decide())
        for turn in range(200):
            here, there = topics[turn % 5], topics[(turn + 1) % 5]
            store.commit([delete(here), create(there)] if turn % 2 else [create(there), delete(here)])
            if turn % 7 == 0:
                await until(lambda: authorizer.image.offset == store.tables.last_offset)
        await until(lambda: authorizer.image.offset == store.tables.last_offset)
        reader.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reader
    assert len(seen) > 50
    assert all(topics[(offset - 1) // 2 % 5] == topic for offset, topic in seen)


@in_virtual_time
async def test_requests_get_their_turn_between_two_transactions() -> None:
    store = FakeStore()
    async with authorizer_on(store, OPTIONS) as authorizer:
        for number in range(50):
            store.commit([create(f"t{number}")])
        offsets = []
        while authorizer.image.offset < 50:
            await asyncio.sleep(0)
            offsets.append(authorizer.image.offset)
        assert set(range(1, 51)) <= set(offsets)


@in_virtual_time
async def test_a_configuration_reaches_every_replica_at_the_same_offset() -> None:
    store = FakeStore()
    async with authorizer_on(store, OPTIONS) as one, authorizer_on(store, OPTIONS) as other:
        store.commit([create("a")])
        store.commit([AlterConfigs([("super.users", "User:eve")], "User:admin")])
        for authorizer in (one, other):
            await until(lambda: authorizer.image.offset == 2)  # noqa: B023 - awaited within the turn
            assert authorizer.image.config.super_users == {"User:eve"}


@in_virtual_time
async def test_closing_stops_looking_and_survives_a_feed_that_fails_or_hangs(caplog: pytest.LogCaptureFixture) -> None:
    store = FakeStore()
    async with authorizer_on(store, OPTIONS) as authorizer:
        store.hang("close")
        began_at = now()
        await authorizer.close()
        assert now() - began_at < 12
        assert [r.message for r in caplog.records if r.levelno >= logging.ERROR] == [
            "store_not_closed",
            "feed_not_closed",
        ]
        polls = authorizer.metrics.feed_polls
        await asyncio.sleep(10)
        assert authorizer.metrics.feed_polls == polls
        assert may_read(authorizer, "a", "User:admin")
        store.release("close")


@in_virtual_time
async def test_closing_while_an_old_image_is_freed_is_fine() -> None:
    class Endless(AclIndex):
        def dismantle(self) -> Iterator[None]:
            yield from itertools.repeat(None)

    async with authorizer_on(FakeStore(), OPTIONS) as authorizer:
        authorizer._loader._free(Endless())
        await asyncio.sleep(0)
        assert authorizer._loader._freeing
        await authorizer.close()
        assert not authorizer._loader._freeing


@in_virtual_time
async def test_close_before_open_is_fine() -> None:
    await unopened(FakeStore()).close()


@in_virtual_time
async def test_a_short_bound_on_staleness_makes_looks_more_frequent() -> None:
    store = FakeStore()
    startup = AuthorizerConfig(max_staleness_ms=300)
    async with authorizer_on(store, OPTIONS, startup=startup, ready=False) as authorizer:
        await until_ready(authorizer)
        began_at = now()
        while now() < began_at + 5:
            assert authorizer.readiness.state is State.READY
            await asyncio.sleep(0.01)


@in_virtual_time
async def test_reloads_leave_collection_on() -> None:
    store = FakeStore()
    async with authorizer_on(store, OPTIONS) as authorizer:
        for _ in range(3):
            epoch = authorizer.image.epoch
            store.restore(0)
            store.commit([create("a")])
            await until(lambda: authorizer.image.epoch != epoch)  # noqa: B023 - awaited within the turn
        assert gc.isenabled()


@in_virtual_time
async def test_hints_that_bring_news_are_always_followed_at_once() -> None:
    store = FakeStore()
    async with authorizer_on(store, OPTIONS) as authorizer:
        for number in range(100):
            store.commit([create(f"t{number}")])
            await asyncio.sleep(0.002)
            assert authorizer.image.offset == number + 1


@in_virtual_time
async def test_a_wait_for_hints_that_never_ends_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    store = FakeStore()
    async with authorizer_on(store, OPTIONS, ready=False) as authorizer:
        feed = authorizer._loader._feed
        wait, waits = feed.wait, itertools.count()

        async def first_hangs(timeout_s: float) -> None:
            await (wait(timeout_s) if next(waits) else asyncio.sleep(1e6))

        monkeypatch.setattr(feed, "wait", first_hangs)
        await until(lambda: now() > 5)
        store.commit([create("a")])
        await asyncio.sleep(0.01)
        assert may_read(authorizer, "a")


@in_virtual_time
async def test_each_new_super_user_in_doubt_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    def told() -> list[str]:
        return [str(vars(each)["why"]) for each in caplog.records if each.message == "super_user_in_doubt"]

    store = FakeStore()
    store.commit([AlterConfigs([("super.users", "User:admin;user:stored")], "User:admin")])
    async with authorizer_on(store, OPTIONS) as authorizer:
        assert [why.partition(" is not")[0] for why in told()] == ["`user:stored`"]
        store.commit([AlterConfigs([("super.users", "User:admin;user:stored;User:a,User:b")], "User:admin")])
        await until(lambda: len(authorizer.image.config.super_users) == 3)
        assert len(told()) == 2
        assert told()[1].startswith("`User:a,User:b` is a single principal")
        store.commit([create("a"), AlterConfigs([("audit.level", "DEBUG")], "User:admin")])
        await until(lambda: may_read(authorizer, "a"))
        assert len(told()) == 2
