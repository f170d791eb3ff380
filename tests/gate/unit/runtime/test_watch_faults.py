"""What goes wrong, or takes long, with one reader or one transaction of watch holds up nothing else."""

import asyncio
import gc
import weakref
from collections.abc import Sequence
from dataclasses import replace
from uuid import UUID

import pytest

from app.core.records import Record
from app.formats.feed_events import Bookmark
from app.runtime.authorizer import Authorizer
from app.runtime.watch import recent
from app.runtime.watch.lines import Line, Part
from tests.fakes import FakeStore
from tests.gate.unit.runtime.test_watch import SNAPSHOT, equals, reading
from tests.klamm import until
from tests.virtual_time import in_virtual_time, now
from tests.world import OPTIONS, authorizer_on, create


@in_virtual_time
async def test_a_reader_that_cannot_be_pushed_to_holds_up_no_other() -> None:
    store = FakeStore()

    def broken(_: Part) -> bool:
        raise RuntimeError("a fault")

    async with (
        authorizer_on(store, OPTIONS) as authorizer,
        reading(authorizer, replace(SNAPSHOT, push=broken)) as first,
        reading(authorizer) as second,
    ):
        await until(lambda: first.offset == second.offset == 0)
        for number in range(1, 4):
            began = now()
            store.commit([create(f"t{number}")])
            await until(lambda: first.offset == second.offset == store.tables.last_offset)
            assert now() - began < 0.1, "it came with a bookmark's time only"
        assert equals(first.seen, store)
        assert equals(second.seen, store)


@in_virtual_time
async def test_bookmarks_come_while_a_long_transaction_is_encoded(monkeypatch: pytest.MonkeyPatch) -> None:
    store = FakeStore()
    encoded = recent.transaction_line

    async def slowly(epoch: UUID, records: Sequence[Record]) -> Line | None:
        await asyncio.sleep(10)
        return await encoded(epoch, records)

    def push(part: Part) -> bool:
        it.seen.take_lines(line.json for line in part.lines)
        return True

    async with (
        authorizer_on(store, OPTIONS) as authorizer,
        reading(authorizer, replace(SNAPSHOT, push=push, bookmark_s=1.0)) as it,
    ):
        await until(lambda: it.offset == 0)
        await asyncio.sleep(3)
        before = sum(isinstance(each, Bookmark) for each in it.seen.events)
        monkeypatch.setattr(recent, "transaction_line", slowly)
        store.commit([create("a")])
        await until(lambda: it.offset == 1)
        # Three that don't come are a broken connection.
        assert sum(isinstance(each, Bookmark) for each in it.seen.events) - before >= 8
        assert equals(it.seen, store)


@in_virtual_time
async def test_a_reader_that_does_not_keep_up_gets_the_changes_together_later() -> None:
    store = FakeStore()
    pushed: list[Part] = []
    keeps_up = True

    def push(part: Part) -> bool:
        pushed.append(part)
        it.seen.take_lines(line.json for line in part.lines)
        return True

    request = replace(SNAPSHOT, push=push, keeps_up=lambda: keeps_up, bookmark_s=1.0)
    async with (
        authorizer_on(store, OPTIONS) as authorizer,
        reading(authorizer, request) as it,
        reading(authorizer) as other,
    ):
        await until(lambda: it.offset == 0)
        keeps_up = False
        for number in range(20):
            store.commit([create(f"t{number}")])
            await until(lambda: other.offset == store.tables.last_offset)
        await asyncio.sleep(20)
        assert (it.offset, pushed) == (0, [])
        began, keeps_up = now(), True
        await until(lambda: it.offset == store.tables.last_offset)
        assert now() - began < 0.2, "it had to wait for the next change"
        assert [len(part.lines) for part in pushed[:1]] == [20]
        assert equals(it.seen, store)


@in_virtual_time
async def test_a_reader_that_falls_far_behind_sends_for_itself_where_it_can_be_cut() -> None:
    store = FakeStore()

    def push(_: Part) -> bool:
        raise AssertionError("it was pushed to")

    request = replace(SNAPSHOT, push=push, keeps_up=lambda: False)
    async with authorizer_on(store, OPTIONS) as authorizer, reading(authorizer, request) as it:
        await until(lambda: it.offset == 0)
        for number in range(8):
            store.commit([create(*(f"{number}-{at}-{'x' * 200}" for at in range(400)))])
        await until(lambda: it.offset > 0)


@in_virtual_time
async def test_a_reader_that_does_not_keep_up_for_long_sends_for_itself_however_little_there_is() -> None:
    store = FakeStore()

    def push(_: Part) -> bool:
        raise AssertionError("it was pushed to")

    request = replace(SNAPSHOT, push=push, keeps_up=lambda: False)
    async with authorizer_on(store, OPTIONS) as authorizer, reading(authorizer, request) as it:
        await until(lambda: it.offset == 0)
        began = now()
        store.commit([create("a")])
        await until(lambda: it.offset == 1)
        assert 30 < now() - began < 36


class _Push:
    def __call__(self, _: Part) -> bool:
        return True


@in_virtual_time
async def test_a_reader_that_leaves_is_no_garbage() -> None:
    store = FakeStore()

    async def read(authorizer: Authorizer) -> weakref.ref[_Push]:
        push = _Push()
        async with reading(authorizer, replace(SNAPSHOT, push=push)) as it:
            await until(lambda: it.offset == 0)
            store.commit([create("a")])
            await asyncio.sleep(10)
        return weakref.ref(push)

    gc.disable()
    try:
        async with authorizer_on(store, OPTIONS) as authorizer:
            left = await read(authorizer)
            await asyncio.sleep(1)
            assert left() is None
    finally:
        gc.enable()
