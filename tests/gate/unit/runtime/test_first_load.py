"""The initial load: never ready from half of it, ready by itself once it can be had."""

import asyncio
import gc
import itertools
from dataclasses import replace

import pytest

from app.core.kafka.configs import AuthorizerConfig
from app.core.kafka.errors import AuthorizerNotReadyException
from app.core.mutations import AlterConfigs
from app.core.records import FeedPoll
from app.runtime.readiness import State
from tests.fakes import FakeStore, Step
from tests.klamm import until
from tests.virtual_time import in_virtual_time, now
from tests.world import (
    ALICE,
    OPTIONS,
    STARTUP,
    acl,
    authorizer_on,
    create,
    delete,
    may_read,
    names_in,
    names_of,
    until_ready,
)

EVERYONE = AuthorizerConfig(super_users=frozenset({"User:admin"}), allow_everyone_if_no_acl_found=True)


def filled(count: int = 30) -> FakeStore:
    store = FakeStore()
    store.rows_per_slice = 10
    store.commit([create(*(f"t{number:03}" for number in range(count)))])
    return store


@in_virtual_time
async def test_the_image_after_the_load_equals_the_store() -> None:
    store = filled()
    store.commit([AlterConfigs([("super.users", "User:eve")], "User:admin")])
    async with authorizer_on(store, OPTIONS, ready=False) as authorizer:
        assert authorizer.readiness.state is State.LOADING
        await until_ready(authorizer)
        image = authorizer.image
        assert (image.epoch, image.offset, image.hash) == (store.epoch, 31, store.tables.hash)
        assert image.cluster_id == "fake-cluster"
        assert names_in(image) == names_of(store)
        assert image.config.super_users == {"User:eve"}
        assert may_read(authorizer, "t001")
        assert not may_read(authorizer, "t999")
        assert authorizer.metrics.image_loads == 1
        assert authorizer.metrics.acls_being_loaded == 0


@in_virtual_time
async def test_an_empty_store_is_a_state_too() -> None:
    async with authorizer_on(FakeStore(), OPTIONS, ready=False) as authorizer:
        await until_ready(authorizer)
        assert authorizer.image.offset == 0
        assert authorizer.image.acl_count == 0


@pytest.mark.parametrize("startup", [STARTUP, EVERYONE])
@in_virtual_time
async def test_without_the_store_only_super_users_pass_and_it_loads_by_itself_later(startup: AuthorizerConfig) -> None:
    store = filled()
    store.unreachable = True
    async with authorizer_on(store, OPTIONS, startup=startup, ready=False) as authorizer:
        await until(lambda: now() > 20)
        assert authorizer.readiness.state is State.LOADING
        assert not authorizer.readiness.ready()
        assert not authorizer.readiness.started
        assert authorizer.image.acl_count == -1
        assert may_read(authorizer, "anything", "User:admin")
        with pytest.raises(AuthorizerNotReadyException):
            authorizer.rights.authorization(ALICE)
        store.unreachable, back_at = False, now()
        await until_ready(authorizer)
        assert now() - back_at < 2
        assert may_read(authorizer, "t001")
        assert authorizer.readiness.started


@pytest.mark.parametrize("slices", [0, 1, 2])
@in_virtual_time
async def test_a_load_that_fails_half_way_never_becomes_ready(slices: int) -> None:
    store = filled()
    store.fail_after_slices = slices
    async with authorizer_on(store, OPTIONS, ready=False) as authorizer:
        await until(lambda: authorizer.metrics.image_load_failures > 10)
        assert authorizer.readiness.state is State.LOADING
        assert authorizer.image.offset == -1
        with pytest.raises(AuthorizerNotReadyException):
            authorizer.rights.authorization(ALICE)
        store.fail_after_slices = None
        await until_ready(authorizer)
        assert names_in(authorizer.image) == names_of(store)


@in_virtual_time
async def test_failed_loads_back_off() -> None:
    store = filled()
    store.unreachable = True
    async with authorizer_on(store, OPTIONS, ready=False) as authorizer:
        await until(lambda: now() > 10)
        assert 15 < authorizer.metrics.image_load_failures < 30


@pytest.mark.parametrize("step", ["snapshot", "slice", "poll"])
@in_virtual_time
async def test_a_load_that_hangs_is_given_up_and_tried_again(step: Step) -> None:
    store = filled()
    store.hang(step)
    async with authorizer_on(store, OPTIONS, ready=False) as authorizer:
        await until(lambda: authorizer.metrics.image_load_failures > 1, limit_s=120)
        assert not authorizer.readiness.ready()
        store.release(step)
        await until_ready(authorizer)


@in_virtual_time
async def test_a_poisoned_snapshot_never_becomes_ready() -> None:
    store = filled()
    store.poisoned_snapshot = True
    async with authorizer_on(store, OPTIONS, ready=False) as authorizer:
        await until(lambda: now() > 30)
        assert authorizer.readiness.state is State.LOADING
        assert "can't be read" in str(authorizer.readiness.checks())
        assert authorizer.metrics.records_poisoned > 10
        store.poisoned_snapshot = False
        await until_ready(authorizer)


@in_virtual_time
async def test_it_is_ready_only_at_the_high_watermark_of_its_start() -> None:
    store = filled()
    async with authorizer_on(store, OPTIONS, ready=False) as authorizer:
        store.hang("slice")
        await until(lambda: now() > 0.1)
        store.commit([create("late"), delete("t001")])
        offset = store.tables.last_offset
        store.hang("poll")
        store.release("slice")
        await until(lambda: now() > 0.2)
        assert not authorizer.readiness.ready()
        store.release("poll")
        await until_ready(authorizer)
        assert authorizer.image.offset == offset
        assert authorizer.metrics.transactions_applied == 0
        assert "late" in names_in(authorizer.image)
        assert "t001" not in names_in(authorizer.image)


@in_virtual_time
async def test_many_transactions_during_the_load_are_caught_up_with_before_it_counts() -> None:
    store = filled()
    async with authorizer_on(store, replace(OPTIONS, poll_records=3), ready=False) as authorizer:
        store.hang("slice")
        await until(lambda: now() > 0.1)
        for number in range(20):
            store.commit([create(f"late-{number}")])
        store.release("slice")
        await until_ready(authorizer)
        assert authorizer.image.offset == 50
        assert authorizer.metrics.transactions_applied == 0


@in_virtual_time
async def test_a_failover_during_the_load_fails_it_and_the_next_load_holds_the_new_state() -> None:
    store = filled()
    async with authorizer_on(store, OPTIONS, ready=False) as authorizer:
        store.hang("slice")
        await until(lambda: now() > 0.1)
        store.restore(0)
        store.commit([create("other")])
        store.release("slice")
        await until_ready(authorizer)
        assert authorizer.metrics.image_load_failures == 1
        assert names_in(authorizer.image) == ["other"]


@in_virtual_time
async def test_a_record_that_is_poisoned_right_behind_the_snapshot_does_not_make_it_ready_too_soon() -> None:
    store = filled()
    async with authorizer_on(store, OPTIONS, ready=False) as authorizer:
        store.hang("slice")
        await until(lambda: now() > 0.1)
        store.poisoned_offset = 31
        store.commit([create("late")])
        store.release("slice")
        await until_ready(authorizer)
        assert "late" in names_in(authorizer.image)
        assert authorizer.metrics.image_load_failures == 1


@in_virtual_time
async def test_collection_is_off_while_loading_and_the_image_is_frozen_afterwards() -> None:
    store = filled()
    frozen = gc.get_freeze_count()
    async with authorizer_on(store, OPTIONS, ready=False) as authorizer:
        store.hang("slice")
        await until(lambda: now() > 0.1)
        assert not gc.isenabled()
        store.release("slice")
        await until_ready(authorizer)
        assert gc.isenabled()
        assert gc.get_freeze_count() > frozen


@in_virtual_time
async def test_a_fault_that_nobody_foresaw_is_survived() -> None:
    store = filled()
    store.poll_fault = ZeroDivisionError("planted")
    async with authorizer_on(store, OPTIONS, ready=False) as authorizer:
        await until(lambda: now() > 5)
        assert authorizer.readiness.state is State.LOADING
        assert "see the log" in str(authorizer.readiness.checks())
        store.poll_fault = None
        await until_ready(authorizer)


@in_virtual_time
async def test_closing_within_a_load_ends_it() -> None:
    store = filled()
    store.hang("slice")
    async with authorizer_on(store, OPTIONS, ready=False) as authorizer:
        await until(lambda: now() > 0.1)
    assert not authorizer.readiness.started
    assert store.closed == ["store", "feed"]
    assert gc.isenabled()


@in_virtual_time
async def test_the_snapshot_is_one_state_whatever_is_committed_meanwhile() -> None:
    store = filled()
    async with authorizer_on(store, OPTIONS, ready=False) as authorizer:
        store.hang("slice")
        await until(lambda: now() > 0.1)
        store.commit([delete("t029")])
        store.release("slice")
        await until_ready(authorizer)
        assert authorizer.image.index.find(acl("t029")) is None
        assert authorizer.image.index.find(acl("t028")) is not None


@in_virtual_time
async def test_a_load_tells_the_images_age_even_before_the_next_look(monkeypatch: pytest.MonkeyPatch) -> None:
    store = filled()
    async with authorizer_on(
        store, OPTIONS, startup=replace(STARTUP, max_staleness_ms=1000), ready=False
    ) as authorizer:
        store.hang("slice")
        await until(lambda: now() > 5)
        feed = authorizer._loader._feed
        ask, asked = feed.poll, itertools.count()

        async def only_once(applied_offset: int, limit: int) -> FeedPoll:
            if next(asked):
                await asyncio.sleep(60)
            return await ask(applied_offset, limit)

        monkeypatch.setattr(feed, "poll", only_once)
        store.release("slice")
        await until(lambda: authorizer.readiness.started)
        assert authorizer.readiness.state is State.READY
        assert authorizer.readiness.age_s < 0.1
