"""What a replica keeps of the feed in memory, with readers of watch and without."""

from collections.abc import Sequence
from uuid import UUID

import pytest

from app.core.records import Record
from app.runtime.watch import recent
from app.runtime.watch.lines import Line
from tests.chains import put
from tests.fakes import FakeStore
from tests.gate.unit.runtime.test_watch import behind, equals, reading
from tests.klamm import until
from tests.updates import topic
from tests.virtual_time import in_virtual_time
from tests.world import OPTIONS, authorizer_on, create


@in_virtual_time
async def test_transactions_are_encoded_only_for_readers_and_the_first_gets_those_from_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store, encoded = FakeStore(), list[int]()
    real = recent.transaction_line

    async def counted(epoch: UUID, records: Sequence[Record]) -> Line | None:
        encoded.append(records[-1].offset)
        return await real(epoch, records)

    monkeypatch.setattr(recent, "transaction_line", counted)
    async with authorizer_on(store, OPTIONS) as authorizer:
        memory = authorizer.watchers.recent
        for number in range(300):
            store.commit([create(f"t{number}")])
        await until(lambda: authorizer.metrics.feed_offset == 300)
        assert (encoded, memory.first, memory.is_encoded) == ([], 1, False)
        async with reading(authorizer, behind(store, 0)) as it:
            await until(lambda: it.offset == 300)
            assert equals(it.seen, store)
            store.commit([create("new")])
            await until(lambda: it.offset == 301)
        assert len(encoded) == 301, "a transaction was encoded twice, or never"
        store.commit([create("later")])
        await until(lambda: authorizer.metrics.feed_offset == 302)
        assert (len(encoded), memory.is_encoded) == (301, False)


@in_virtual_time
async def test_texts_that_are_not_encoded_are_bounded_like_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recent, "MAX_BYTES", 10_000)
    store = FakeStore()
    async with authorizer_on(store, OPTIONS) as authorizer:
        for number in range(50):
            store.commit([create(f"{number}-{'x' * 1_000}")])
        await until(lambda: authorizer.metrics.feed_offset == 50)
        assert 41 <= authorizer.watchers.recent.first <= 43
        async with reading(authorizer, behind(store, 10)) as it:
            await until(lambda: it.offset == 50)
        assert len(it.seen.records) == 40


async def test_what_follows_an_offset_counts_once_it_is_encoded_and_what_was_dropped_is_far_behind(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(recent, "MAX_RECORDS", 2)
    store, memory = FakeStore(), recent.RecentTransactions()
    assert not memory.has_after(0)
    for number in range(4):
        records = store.chained([put(topic(f"t{number}"), number)])
        store.append(records)
        memory.append(store.epoch, records, None)
    memory.trim(is_read=True)
    assert memory.first == 3
    assert [memory.has_after(offset) for offset in (2, 3, 4)] == [False, False, False]
    await memory.encode()
    assert [memory.has_after(offset) for offset in (2, 3, 4)] == [True, True, False]
    assert [memory.is_behind(offset, recent.MAX_BYTES) for offset in (0, 1, 2, 3, 4)] == [True, True, *[False] * 3]
    assert [memory.is_behind(offset, 0) for offset in (2, 3, 4)] == [True, False, False]
