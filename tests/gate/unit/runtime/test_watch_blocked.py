"""What can't be sent to readers of watch, they pass by a snapshot: transactions of before there was a bound."""

from dataclasses import replace

import pytest

from app.core.kafka.errors import OffsetOutOfRangeException, PoisonedRecordException, StoreUnavailableException
from app.core.kafka.filters import AclBindingFilter
from app.core.records import FeedPoll
from app.core.token import Token
from app.formats.feed_events import MAX_LINE_BYTES, Acls, encode
from app.runtime.authorizer import Authorizer
from app.runtime.watch import recent
from app.runtime.watch.reader import WatchRequest, watch
from tests.chains import put
from tests.fakes import FakeStore
from tests.gate.unit.runtime.test_watch import SNAPSHOT, behind, equals, reading
from tests.klamm import until
from tests.updates import topic
from tests.virtual_time import in_virtual_time
from tests.world import OPTIONS, authorizer_on, create, named


def write_too_long(store: FakeStore) -> int:
    """As a version without the bound did. Returns the transaction's last offset."""
    first = len(store.tables.acls)
    drafts = [put(topic(f"{number}" + "x" * 32_000), 1_000 + number) for number in range(first, first + 530)]
    store.append(store.chained(drafts))
    return store.tables.last_offset


async def refusal(authorizer: Authorizer, request: WatchRequest) -> OffsetOutOfRangeException:
    with pytest.raises(OffsetOutOfRangeException) as refused:
        await anext(watch(authorizer.watchers, request))
    return refused.value


@in_virtual_time
async def test_a_reader_passes_a_transaction_that_is_too_long_by_a_snapshot() -> None:
    store = FakeStore()
    async with authorizer_on(store, OPTIONS) as authorizer, reading(authorizer) as live:
        store.commit([create("before")])
        await until(lambda: live.offset == 1)
        last = write_too_long(store)
        store.commit([create("after")])
        await until(lambda: live.seen.ended is not None)
        assert (live.seen.ended, live.offset) == ("reload", 1)
        # Asked again, and again, it is told where it can go on.
        for offset in (1, 0, 1, last - 1):
            refused = await refusal(authorizer, behind(store, offset))
            assert refused.oldest_token == f"{store.epoch}:{last}"
            assert "too long" in refused.message
        async with reading(authorizer, behind(store, last)) as it, reading(authorizer) as fresh:
            await until(lambda: it.offset == fresh.offset == last + 1)
            store.commit([create("later")])
            await until(lambda: it.offset == fresh.offset == last + 2)
            assert equals(fresh.seen, store)


@in_virtual_time
@pytest.mark.parametrize("acl_filter", [None, named("matches")])
async def test_a_reader_that_catches_up_from_the_store_gets_what_is_before_it(
    acl_filter: AclBindingFilter | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recent, "MAX_RECORDS", 1)
    store = FakeStore()
    for number in range(600):
        store.commit([create(f"t{number}")])
    last = write_too_long(store)
    write_too_long(store)
    store.commit([create("after")])
    async with authorizer_on(store, OPTIONS) as authorizer:
        assert authorizer.watchers.recent.first > last
        request = replace(behind(store, 0), acl_filter=acl_filter)
        async with reading(authorizer, request) as it:
            await until(lambda: it.seen.ended is not None)
        assert it.seen.ended == "reload"
        assert it.offset == 600 if acl_filter is None else it.offset < 600
        # One that is shown nothing has no later token, but does not begin in vain a second time.
        assert (await refusal(authorizer, request)).oldest_token == f"{store.epoch}:{last}"
        # That one can't go on for long either, and learns so at once.
        assert (await refusal(authorizer, behind(store, last))).oldest_token == f"{store.epoch}:{last + 530}"


@in_virtual_time
async def test_a_snapshot_that_is_sent_meanwhile_is_followed_by_another() -> None:
    store = FakeStore()
    store.commit([create("a")])
    async with authorizer_on(store, OPTIONS) as authorizer, reading(authorizer) as it:
        it.held.clear()
        await until(lambda: it.seen.events != [])
        last = write_too_long(store)
        await until(lambda: authorizer.image.offset == last)
        it.held.set()
        await until(lambda: it.seen.ended is not None)
        assert (it.seen.ended, it.offset) == ("reload", 1)
        async with reading(authorizer) as again:
            await until(lambda: again.offset == last)
            assert equals(again.seen, store)


@in_virtual_time
async def test_just_as_long_as_the_bound_is_not_too_long() -> None:
    store = FakeStore()
    async with authorizer_on(store, OPTIONS) as authorizer, reading(authorizer) as live:
        await until(lambda: live.offset == 0)
        store.commit([create(*(f"{number:03d}" + "x" * 31_997 for number in range(522)))])
        await until(lambda: live.offset == 522)
        assert equals(live.seen, store)


@in_virtual_time
async def test_records_that_can_not_be_read_are_passed_by_a_snapshot(monkeypatch: pytest.MonkeyPatch) -> None:
    store = FakeStore()
    for number in range(3):
        store.commit([create(f"t{number}")])

    async def poisoned(_offset: int) -> FeedPoll:
        raise PoisonedRecordException(2, "planted")

    async def silent(_offset: int) -> FeedPoll:
        raise TimeoutError

    async with authorizer_on(store, OPTIONS) as authorizer:
        history = authorizer.watchers.history
        monkeypatch.setattr(authorizer.watchers, "history", silent)
        with pytest.raises(StoreUnavailableException):
            await anext(watch(authorizer.watchers, behind(store, 0)))
        monkeypatch.setattr(authorizer.watchers, "history", poisoned)
        refused = await refusal(authorizer, behind(store, 0))
        assert refused.oldest_token == f"{store.epoch}:3"
        async with reading(authorizer, replace(SNAPSHOT, after=Token.parse(refused.oldest_token))) as it:
            store.commit([create("after")])
            await until(lambda: it.offset == 4)
        # It is believed that it can't be read until the image is loaded again.
        monkeypatch.setattr(authorizer.watchers, "history", history)
        assert (await refusal(authorizer, behind(store, 0))).oldest_token == f"{store.epoch}:3"


@in_virtual_time
async def test_acls_with_long_names_come_in_more_events() -> None:
    store = FakeStore()
    store.append(store.chained([put(topic(f"{number:03d}" + "\1" * 32_000), number) for number in range(1, 100)]))
    async with authorizer_on(store, OPTIONS) as authorizer, reading(authorizer) as it:
        await until(lambda: it.offset == 99)
        parts = [event for event in it.seen.events if isinstance(event, Acls)]
        assert [len(part.acls) for part in parts] == [33, 33, 33]
        assert max(len(encode(part)) for part in parts) < MAX_LINE_BYTES // 16
        assert equals(it.seen, store)
