"""Following the feed: whole transactions, in order, and a fresh snapshot when the feed is not the image's any more."""

import asyncio
import gc
import itertools
import logging
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from app.core.configs import AuthorizerConfig
from app.core.image import AuthorizerImage
from app.core.index import AclIndex
from app.core.mutations import AlterConfigs
from app.core.records import AccessControlEntryRecord
from app.runtime.readiness import State
from tests.fakes import FakeStore
from tests.unit.runtime.world import (
    ADDRESS,
    OPTIONS,
    create,
    delete,
    may_read,
    names_in,
    names_of,
    replica,
    running,
    serving,
    until,
    until_ready,
)
from tests.virtual_time import in_virtual_time, now


@in_virtual_time
async def test_a_hint_brings_a_change_at_once() -> None:
    store = FakeStore()
    async with serving(store) as authorizer:
        await asyncio.sleep(0.3)
        store.commit([create("a")])
        written_at = now()
        await until(lambda: may_read(authorizer, "a"))
        assert now() - written_at < 0.01
        assert authorizer.metrics.records_applied_total == 1


@in_virtual_time
async def test_a_lost_hint_costs_a_second_at_most() -> None:
    store = FakeStore()
    store.notify_lost = True
    async with serving(store) as authorizer:
        for number in range(5):
            await asyncio.sleep(0.37)
            store.commit([create(f"t{number}")])
            written_at, offset = now(), store.tables.last_offset
            await until(lambda: authorizer.image.offset == offset)  # noqa: B023 - awaited within the turn
            assert now() - written_at < 1.1


@in_virtual_time
async def test_losing_the_hints_connection_wakes_the_loader() -> None:
    store = FakeStore()
    async with serving(store) as authorizer:
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
    async with serving(store) as authorizer:
        for number in range(5):
            store.commit([create(f"t{number}")])
            written_at = now()
            await until(lambda: len(names_in(authorizer.image)) == store.tables.last_offset)
            assert now() - written_at < 1.1
        store.release("wait")


@in_virtual_time
async def test_hints_that_never_bring_news_do_not_make_the_loader_spin() -> None:
    store = FakeStore()
    async with serving(store) as authorizer:
        polls, began_at = authorizer.metrics.polls_total, now()
        while now() < began_at + 10:
            store.disconnect()
            await asyncio.sleep(0.0005)
        assert authorizer.metrics.polls_total - polls < 150


@in_virtual_time
async def test_several_looks_bring_what_one_does_not() -> None:
    store = FakeStore()
    async with serving(store, replace(OPTIONS, poll_records=3)) as authorizer:
        store.notify_lost = True
        for number in range(10):
            store.commit([create(f"{number}-a", f"{number}-b")])
        store.disconnect()
        began_at = now()
        await until(lambda: authorizer.image.offset == 20)
        assert now() - began_at < 0.1
        assert authorizer.metrics.transactions_applied_total == 10


@in_virtual_time
async def test_a_transaction_is_seen_whole_or_not_at_all_and_a_batch_stands_on_one_offset() -> None:
    """At every offset exactly one of the topics is allowed; each transaction moves the permission on."""
    store, topics, seen = FakeStore(), [f"t{number}" for number in range(5)], set()
    store.commit([create(topics[0])])
    async with serving(store) as authorizer:

        async def decide() -> None:
            while True:
                caller, offset = authorizer.authorization("User:alice", ADDRESS), authorizer.image.offset
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
    async with serving(store) as authorizer:
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
    async with serving(store) as one, serving(store) as other:
        store.commit([create("a")])
        store.commit([AlterConfigs([("super.users", "User:eve")], "User:root")])
        for authorizer in (one, other):
            await until(lambda: authorizer.image.offset == 2)  # noqa: B023 - awaited within the turn
            assert authorizer.image.config.super_users == {"User:eve"}


# a feed that is not the image's any more


def other_epoch(store: FakeStore) -> None:
    store.restore(3)


def same_offset_other_history(store: FakeStore) -> None:
    store.restore(3, new_epoch=False)
    store.commit([create("x"), create("y")])


def gone_back(store: FakeStore) -> None:
    store.restore(2, new_epoch=False)


def ahead_with_another_history(store: FakeStore) -> None:
    store.restore(1, new_epoch=False)
    store.commit([create("x", "y", "z", "w", "v", "u")])


def trimmed(store: FakeStore) -> None:
    store.commit([create("x", "y", "z")])
    store.trim(8)


def trimmed_wholly(store: FakeStore) -> None:
    store.commit([create("x", "y", "z")])
    store.trim(9)


def record_gone(store: FakeStore) -> None:
    store.commit([create("x")])
    store.trim(6)


@pytest.mark.parametrize(
    "change",
    [
        other_epoch,
        same_offset_other_history,
        gone_back,
        ahead_with_another_history,
        trimmed,
        trimmed_wholly,
        record_gone,
    ],
)
@in_virtual_time
async def test_another_history_is_noticed_at_the_next_look_and_reloaded(change: Callable[[FakeStore], None]) -> None:
    store = FakeStore()
    store.commit([create("a", "b", "c", "d", "e")])
    async with serving(store) as authorizer:
        old = authorizer.image
        store.notify_lost = True
        change(store)
        store.hang("slice")
        await until(lambda: authorizer.readiness.state is State.LAGGING, 1.1)
        await asyncio.sleep(3)
        # The old image serves on until the new one is whole.
        assert authorizer.image is old
        assert may_read(authorizer, "a")
        assert authorizer.readiness.ready()
        store.release("slice")
        await until_ready(authorizer)
        assert names_in(authorizer.image) == names_of(store)
        assert (authorizer.image.epoch, authorizer.image.offset) == (store.epoch, store.tables.last_offset)
        assert authorizer.metrics.feed_mismatches_total == 1
        assert authorizer.metrics.loads_total == 2
        assert old.index is not authorizer.image.index
        await until(lambda: not old.index.table.names)


@in_virtual_time
async def test_trimming_up_to_the_image_needs_no_reload() -> None:
    store = FakeStore()
    store.commit([create("a", "b")])
    async with serving(store) as authorizer:
        store.trim(2)
        await asyncio.sleep(5)
        store.commit([create("c")])
        await until(lambda: may_read(authorizer, "c"))
        assert authorizer.metrics.loads_total == 1


@in_virtual_time
async def test_a_reload_that_fails_is_tried_again_beside_the_old_image() -> None:
    store = FakeStore()
    store.commit([create(*map(str, range(30)))])
    async with serving(store) as authorizer:
        store.restore(20)
        store.fail_after_slices = 0
        await until(lambda: authorizer.metrics.load_failures_total > 5)
        assert authorizer.readiness.state is State.LAGGING
        assert may_read(authorizer, "29")
        store.fail_after_slices, back_at = None, now()
        await until_ready(authorizer)
        assert now() - back_at < 2
        assert names_in(authorizer.image) == names_of(store)


@in_virtual_time
async def test_a_store_whose_head_contradicts_its_records_is_not_reloaded_in_a_frenzy() -> None:
    store = FakeStore()
    store.commit([create("a")])
    async with serving(store) as authorizer:
        store.wrong_hash = b"nothing fits"
        await until(lambda: now() > 60, 120)
        assert authorizer.readiness.state is State.LAGGING
        assert may_read(authorizer, "a")
        assert 5 < authorizer.metrics.load_failures_total < 20
        store.wrong_hash = None
        await until_ready(authorizer)


@in_virtual_time
async def test_a_transaction_too_large_for_one_step_comes_by_a_snapshot() -> None:
    store = FakeStore()
    async with serving(store, replace(OPTIONS, max_step_records=10)) as authorizer:
        store.commit([create(*map(str, range(11)))])
        await until(lambda: authorizer.image.offset == 11)
        assert authorizer.metrics.loads_total == 2
        assert authorizer.metrics.transactions_applied_total == 0
        store.commit([delete(*map(str, range(10)))])
        await until(lambda: authorizer.image.offset == 21)
        assert authorizer.metrics.loads_total == 2


# the store is away


@in_virtual_time
async def test_without_the_store_it_serves_on_and_says_how_old_it_is() -> None:
    store = FakeStore()
    store.commit([create("a")])
    async with serving(store) as authorizer:
        store.unreachable = True
        await until(lambda: authorizer.readiness.state is State.LAGGING, 1.1)
        began_at = now()
        while now() < began_at + 20:
            assert may_read(authorizer, "a")
            assert authorizer.readiness.ready()
            await asyncio.sleep(0.1)
        assert 20 < authorizer.readiness.age_s < 22
        assert authorizer.metrics.poll_failures_total < 60
        store.unreachable, back_at = False, now()
        store.commit([create("b")])
        await until(lambda: may_read(authorizer, "b"))
        assert now() - back_at < 1
        await until_ready(authorizer)
        assert authorizer.readiness.age_s < 0.1
        assert authorizer.metrics.loads_total == 1


@in_virtual_time
async def test_a_store_that_hangs_is_noticed_and_come_back_to() -> None:
    store = FakeStore()
    store.commit([create("a")])
    async with serving(store) as authorizer:
        store.hang("poll")
        await until(lambda: authorizer.readiness.state is State.LAGGING, 3.1)
        assert "no answer in time" in str(authorizer.readiness.checks())
        await asyncio.sleep(20)
        assert may_read(authorizer, "a")
        store.release("poll")
        back_at = now()
        await until_ready(authorizer)
        assert now() - back_at < 2


@in_virtual_time
async def test_looks_that_never_end_are_replaced_by_a_snapshot_which_comes_in_parts() -> None:
    store = FakeStore()
    store.commit([create("a")])
    async with serving(store) as authorizer:
        feed = authorizer._loader._feed
        ask = feed.poll

        async def slow(applied_offset: int, limit: int) -> object:
            if applied_offset == 1 < store.tables.last_offset:
                await asyncio.sleep(60)
            return await ask(applied_offset, limit)

        feed.poll = slow  # type: ignore[method-assign,assignment]  # a look that takes too long for its size
        store.commit([create("b")])
        await until(lambda: may_read(authorizer, "b"))
        assert authorizer.metrics.loads_total == 2
        assert authorizer.metrics.poll_failures_total == 3


@in_virtual_time
async def test_troubles_are_logged_when_they_begin_and_end_not_at_every_try(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "klamm.loader")
    store = FakeStore()
    async with serving(store) as authorizer:
        caplog.clear()
        store.unreachable = True
        await asyncio.sleep(30)
        store.unreachable = False
        await until_ready(authorizer)
    assert [record.message for record in caplog.records] == ["feed_in_trouble", "feed_recovered"]


# records that can't be applied


@in_virtual_time
async def test_a_poisoned_record_freezes_at_the_last_good_offset() -> None:
    store = FakeStore()
    store.commit([create("a")])
    async with serving(store) as authorizer:
        store.poisoned_snapshot = True
        store.poisoned_offset = 4
        store.notify_lost = True
        store.commit([create("b")])
        store.commit([create("c")])
        store.commit([create("d")])
        store.commit([create("e")])
        store.disconnect()
        await until(lambda: authorizer.readiness.state is State.LAGGING)
        await asyncio.sleep(20)
        assert authorizer.image.offset == 3
        assert names_in(authorizer.image) == ["a", "b", "c"]
        assert authorizer.readiness.ready()
        assert "record 4" in str(authorizer.readiness.checks()) or "snapshot" in str(authorizer.readiness.checks())
        assert authorizer.metrics.poisoned_records_total > 2
        store.poisoned_offset = None
        await until_ready(authorizer)
        assert authorizer.image.offset == 5
        assert authorizer.metrics.loads_total == 1


@in_virtual_time
async def test_a_poisoned_record_within_a_transaction_leaves_nothing_of_it() -> None:
    store = FakeStore()
    store.commit([create("a")])
    async with serving(store) as authorizer:
        store.poisoned_snapshot = True
        store.poisoned_offset = 4
        store.commit([create("b", "c", "d")])
        await asyncio.sleep(5)
        assert names_in(authorizer.image) == ["a"]
        assert authorizer.image.offset == 1


@in_virtual_time
async def test_a_sound_table_heals_a_poisoned_feed() -> None:
    store = FakeStore()
    store.commit([create("a")])
    async with serving(store) as authorizer:
        store.poisoned_offset = 2
        store.commit([create("b")])
        await until(lambda: may_read(authorizer, "b"), 2)
        await until_ready(authorizer)
        assert authorizer.metrics.loads_total == 2
        assert authorizer.metrics.poisoned_records_total == 1
        store.commit([create("c")])
        await until(lambda: may_read(authorizer, "c"))


@in_virtual_time
async def test_while_a_record_stays_poisoned_snapshots_become_seldom_but_looks_do_not() -> None:
    store = FakeStore()
    store.commit([create("a")])
    async with serving(store) as authorizer:
        store.poisoned_snapshot, store.poisoned_offset = True, 2
        store.commit([create("b")])
        await asyncio.sleep(300)
        assert authorizer.metrics.load_failures_total < 25
        assert authorizer.metrics.poll_failures_total > 300
        store.unreachable = True
        await asyncio.sleep(30)
        store.unreachable, store.poisoned_offset = False, None
        back_at = now()
        await until_ready(authorizer)
        assert now() - back_at < 2


@in_virtual_time
async def test_a_record_that_can_not_follow_the_image_is_never_half_applied() -> None:
    store = FakeStore()
    store.commit([create("a")])
    async with serving(store) as authorizer:
        first = store.tables.records[0]
        assert isinstance(first, AccessControlEntryRecord)
        store.poisoned_snapshot = True
        sound = replace(first, acl=replace(first.acl, binding=replace(first.acl.binding, resource_name="b")))
        store.append(store.chained([sound, first]))
        await asyncio.sleep(5)
        assert names_in(authorizer.image) == ["a"]
        assert authorizer.readiness.state is State.LAGGING
        assert "is there already" in str(authorizer.readiness.checks()) or authorizer.metrics.load_failures_total


@in_virtual_time
async def test_a_broken_hash_chain_is_poison() -> None:
    store = FakeStore()
    store.commit([create("a")])
    async with serving(store) as authorizer:
        store.poisoned_snapshot = True
        store.commit([create("b")])
        store.tables.records[-1] = replace(store.tables.records[-1], actor="User:mallory")
        await asyncio.sleep(5)
        assert names_in(authorizer.image) == ["a"]
        assert authorizer.metrics.poisoned_records_total > 0


@in_virtual_time
async def test_a_head_without_its_records_is_damage() -> None:
    store = FakeStore()
    store.commit([create("a")])
    async with serving(store) as authorizer:
        authorizer._loader._feed._behind = lambda *_: []  # type: ignore[attr-defined]  # the fake loses the tail
        store.poisoned_snapshot = True
        store.commit([create("b")])
        await until(lambda: "record is missing" in str(authorizer.readiness.checks()))
        assert authorizer.readiness.ready()


@in_virtual_time
async def test_an_image_lost_to_a_fault_of_ours_is_not_decided_on(monkeypatch: pytest.MonkeyPatch) -> None:
    store = FakeStore()
    store.commit([create("a")])
    async with serving(store) as authorizer:
        store.hang("slice")

        def crash(_: AuthorizerImage, __: object) -> AuthorizerImage:
            raise ZeroDivisionError("planted")

        monkeypatch.setattr(AuthorizerImage, "apply", crash)
        store.commit([create("b")])
        await until(lambda: not authorizer.readiness.ready())
        monkeypatch.undo()
        assert authorizer.readiness.state is State.LOADING
        assert authorizer.readiness.started
        assert may_read(authorizer, "a", "User:root")
        assert authorizer.acl_count() == -1
        store.release("slice")
        await until_ready(authorizer)
        assert names_in(authorizer.image) == ["a", "b"]


# closing, and small print


@in_virtual_time
async def test_closing_stops_looking_and_survives_a_feed_that_fails_or_hangs(caplog: pytest.LogCaptureFixture) -> None:
    store = FakeStore()
    async with serving(store) as authorizer:
        store.hang("close")
        began_at = now()
        await authorizer.close()
        assert now() - began_at < 12
        assert [r.message for r in caplog.records if r.levelno >= logging.ERROR] == [
            "store_not_closed",
            "feed_not_closed",
        ]
        polls = authorizer.metrics.polls_total
        await asyncio.sleep(10)
        assert authorizer.metrics.polls_total == polls
        assert may_read(authorizer, "a", "User:root")
        store.release("close")


@in_virtual_time
async def test_closing_while_an_old_image_is_freed_is_fine() -> None:
    class Endless(AclIndex):
        def dismantle(self) -> Iterator[None]:
            yield from itertools.repeat(None)

    async with serving(FakeStore()) as authorizer:
        authorizer._loader._free(Endless())
        await asyncio.sleep(0.1)
        assert authorizer._loader._freeing
        await authorizer.close()
        assert not authorizer._loader._freeing


@in_virtual_time
async def test_close_before_open_is_fine() -> None:
    await replica(FakeStore()).close()


@in_virtual_time
async def test_a_short_bound_on_staleness_makes_looks_more_frequent() -> None:
    store = FakeStore()
    startup = AuthorizerConfig(max_staleness_ms=300)
    async with running(replica(store, startup=startup)) as authorizer:
        await until_ready(authorizer)
        began_at = now()
        while now() < began_at + 5:
            assert authorizer.readiness.state is State.READY
            await asyncio.sleep(0.01)


@in_virtual_time
async def test_reloads_leave_collection_on() -> None:
    store = FakeStore()
    async with serving(store) as authorizer:
        for _ in range(3):
            epoch = authorizer.image.epoch
            store.restore(0)
            store.commit([create("a")])
            await until(lambda: authorizer.image.epoch != epoch)  # noqa: B023 - awaited within the turn
        assert gc.isenabled()
