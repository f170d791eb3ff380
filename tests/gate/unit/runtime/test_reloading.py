"""A feed that is not the image's any more: a fresh snapshot beside the image in use, swapped in whole."""

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from uuid import UUID

import pytest

from app.core.image import AuthorizerImage
from app.core.index.tree import AclIndex
from app.runtime.readiness import State
from tests.fakes import FakeStore
from tests.klamm import until
from tests.virtual_time import in_virtual_time, now
from tests.world import OPTIONS, authorizer_on, create, delete, may_read, names_in, names_of, until_ready


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


@in_virtual_time
async def test_another_history_is_noticed_at_the_next_look_and_reloaded(subtests: pytest.Subtests) -> None:
    for change, why in [
        (other_epoch, "is not a part of"),
        (same_offset_other_history, "a different history"),
        (gone_back, "is not a part of"),
        (ahead_with_another_history, "a different history"),
        (trimmed, "trimmed"),
        (trimmed_wholly, "trimmed"),
        (record_gone, "is gone"),
    ]:
        with subtests.test(change=change, why=why):
            store = FakeStore()
            store.commit([create("a", "b", "c", "d", "e")])
            async with authorizer_on(store, OPTIONS) as authorizer:
                old = authorizer.image
                store.notify_lost = True
                change(store)
                store.hang("slice")
                await until(lambda: authorizer.readiness.state is State.LAGGING, limit_s=1.1)
                assert why in str(authorizer.readiness.checks())
                await asyncio.sleep(3)
                # The old image serves on until the new one is whole.
                assert authorizer.image is old
                assert may_read(authorizer, "a")
                assert authorizer.readiness.ready()
                store.release("slice")
                await until_ready(authorizer)
                assert names_in(authorizer.image) == names_of(store)
                assert (authorizer.image.epoch, authorizer.image.offset) == (store.epoch, store.tables.last_offset)
                assert authorizer.metrics.feed_mismatches == 1
                assert authorizer.metrics.image_loads == 2
                assert old.index is not authorizer.image.index
                await until(partial(_holds_nothing, old))


def _holds_nothing(image: AuthorizerImage) -> bool:
    return not image.index.table.names


@in_virtual_time
async def test_trimming_up_to_the_image_needs_no_reload() -> None:
    store = FakeStore()
    store.commit([create("a", "b")])
    async with authorizer_on(store, OPTIONS) as authorizer:
        store.trim(2)
        await asyncio.sleep(5)
        store.commit([create("c")])
        await until(lambda: may_read(authorizer, "c"))
        assert authorizer.metrics.image_loads == 1


@in_virtual_time
async def test_a_reload_that_fails_is_tried_again_beside_the_old_image() -> None:
    store = FakeStore()
    store.commit([create(*map(str, range(30)))])
    async with authorizer_on(store, OPTIONS) as authorizer:
        store.restore(20)
        store.fail_after_slices = 0
        await until(lambda: authorizer.metrics.image_load_failures > 5)
        assert authorizer.readiness.state is State.LAGGING
        assert may_read(authorizer, "29")
        store.fail_after_slices, back_at = None, now()
        await until_ready(authorizer)
        assert now() - back_at < 2
        assert names_in(authorizer.image) == names_of(store)


@in_virtual_time
async def test_a_feed_that_says_itself_when_a_snapshot_is_needed_is_polled_after_a_failure() -> None:
    """It may go on from the image by now, from another service: a snapshot would be in vain."""
    store = FakeStore()
    store.commit([create("first")])
    async with authorizer_on(store, OPTIONS) as authorizer:
        feed = next(each for each in store._feeds if each.polls)
        feed.is_resumed_at_once = True
        epochs, store.fail_after_slices = store.epochs, 0
        store.epoch = UUID(int=7)
        await until(lambda: authorizer.metrics.image_load_failures == 1)
        assert feed.rewound[-1] == feed.resumed[-1].offset == authorizer.image.offset
        store.epochs = epochs
        store.commit([create("later")])
        await until(lambda: may_read(authorizer, "later"))
        assert (authorizer.metrics.image_loads, authorizer.metrics.image_load_failures) == (1, 1)


@in_virtual_time
async def test_a_store_whose_head_contradicts_its_records_is_not_reloaded_in_a_frenzy() -> None:
    store = FakeStore()
    store.commit([create("a")])
    async with authorizer_on(store, OPTIONS) as authorizer:
        store.wrong_hash = b"nothing fits"
        await until(lambda: now() > 60, limit_s=120)
        assert authorizer.readiness.state is State.LAGGING
        assert may_read(authorizer, "a")
        assert 5 < authorizer.metrics.image_load_failures < 20
        store.wrong_hash = None
        await until_ready(authorizer)


@in_virtual_time
async def test_a_transaction_too_large_for_one_step_comes_by_a_snapshot() -> None:
    store = FakeStore()
    async with authorizer_on(store, replace(OPTIONS, max_step_records=10)) as authorizer:
        store.commit([create(*map(str, range(11)))])
        await until(lambda: authorizer.image.offset == 11)
        assert authorizer.metrics.image_loads == 2
        assert authorizer.metrics.transactions_applied == 0
        store.commit([delete(*map(str, range(10)))])
        await until(lambda: authorizer.image.offset == 21)
        assert authorizer.metrics.image_loads == 2


@in_virtual_time
async def test_what_a_failed_load_had_built_is_freed_in_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    freed: list[int] = []
    dismantle = AclIndex.dismantle

    def counted(index: AclIndex) -> Iterator[None]:
        freed.append(len(index))
        return dismantle(index)

    monkeypatch.setattr(AclIndex, "dismantle", counted)
    store = FakeStore()
    store.rows_per_slice = 10
    store.commit([create(*map(str, range(30)))])
    async with authorizer_on(store, OPTIONS) as authorizer:
        assert freed == [0]
        store.epoch = UUID(int=7)
        store.fail_after_slices = 2
        await until(lambda: authorizer.metrics.image_load_failures > 0)
        store.fail_after_slices = None
        await until_ready(authorizer)
        await until(lambda: not authorizer._loader._freeing)
    assert freed[1:] == [20] * authorizer.metrics.image_load_failures + [30]
