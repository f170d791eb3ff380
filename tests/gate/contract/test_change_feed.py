"""What runtime's `ChangeFeed` promises, of the fake and of PostgreSQL."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from itertools import pairwise
from uuid import uuid4

import pytest

from app.core.continuity import FeedPosition
from app.core.epochs import is_later, next_epoch
from app.core.kafka.bindings import StandardAcl
from app.core.kafka.codes import PatternType
from app.core.kafka.filters import AclBindingFilter
from app.core.records import GENESIS_HASH, AccessControlEntryRecord, Record
from tests.gate.contract.subject import Subject
from tests.updates import alter, create, delete, topic

LONG = 120.0
"""Seconds that no test waits for: a hint comes before."""

ODD_NAMES = (
    "tab\there",
    "new\nline",
    "carriage\rreturn",
    "back\\slash",
    "\\N",
    "\\.",
    "\\t",
    "ends with \\",
    "bell\x07 backspace\b feed\f vertical\v escape\x1b",
    "\x85 and \u2028 break lines elsewhere",
    "é",
    "e\u0301",
    "日本語",
    "\U0001f600",
    "'; DROP TABLE acl; --",
    '"quoted"',
    " leading and trailing ",
    "$1",
    "{a,b}",
    "NULL",
    "%_*?",
    "x" * 32_767,
    "\\" * 32_767,
    "é" * 16_383,
)


def offsets(records: Sequence[Record]) -> list[int]:
    return [record.offset for record in records]


async def test_an_empty_store_has_offset_0_and_the_genesis_hash(subject: Subject) -> None:
    poll = await subject.feed.poll(0, 10)

    assert (poll.head.last_offset, poll.head.log_start_offset) == (0, 1)
    assert poll.head.hash == poll.hash_at == GENESIS_HASH
    assert list(poll.records) == []
    assert poll.head.cluster_id
    async with subject.feed.snapshot() as reader:
        assert reader.head == poll.head
        assert reader.configs == {}
        assert [some async for some in reader.slices()] == []


async def test_a_poll_tells_the_hash_at_the_offset_and_what_follows(subject: Subject) -> None:
    for name in "abc":
        await subject.write(create(topic(name)))
    records = await subject.records()

    in_the_middle = await subject.feed.poll(1, 10)
    at_the_head = await subject.feed.poll(3, 10)

    assert in_the_middle.hash_at == records[0].hash
    assert list(in_the_middle.records) == records[1:]
    assert at_the_head.hash_at == at_the_head.head.hash == records[2].hash
    assert list(at_the_head.records) == []


async def test_history_is_what_a_poll_reads_and_keeps_no_poll_waiting(subject: Subject) -> None:
    for name in "abc":
        await subject.write(create(topic(name)))

    older, poll = await asyncio.gather(subject.feed.history(1, 10), subject.feed.poll(1, 10))
    page = await subject.feed.history(0, 2)

    assert (older.head, list(older.records)) == (poll.head, list(poll.records))
    assert offsets(page.records) == [1, 2]


async def test_an_offset_that_was_never_written_has_no_hash_and_no_records(subject: Subject) -> None:
    await subject.write(create(topic("a")))

    poll = await subject.feed.poll(7, 10)

    assert poll.hash_at is None
    assert list(poll.records) == []
    assert poll.head.last_offset == 1


async def test_a_limit_cuts_between_transactions_only(subject: Subject) -> None:
    await subject.write(create(topic("a"), topic("b")))
    await subject.write(create(topic("c")))
    await subject.write(create(topic("d"), topic("e"), topic("f")))

    async def seen(applied: int, limit: int) -> list[int]:
        return offsets((await subject.feed.poll(applied, limit)).records)

    assert await seen(0, 1) == [1, 2]
    assert await seen(0, 2) == [1, 2]
    assert await seen(0, 3) == [1, 2, 3]
    assert await seen(0, 5) == [1, 2, 3]
    assert await seen(0, 6) == [1, 2, 3, 4, 5, 6]
    assert await seen(3, 1) == [4, 5, 6]


@pytest.mark.upstream
async def test_a_snapshot_and_the_records_after_it_make_the_whole(subject: Subject) -> None:
    await subject.write(create(topic("a"), topic("b")))
    async with subject.feed.snapshot() as reader:
        await subject.write(create(topic("c")), delete(AclBindingFilter(resource_name="a")))
        acls = {acl.id: acl async for some in reader.slices() for acl in map(StandardAcl.from_row, some.rows)}
        head = reader.head

    assert head.last_offset == 2
    assert sorted(acl.binding.resource_name for acl in acls.values()) == ["a", "b"]
    poll = await subject.behind(head.last_offset, 2)
    assert poll.hash_at == head.hash
    assert offsets(poll.records) == [3, 4]


@pytest.mark.upstream
async def test_slices_hold_500_rows_at_most_and_keep_the_order(subject: Subject) -> None:
    await subject.write(create(*[topic(f"t{n:04}") for n in reversed(range(1_700))]))

    async with subject.feed.snapshot() as reader:
        slices = [some.rows async for some in reader.slices()]

    assert max(map(len, slices)) <= 500
    assert [row[5] for some in slices for row in some] == [f"t{n:04}" for n in range(1_700)]


@pytest.mark.upstream
async def test_a_snapshot_may_be_left_before_its_end(subject: Subject) -> None:
    await subject.write(create(*[topic(f"t{n}") for n in range(1_000)]))

    async with subject.feed.snapshot() as reader:
        async for _ in reader.slices():
            break
    async with subject.feed.snapshot() as unread:
        assert unread.head.last_offset == 1_000

    assert len(await subject.acls()) == 1_000


@pytest.mark.upstream
async def test_odd_names_come_through_snapshot_feed_and_filters_as_they_are(subject: Subject) -> None:
    bindings = [topic(name, f"User:{name[:1_000]}", PatternType.PREFIXED) for name in ODD_NAMES]

    await subject.write(create(*bindings))

    assert {acl.binding for acl in await subject.acls()} == set(bindings)
    records = await subject.records()
    made = [record.acl.binding for record in records if isinstance(record, AccessControlEntryRecord)]
    assert made == bindings
    await subject.write(*[delete(AclBindingFilter(resource_name=name)) for name in ODD_NAMES])
    assert await subject.acls() == []


async def test_odd_values_come_through_the_snapshot_as_they_are(subject: Subject) -> None:
    await subject.write(alter(("audit.level", "\\N\t\n")))
    async with subject.feed.snapshot() as reader:
        assert [some async for some in reader.slices()] == []
        assert reader.configs == {"audit.level": "\\N\t\n"}


async def test_an_epoch_is_renounced_for_a_record_that_the_store_does_not_hold(subject: Subject) -> None:
    await subject.write(create(topic("a")))
    await subject.write(create(topic("b")))
    born = await subject.head()
    first, second = await subject.records()

    for offset, known in ((1, first.hash), (2, second.hash), (0, GENESIS_HASH)):
        await subject.feed.begin_epoch_if_lost(FeedPosition(born.epoch, offset, known))
    assert await subject.head() == born

    epochs = [born.epoch]
    for offset, known in ((1, second.hash), (2, first.hash), (3, second.hash)):
        await subject.feed.begin_epoch_if_lost(FeedPosition(epochs[-1], offset, known))
        epochs.append((await subject.head()).epoch)
        # Once is enough: whoever comes second knows of the old epoch only.
        await subject.feed.begin_epoch_if_lost(FeedPosition(epochs[-2], offset, known))
    head = await subject.head()
    assert head == replace(born, epoch=epochs[-1], known_epochs=head.epochs)
    assert [is_later(later, earlier) for earlier, later in pairwise(epochs)] == [True] * 3


async def test_an_epoch_that_is_over_does_not_come_back(subject: Subject) -> None:
    await subject.write(create(topic("a")))
    over = await subject.head()
    present = next_epoch(datetime(2100, 1, 1, tzinfo=UTC), [over.epoch], uuid4())

    await subject.feed.begin_epoch_if_lost(FeedPosition(present, 1, over.hash))

    head = await subject.head()
    assert head == replace(over, epoch=head.epoch, known_epochs=over.epochs.begun(head.epoch, 1))
    assert is_later(head.epoch, present)


@pytest.mark.upstream
async def test_wait_returns_when_a_transaction_commits(subject: Subject) -> None:
    await subject.feed.wait(0.5)  # LISTEN may tell that it stands
    waiting = asyncio.create_task(subject.feed.wait(LONG))
    await asyncio.sleep(0)

    await subject.write(create(topic("a")))

    async with asyncio.timeout(LONG / 2):
        await waiting


@pytest.mark.upstream
async def test_a_commit_between_two_waits_is_not_missed(subject: Subject) -> None:
    await subject.feed.wait(0.5)
    await subject.write(create(topic(str(uuid4()))))
    await asyncio.sleep(0.2)

    async with asyncio.timeout(LONG / 2):
        await subject.feed.wait(LONG)


@pytest.mark.upstream
async def test_wait_returns_after_its_timeout(subject: Subject) -> None:
    await subject.feed.wait(0.5)

    async with asyncio.timeout(LONG):
        await subject.feed.wait(0.05)
