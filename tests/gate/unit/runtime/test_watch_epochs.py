"""The watch stream across epochs: a reader that knows of them goes on without a snapshot, any other one ends."""

import asyncio
from dataclasses import replace

import pytest

from app.core.epochs import Epochs
from app.core.kafka.errors import OffsetOutOfRangeException
from app.core.token import Token
from app.formats.feed_events import Bookmark, EpochBegan, Snapshot
from app.runtime.watch.lines import Part
from tests.fakes import FakeStore
from tests.gate.unit.runtime.test_watch import SNAPSHOT, Reading, behind, equals, reading
from tests.klamm import until
from tests.virtual_time import in_virtual_time
from tests.world import OPTIONS, authorizer_on, create, named

WITH_EPOCHS = replace(SNAPSHOT, with_epochs=True)


def begun(it: Reading) -> list[tuple[object, int]]:
    return [(each.epoch, each.first_offset) for each in it.seen.events if isinstance(each, EpochBegan)]


def rows(epochs: Epochs) -> list[tuple[object, int]]:
    return [(row.id, row.first_offset) for row in epochs.rows]


@in_virtual_time
async def test_reader_goes_on_where_an_epoch_begins() -> None:
    store = FakeStore()
    store.commit([create("a")])
    async with authorizer_on(store, OPTIONS) as authorizer, reading(authorizer, WITH_EPOCHS) as it:
        await until(lambda: it.offset == 1)
        for number in range(3):
            store.begin_epoch()
            if number:
                store.commit([create(f"b{number}")])
        await until(lambda: it.seen.token == str(Token(store.epoch, 3)))
        store.begin_epoch()
        await until(lambda: it.seen.token == str(Token(store.epoch, 3)), limit_s=10)
        assert begun(it) == rows(store.epochs)[1:]
        assert equals(it.seen, store)
        assert authorizer.metrics.image_loads == 1
        assert authorizer.image.epochs == store.epochs


@in_virtual_time
async def test_reader_that_knows_nothing_of_epochs_ends_there() -> None:
    store = FakeStore()
    store.commit([create("a")])
    async with authorizer_on(store, OPTIONS) as authorizer, reading(authorizer) as it:
        await until(lambda: it.offset == 1)
        store.begin_epoch()
        store.commit([create("b")])
        await until(lambda: it.seen.ended == "reload")
        assert it.offset == 1


@in_virtual_time
async def test_snapshot_has_the_epochs_of_its_history() -> None:
    store = FakeStore()
    store.commit([create("a")])
    store.begin_epoch()
    async with authorizer_on(store, OPTIONS) as authorizer, reading(authorizer, WITH_EPOCHS) as it:
        await until(lambda: it.offset == 1)
        (snapshot,) = [each for each in it.seen.events if isinstance(each, Snapshot)]
        assert [(each.epoch, each.first_offset) for each in snapshot.epochs] == rows(store.epochs)
        assert begun(it) == []


@pytest.mark.parametrize("where", ["memory", "the store"])
@in_virtual_time
async def test_token_of_an_older_epoch_is_followed(where: str) -> None:
    store = FakeStore()
    first = Token(store.epoch, 1)
    store.commit([create("a")])
    async with authorizer_on(store, OPTIONS) as authorizer:
        store.commit([create("b"), create("c")])
        store.begin_epoch()
        store.commit([create("d")])
        store.begin_epoch()
        await until(lambda: authorizer.image.epoch == store.epoch)
        if where == "the store":
            authorizer.watchers.recent.reset(authorizer.image)
        async with reading(authorizer, replace(WITH_EPOCHS, after=first)) as it:
            await until(lambda: it.seen.token == str(Token(store.epoch, 4)))
            assert begun(it) == rows(store.epochs)[1:]
            assert [each.offset for each in it.seen.records] == [2, 3, 4]


@in_virtual_time
async def test_token_from_before_its_epoch_began_is_followed_from_the_epoch_of_its_record() -> None:
    store = FakeStore()
    store.commit([create("a"), create("b")])
    store.begin_epoch()
    store.commit([create("c")])
    async with authorizer_on(store, OPTIONS) as authorizer:
        authorizer.watchers.recent.reset(authorizer.image)
        async with reading(authorizer, replace(WITH_EPOCHS, after=Token(store.epoch, 0))) as it:
            await until(lambda: it.offset == 3)
            assert [each.offset for each in it.seen.records] == [1, 2, 3]
            assert begun(it) == rows(store.epochs)[1:]


@in_virtual_time
async def test_nothing_is_pushed_across_the_begin_of_an_epoch() -> None:
    store = FakeStore()
    pushed: list[Part] = []

    def push(part: Part) -> bool:
        pushed.append(part)
        it.seen.take_lines(line.json for line in part.lines)
        return True

    async with authorizer_on(store, OPTIONS) as authorizer, reading(authorizer, replace(WITH_EPOCHS, push=push)) as it:
        await until(lambda: it.offset == 0)
        for number in range(10):
            store.commit([create(f"a{number}")])
            store.begin_epoch()
            store.commit([create(f"b{number}")])
            store.commit([create(f"c{number}")])
        await until(lambda: it.seen.token == str(Token(store.epoch, 30)))
        assert begun(it) == rows(store.epochs)[1:]
        assert equals(it.seen, store)


@in_virtual_time
async def test_filtered_reader_is_told_of_epochs() -> None:
    store = FakeStore()
    request = replace(WITH_EPOCHS, acl_filter=named("nothing"))
    async with authorizer_on(store, OPTIONS) as authorizer, reading(authorizer, request) as it:
        store.commit([create("a")])
        store.begin_epoch()
        store.commit([create("b")])
        await until(lambda: it.seen.token == str(Token(store.epoch, 2)), limit_s=10)
        assert begun(it) == rows(store.epochs)[1:]


@in_virtual_time
async def test_oldest_token_that_works_is_of_the_epoch_of_its_record() -> None:
    store = FakeStore()
    store.commit([create("a"), create("b")])
    store.commit([create("c")])
    first = Token(store.epoch, 3)
    store.begin_epoch()
    store.commit([create("d")])
    store.trim(4)
    async with authorizer_on(store, OPTIONS) as authorizer:
        with pytest.raises(OffsetOutOfRangeException) as refusal:
            async with reading(authorizer, replace(WITH_EPOCHS, after=Token(first.epoch, 1))) as it:
                await it.run()
        assert refusal.value.oldest_token == str(first)


@in_virtual_time
async def test_bookmark_of_a_reader_that_is_behind_does_not_make_its_state_fresh() -> None:
    store = FakeStore()
    for number in range(1_200):
        store.commit([create(f"t{number}")])
    async with authorizer_on(store, OPTIONS) as authorizer:
        authorizer.watchers.recent.reset(authorizer.image)
        await asyncio.sleep(300)
        async with reading(authorizer, behind(store, 0)) as it:
            await until(lambda: it.offset == 1_200)
            await until(lambda: isinstance(it.seen.events[-1], Bookmark))
            marks = [each for each in it.seen.events if isinstance(each, Bookmark)]
    assert Token.parse(marks[0].token).offset == 500
    assert marks[0].digest is None
    assert marks[0].age_ms > 200_000
    assert Token.parse(marks[-1].token).offset == 1_200
    assert marks[-1].age_ms < 5_000
