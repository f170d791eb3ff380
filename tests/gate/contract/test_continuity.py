"""A writer proves that the store goes on from what its process knows, of the fake and of PostgreSQL."""

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from uuid import UUID, uuid4

import pytest

from app.core.continuity import FeedPosition, KnownHistory
from app.core.epochs import is_later, next_epoch
from app.core.kafka.bindings import NewAcl
from app.core.kafka.errors import ApiException, TokenEpochMismatchException
from app.core.kafka.filters import AclBindingFilter
from app.core.mutations import BulkAcl, CreateAcls
from app.core.records import GENESIS_HASH
from app.core.token import Token
from tests.gate.contract.subject import Subject
from tests.updates import ACTOR, alter, create, delete, new, topic

Written = tuple[UUID, int]
Write = Callable[[Subject, KnownHistory], Awaitable[Written]]


async def nothing(subject: Subject, known: KnownHistory) -> Written:
    outcome = await subject.store.write([], known)
    return outcome.epoch, outcome.last_offset


async def what_is_there(subject: Subject, known: KnownHistory) -> Written:
    outcome = await subject.store.write([create(topic("a"))], known)
    return outcome.epoch, outcome.last_offset


async def away_what_is_not_there(subject: Subject, known: KnownHistory) -> Written:
    outcome = await subject.store.write([delete(AclBindingFilter(resource_name="none"))], known)
    return outcome.epoch, outcome.last_offset


async def a_config_as_it_is(subject: Subject, known: KnownHistory) -> Written:
    outcome = await subject.store.write([alter(("audit.level", None))], known)
    return outcome.epoch, outcome.last_offset


async def a_batch_that_is_there(subject: Subject, known: KnownHistory) -> Written:
    acls = {topic("a").natural_key: BulkAcl(uuid4(), NewAcl(topic("a")))}
    token = (await subject.bulk.add(acls, ACTOR, known)).token
    return token.epoch, token.offset


WRITES = [nothing, what_is_there, away_what_is_not_there, a_config_as_it_is, a_batch_that_is_there]


async def three_records(subject: Subject) -> list[FeedPosition]:
    """The places that a process may have seen, from the store's birth on."""
    await subject.write(create(topic("a")))
    await subject.write(create(topic("b"), topic("c")))
    epoch = (await subject.head()).epoch
    return [
        FeedPosition(epoch, 0, GENESIS_HASH),
        *(FeedPosition(epoch, each.offset, each.hash) for each in await subject.records()),
    ]


@pytest.mark.parametrize("write", WRITES)
async def test_where_the_store_goes_on_the_epoch_does_too(subject: Subject, write: Write) -> None:
    *_, head = places = await three_records(subject)
    for place in (None, *places):
        known = KnownHistory(place)
        assert await write(subject, known) == (head.epoch, 3)
        assert known.position == head
    assert (await subject.head()).epoch == head.epoch


@pytest.mark.parametrize("write", WRITES)
async def test_what_writes_nothing_begins_an_epoch_too_where_the_store_has_lost_something(
    subject: Subject, write: Write
) -> None:
    *_, second, head = await three_records(subject)
    epochs = [head.epoch]
    for offset, of_record in ((3, second.hash), (1, head.hash), (4, head.hash), (4, GENESIS_HASH)):
        known = KnownHistory(FeedPosition(epochs[-1], offset, of_record))
        epoch, last_offset = await write(subject, known)
        assert is_later(epoch, epochs[-1])
        epochs.append(epoch)
        assert last_offset == 3
        assert known.position == FeedPosition(epoch, 3, head.hash)
        assert (await subject.head()).epoch == epoch
        # It is proved now: once is enough.
        assert await write(subject, known) == (epoch, 3)


@pytest.mark.parametrize("write", WRITES)
async def test_an_epoch_that_was_over_when_it_came_back_is_followed_by_one_later_than_all(
    subject: Subject, write: Write
) -> None:
    *_, head = await three_records(subject)
    present = next_epoch(datetime(2100, 1, 1, tzinfo=UTC), [head.epoch], uuid4())

    epoch, _ = await write(subject, KnownHistory(FeedPosition(present, 3, head.hash)))

    assert is_later(epoch, present)
    assert (await subject.head()).epoch == epoch


async def test_whoever_knows_of_an_epoch_that_is_over_goes_on_in_the_later_one(subject: Subject) -> None:
    *_, head = await three_records(subject)
    epoch, _ = await nothing(subject, KnownHistory(FeedPosition(head.epoch, 7, b"of a record that was lost")))

    for write in WRITES:
        assert (await write(subject, KnownHistory(FeedPosition(head.epoch, 9, b"another that was lost"))))[0] == epoch


async def test_guard_from_lost_history_is_refused(subject: Subject) -> None:
    """What was lost lies beyond the third record, so a guard there still holds."""
    *_, head = await three_records(subject)
    known = KnownHistory(FeedPosition(head.epoch, 5, b"of a record that was lost"))
    guarded = [CreateAcls(new([topic(name)]), ACTOR, Token(head.epoch, at)) for name, at in (("d", 5), ("e", 3))]

    outcome = await subject.store.write(guarded, known)

    lost, kept = outcome.outcomes
    assert isinstance(lost, TokenEpochMismatchException)
    assert not isinstance(kept, ApiException)
    assert is_later(outcome.epoch, head.epoch)
    assert len(await subject.acls()) == 4


async def test_no_guard_of_an_epoch_holds_in_which_records_differ(subject: Subject) -> None:
    *_, head = await three_records(subject)
    known = KnownHistory(FeedPosition(head.epoch, 3, b"of another record"))
    guarded = CreateAcls(new([topic("d")]), ACTOR, Token(head.epoch, 3))

    outcome = await subject.store.write([guarded], known)

    assert isinstance(outcome.outcomes[0], TokenEpochMismatchException)
    assert (await subject.head()).epochs.rows[-1].first_offset == (await subject.head()).epochs.rows[-2].first_offset
    assert len(await subject.acls()) == 3
