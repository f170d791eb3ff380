"""The watch stream of a replica: whole, in order, proved by its hashes, exact from the first byte."""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from dataclasses import replace
from datetime import timedelta

import pytest

from app.core.kafka.bindings import NewAcl
from app.core.kafka.errors import (
    AuthorizerNotReadyException,
    ClusterAuthorizationException,
    OffsetOutOfRangeException,
    OverloadedException,
)
from app.core.kafka.filters import AclBindingFilter
from app.core.mutations import AlterConfigs, CreateAcls
from app.core.records import FeedPoll
from app.core.token import Token
from app.formats.feed_events import Bookmark, End, Snapshot, Synced, Transaction, decode
from app.runtime.authorizer import Authorizer
from app.runtime.watch import image_parts, recent
from app.runtime.watch.lines import Part
from app.runtime.watch.reader import WatchRequest, watch
from tests.budgets import seeds
from tests.fakes import FakeStore
from tests.klamm import until
from tests.virtual_time import in_virtual_time, now
from tests.watching import Folded
from tests.world import OPTIONS, acl, authorizer_on, create, delete, named, unopened


async def anybody_may() -> None: ...


SNAPSHOT = WatchRequest(after=None, acl_filter=None, bookmark_s=5.0, may_watch=anybody_may)


def behind(store: FakeStore, offset: int) -> WatchRequest:
    return replace(SNAPSHOT, after=Token(store.epoch, offset))


class Reading:
    """A stream that a task folds; `held` is cleared to keep it from reading on."""

    def __init__(self, authorizer: Authorizer, request: WatchRequest) -> None:
        self.seen = Folded(filtered=request.acl_filter is not None)
        self.held = asyncio.Event()
        self.held.set()
        self._lines = watch(authorizer.watchers, request)

    async def run(self) -> None:
        async with aclosing(self._lines) as batches:
            async for lines in batches:
                self.seen.take_lines(line.json for line in lines)
                await self.held.wait()

    @property
    def offset(self) -> int:
        return -1 if self.seen.token is None else Token.parse(self.seen.token).offset


@asynccontextmanager
async def reading(authorizer: Authorizer, request: WatchRequest = SNAPSHOT) -> AsyncIterator[Reading]:
    it = Reading(authorizer, request)
    task = asyncio.create_task(it.run())
    try:
        yield it
    finally:
        task.cancel()
        await asyncio.wait([task])


def equals(seen: Folded, store: FakeStore) -> bool:
    return {each.id: each for each in store.tables.acls.values()} == seen.acls and seen.configs == store.tables.configs


@in_virtual_time
async def test_a_snapshot_and_every_change_behind_it() -> None:
    store = FakeStore()
    store.commit([create("a", "b"), AlterConfigs([("audit.level", "WARN")], "User:admin")])
    async with authorizer_on(store, OPTIONS) as authorizer, reading(authorizer) as it:
        for number in range(20):
            store.commit([create(f"new-{number}"), delete("a")])
        await until(lambda: it.offset == store.tables.last_offset)
        assert equals(it.seen, store)
        assert [replace(each, hash=b"") for each in store.tables.records[3:]] == it.seen.records
        assert authorizer.metrics.watch_readers == 1
    assert authorizer.metrics.watch_readers == 0


@in_virtual_time
async def test_a_change_is_seen_at_once() -> None:
    store = FakeStore()
    async with authorizer_on(store, OPTIONS) as authorizer, reading(authorizer) as it:
        await asyncio.sleep(3)
        began = now()
        store.commit([create("a")])
        await until(lambda: it.offset == 1)
        assert now() - began < 0.01


@in_virtual_time
async def test_a_waiting_reader_is_pushed_to_and_yields_what_is_not_taken() -> None:
    store = FakeStore()
    pushed: list[Part] = []
    takes = True

    def push(part: Part) -> bool:
        if takes:
            pushed.append(part)
            it.seen.take_lines(line.json for line in part.lines)
        return takes

    async with authorizer_on(store, OPTIONS) as authorizer, reading(authorizer, replace(SNAPSHOT, push=push)) as it:
        await until(lambda: it.offset == 0)
        for number in range(30):
            takes = number % 3 != 0
            store.commit([create(f"t{number}", f"u{number}")])
            await until(lambda: it.offset == store.tables.last_offset)
        assert len(pushed) == 20
        takes = True
        store.commit([create(*(f"{at}-{'x' * 200}" for at in range(400)))])
        await until(lambda: it.offset == store.tables.last_offset)
        assert len(pushed) == 20, "a part that is too long for one step was pushed"
        for name in ("one", "two", "three"):
            store.commit([create(name)])
        await until(lambda: it.offset == store.tables.last_offset)
        assert sum(len(part.lines) for part in pushed[20:]) == 3
        assert equals(it.seen, store)


@in_virtual_time
async def test_a_waiting_reader_is_pushed_its_bookmarks_and_yields_those_that_are_not_taken() -> None:
    store = FakeStore()
    pushed: list[str] = []
    takes = True

    def push(part: Part) -> bool:
        if takes:
            pushed.extend(line.event for line in part.lines)
            it.seen.take_lines(line.json for line in part.lines)
        return takes

    request = replace(SNAPSHOT, push=push, bookmark_s=1.0)
    async with authorizer_on(store, OPTIONS) as authorizer, reading(authorizer, request) as it:
        await asyncio.sleep(10.5)
        assert pushed == ["bookmark"] * 10
        for number in range(100):
            takes = number % 20 < 10
            store.commit([create(f"t{number}")])
            await asyncio.sleep(0.1)
        marks = [each for each in it.seen.events if isinstance(each, Bookmark)]
        assert 18 <= len(marks) <= 22
        assert 10 < pushed.count("bookmark") < len(marks)
        assert equals(it.seen, store)


@in_virtual_time
async def test_bookmarks_come_at_the_head_and_in_time_also_to_a_reader_that_is_shown_nothing() -> None:
    store = FakeStore()
    request = replace(SNAPSHOT, acl_filter=AclBindingFilter(principal="User:nobody"), bookmark_s=1.0)
    async with authorizer_on(store, OPTIONS) as authorizer, reading(authorizer, request) as it:
        for number in range(100):
            store.commit([create(f"t{number}")])
            await asyncio.sleep(0.1)
        marks = [each for each in it.seen.events if isinstance(each, Bookmark)]
        assert 9 <= len(marks) <= 12
        assert Token.parse(marks[-1].token).offset >= 90
        assert not any(isinstance(each, Transaction) for each in it.seen.events)


@in_virtual_time
async def test_events_say_what_time_it_is_in_the_store_at_most() -> None:
    store = FakeStore()
    store.clock_ahead = timedelta(hours=-1)
    async with (
        authorizer_on(store, OPTIONS) as authorizer,
        reading(authorizer, replace(SNAPSHOT, bookmark_s=1.0)) as it,
    ):
        await asyncio.sleep(60)
        store.unreachable = True
        await asyncio.sleep(60)
        said = [each.store_time for each in it.seen.events if isinstance(each, Snapshot | Synced | Bookmark)]
        assert len(said) > 100
        assert None not in said
        last = said[-1]
        assert last is not None
        assert timedelta(0) <= last - (store.now() - timedelta(seconds=1)) < timedelta(seconds=2)


@in_virtual_time
async def test_a_filter_shows_its_records_and_how_many_are_left_out() -> None:
    store = FakeStore()
    store.commit([create("mine", "other")])
    async with authorizer_on(store, OPTIONS) as authorizer:
        async with reading(authorizer, replace(SNAPSHOT, acl_filter=named("mine"))) as it:
            store.commit([delete("mine"), delete("other"), AlterConfigs([("audit.level", "WARN")], "User:admin")])
            await until(lambda: it.offset == 5)
        (transaction,) = [each for each in it.seen.events if isinstance(each, Transaction)]
        assert [each.kind for each in transaction.records] == ["RemoveAccessControlEntryRecord", "ConfigRecord"]
        assert (transaction.left_out, transaction.first_offset, transaction.last_offset) == (1, 3, 5)
        assert [each.offset for each in transaction.records] == [3, 5]


@pytest.mark.parametrize("in_memory", [True, False])
@in_virtual_time
async def test_a_reader_goes_on_from_its_token(in_memory: bool, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: FBT001
    if not in_memory:
        monkeypatch.setattr(recent, "MAX_RECORDS", 3)
    store = FakeStore()
    async with authorizer_on(store, OPTIONS) as authorizer:
        for number in range(1_200):
            store.commit([create(f"t{number}")])
        await until(lambda: authorizer.image.offset == 1_200)
        async with reading(authorizer, behind(store, 7)) as it:
            await until(lambda: it.offset == 1_200)
            transactions = [each for each in it.seen.events if isinstance(each, Transaction)]
            assert [each.first_offset for each in transactions] == list(range(8, 1_201))


@in_virtual_time
async def test_what_is_trimmed_is_refused_with_the_oldest_token() -> None:
    store = FakeStore()
    for number in range(11):
        store.commit([create(f"t{number}")])
    store.log_start_offset = 6
    async with authorizer_on(store, OPTIONS) as authorizer:
        with pytest.raises(OffsetOutOfRangeException) as refused:
            await anext(watch(authorizer.watchers, behind(store, 4)))
        assert refused.value.oldest_token == f"{store.epoch}:5"
        async with reading(authorizer, behind(store, 5)) as it:
            await until(lambda: it.offset == 11)


@in_virtual_time
async def test_nobody_is_shown_a_replica_that_has_not_loaded() -> None:
    store = FakeStore()
    store.unreachable = True
    with pytest.raises(AuthorizerNotReadyException):
        await anext(watch(unopened(store).watchers, SNAPSHOT))


@in_virtual_time
async def test_another_epoch_a_drain_and_a_lost_right_end_the_stream_with_its_token() -> None:
    store = FakeStore()
    allowed = True

    async def may_watch() -> None:
        if not allowed:
            raise ClusterAuthorizationException("no")

    async with (
        authorizer_on(store, OPTIONS) as authorizer,
        reading(authorizer) as it,
        reading(authorizer, replace(SNAPSHOT, may_watch=may_watch)) as watched,
    ):
        store.commit([create("a")])
        await until(lambda: it.offset == watched.offset == 1)
        allowed = False
        store.commit([create("secret")])
        await until(lambda: watched.seen.ended == "caller")
        assert watched.seen.token == f"{store.epoch}:1"
        assert len(watched.seen.records) == 1
        store.begin_epoch()
        await until(lambda: it.seen.ended == "reload")
        async with reading(authorizer) as other:
            await until(lambda: other.seen.token is not None)
            authorizer.watchers.drain()
            await until(lambda: other.seen.ended == "draining")


@in_virtual_time
async def test_a_stream_that_is_over_before_its_first_event_ends_in_words() -> None:
    store = FakeStore()
    refused = ClusterAuthorizationException("no")

    async def may_not() -> None:
        raise refused

    async with authorizer_on(store, OPTIONS) as authorizer:
        store.commit([create("a")])
        await until(lambda: authorizer.image.offset == 1)
        authorizer.watchers.drain()
        (line,) = await anext(watch(authorizer.watchers, behind(store, 0)))
        assert decode(line.json) == End(f"{store.epoch}:0", "draining")
        with pytest.raises(ClusterAuthorizationException):
            await anext(watch(authorizer.watchers, replace(behind(store, 0), may_watch=may_not)))


@in_virtual_time
async def test_a_page_of_older_records_may_take_longer_than_a_poll(monkeypatch: pytest.MonkeyPatch) -> None:
    store = FakeStore()
    store.commit([create("a")])
    read = store.feed.history

    async def slow(offset: int, limit: int) -> FeedPoll:
        await asyncio.sleep(OPTIONS.poll_timeout_s + 2.0)
        return await read(offset, limit)

    async with authorizer_on(store, OPTIONS) as authorizer:
        monkeypatch.setattr(authorizer.watchers._feed, "history", slow)
        async with reading(authorizer, behind(store, 0)) as it:
            await until(lambda: it.offset == 1)


@in_virtual_time
async def test_a_reader_that_does_not_read_is_cut_and_holds_nobody_up() -> None:
    store = FakeStore()
    async with authorizer_on(store, OPTIONS) as authorizer, reading(authorizer) as slow, reading(authorizer) as quick:
        await until(lambda: slow.offset == quick.offset == 0)
        slow.held.clear()
        for number in range(40):
            store.commit([create(*(f"{number}-{at}-{'x' * 200}" for at in range(100)))])
            await until(lambda: quick.offset == store.tables.last_offset)
        await asyncio.sleep(2)
        slow.held.set()
        await until(lambda: slow.seen.ended == "slow")
        assert slow.offset < quick.offset
        assert equals(quick.seen, store)


@in_virtual_time
async def test_too_many_snapshots_at_once_are_refused_and_the_others_come() -> None:
    store = FakeStore()
    async with authorizer_on(store, OPTIONS) as authorizer:
        first = [watch(authorizer.watchers, SNAPSHOT) for _ in range(4)]
        for each in first:
            await anext(each)
        with pytest.raises(OverloadedException):
            await anext(watch(authorizer.watchers, SNAPSHOT))
        await first[0].aclose()
        async with reading(authorizer) as it:
            await until(lambda: it.offset == 0)
        for each in first:
            await each.aclose()


@in_virtual_time
async def test_a_snapshot_is_exactly_its_token_whatever_changes_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(image_parts, "MAX_ACLS", 40)
    for seed in seeds("snapshots"):
        assert await is_exactly_its_token(random.Random(seed)), seed


async def is_exactly_its_token(draw: random.Random) -> bool:
    store = FakeStore()
    names = [f"t{number:03}" for number in range(300)]
    acls = [acl(name, f"User:{who}") for name in names for who in range(draw.choice((1, 4)))]
    store.commit([CreateAcls([NewAcl(each) for each in draw.sample(acls, len(acls) * 2 // 3)], "User:admin")])
    async with authorizer_on(store, OPTIONS) as authorizer:
        at_token = {each.id: each for each in store.tables.acls.values()}
        seen = Folded()
        async with aclosing(watch(authorizer.watchers, SNAPSHOT)) as batches:
            async for lines in batches:
                seen.take_lines(line.json for line in lines)
                if seen.token is not None:
                    break
                for _ in range(draw.randrange(3)):
                    some = draw.sample(acls, draw.randrange(1, 30))
                    creates = CreateAcls([NewAcl(each, owner=draw.choice("abc")) for each in some], "User:admin")
                    store.commit([creates if draw.random() < 0.5 else delete(*{each.resource_name for each in some})])
                await until(lambda: authorizer.image.offset == store.tables.last_offset)
            assert seen.acls == at_token
            async for lines in batches:
                seen.take_lines(line.json for line in lines)
                if seen.token == f"{store.epoch}:{store.tables.last_offset}":
                    break
        return equals(seen, store)


@in_virtual_time
async def test_a_long_transaction_is_encoded_as_one() -> None:
    store = FakeStore()
    async with (
        authorizer_on(store, replace(OPTIONS, max_step_records=100_000)) as authorizer,
        reading(authorizer) as it,
    ):
        await until(lambda: it.offset == 0)
        store.commit([create(*(f"t{at}" for at in range(3_000)))])
        await until(lambda: it.offset == 3_000)
        assert equals(it.seen, store)
