"""A transaction is never split, so no call and no group of calls becomes one that a reader could not take."""

from datetime import timedelta
from uuid import UUID

import pytest

from app.core.continuity import KnownHistory
from app.core.kafka.bindings import AclBinding, NewAcl, StandardAcl
from app.core.kafka.codes import PatternType
from app.core.kafka.errors import ApiException, PolicyViolationException
from app.core.kafka.filters import AclBindingFilter
from app.core.mutations import CreateAcls, DeleteAcls, ExpireAcls, ExpireAclsOutcome, Mutation, Outcome
from app.core.records import (
    GENESIS_HASH,
    MAX_TRANSACTION_BYTES,
    AccessControlEntryRecord,
    ConfigRecord,
    Record,
    record_bytes,
)
from tests.fakes import BIRTH
from tests.gate.contract.subject import Subject
from tests.gate.contract.test_bulk_store import batch
from tests.gate.contract.test_expiry import store_time
from tests.klamm import until
from tests.updates import ACTOR, alter, create, created, delete, matches, topic

LONG = 32_000
HALF = 300
"""So many long names are more than half of what a transaction holds."""
EVERYTHING = AclBindingFilter()


def long_names(letter: str, count: int = HALF) -> list[AclBinding]:
    return [topic(f"{letter}{number:04d}" + "x" * (LONG - 5)) for number in range(count)]


def beginning_with(letter: str) -> DeleteAcls:
    """Deletes the long names of this letter."""
    return delete(*(AclBindingFilter(resource_name=each.resource_name) for each in long_names(letter)))


async def in_turn(subject: Subject, *mutations: Mutation) -> list[list[Outcome | ApiException]]:
    """As the mutator writes them: those that did not fit come first in the next transaction."""
    turns: list[list[Outcome | ApiException]] = []
    left = list(mutations)
    while left:
        outcomes = list(await subject.write(*left))
        assert outcomes
        turns.append(outcomes)
        left = left[len(outcomes) :]
    return turns


async def sizes(subject: Subject) -> list[int]:
    """Of each transaction of the feed."""
    by_last: dict[int, int] = {}
    for record in await subject.records():
        by_last[record.tx_last] = by_last.get(record.tx_last, 0) + record_bytes(record)
    return list(by_last.values())


def assert_refused(outcome: object, least: int) -> None:
    assert isinstance(outcome, PolicyViolationException), outcome
    size = int(outcome.message.split(" bytes")[0].rsplit(" ", 1)[1].replace(",", ""))
    assert size >= least
    assert f"at most {MAX_TRANSACTION_BYTES:,}" in outcome.message
    assert "fewer" in outcome.message


async def test_what_no_transaction_holds_is_refused_with_its_size_and_leaves_nothing(subject: Subject) -> None:
    too_long = [*long_names("a"), *long_names("b")]
    value = "User:" + "x" * MAX_TRANSACTION_BYTES

    before, refused, also_refused, after = await subject.write(
        create(topic("before")),
        create(*too_long),
        alter(("audit.level", "DEBUG"), ("super.users", value)),
        create(topic("after"), too_long[0]),
    )

    assert_refused(refused, 2 * HALF * LONG)
    assert_refused(also_refused, len(value))
    assert [[each.created for each in created(outcome)] for outcome in (before, after)] == [[True], [True, True]]
    assert len(await subject.acls()) == 3
    assert [type(record) for record in await subject.records()] == [AccessControlEntryRecord] * 3
    async with subject.feed.snapshot() as reader:
        assert reader.configs == {}


async def test_calls_that_no_transaction_holds_together_are_written_one_after_the_other(subject: Subject) -> None:
    first = await in_turn(
        subject,
        create(topic("small")),
        create(*long_names("a")),
        create(*long_names("b")),
        alter(("audit.level", "DEBUG")),
        create(topic("after")),
    )
    refused = await in_turn(subject, delete(EVERYTHING))
    removed = await in_turn(subject, beginning_with("a"), beginning_with("b"), delete(EVERYTHING))

    assert list(map(len, first)) == [2, 3]
    assert [len(created(each)) for each in (*first[0], first[1][0], first[1][2])] == [1, HALF, HALF, 1]
    assert_refused(refused[0][0], 2 * HALF * LONG)
    assert list(map(len, removed)) == [1, 2]
    assert [sum(map(len, matches(each))) for each in (*removed[0], *removed[1])] == [HALF, HALF, 2]
    assert await subject.acls() == []
    assert max(await sizes(subject)) <= MAX_TRANSACTION_BYTES


async def test_a_transaction_may_be_just_as_long_as_the_bound(subject: Subject) -> None:
    def record(binding: AclBinding) -> Record:
        return AccessControlEntryRecord(1, 1, StandardAcl(UUID(int=1), binding), BIRTH, ACTOR, GENESIS_HASH)

    acls = long_names("a", 522)
    room = MAX_TRANSACTION_BYTES - sum(record_bytes(record(each)) for each in acls)
    last = topic("z" * (room - record_bytes(record(topic("")))))

    longer = last._replace(resource_name=f"{last.resource_name}z")

    turns = await in_turn(subject, create(*acls, longer), create(*acls, last), create(*acls, last), create(longer))

    assert list(map(len, turns)) == [3, 1]
    assert_refused(turns[0][0], MAX_TRANSACTION_BYTES + 1)
    made = [[each.created for each in created(outcome)] for outcome in (*turns[0][1:], *turns[1])]
    assert made == [[True] * 523, [False] * 523, [True]]
    assert (await sizes(subject))[0] == MAX_TRANSACTION_BYTES


async def make_long_ending(subject: Subject, *calls: list[AclBinding], seconds: int = 2) -> None:
    """As `make_ending`, for more than a transaction holds."""
    ends = (await store_time(subject)).replace(microsecond=0) + timedelta(seconds=seconds)
    for some in calls:
        (outcome,) = await subject.write(CreateAcls([NewAcl(each, ends) for each in some], ACTOR))
        if len(created(outcome)) < len(some):
            # Their end has come in between.
            await make_long_ending(subject, *calls, seconds=2 * seconds)
            return

    async def have_ended() -> bool:
        return await store_time(subject) >= ends

    await until(have_ended, "the end")


async def test_of_ended_acls_as_many_are_removed_as_a_transaction_holds(subject: Subject) -> None:
    await make_long_ending(subject, long_names("a"), long_names("b"))

    first = await in_turn(subject, create(*long_names("d")), ExpireAcls(1_000), alter(("audit.level", "DEBUG")))
    second = await in_turn(subject, ExpireAcls(1_000))

    assert list(map(len, first)) == [3]
    removed = [outcome.records for outcome in (first[0][1], second[0][0]) if isinstance(outcome, ExpireAclsOutcome)]
    assert sum(removed) == 2 * HALF
    assert 200 < removed[0] < HALF
    assert not (await subject.feed.poll(0, 1)).holds_ended
    assert await subject.write(ExpireAcls(1_000)) == [ExpireAclsOutcome(0)]
    assert max(await sizes(subject)) <= MAX_TRANSACTION_BYTES


async def test_an_expiry_for_which_nothing_is_left_comes_next(subject: Subject) -> None:
    await make_long_ending(subject, long_names("a", 10))
    full = [*long_names("b", 522)]

    turns = await in_turn(subject, create(*full), ExpireAcls(1_000))

    assert list(map(len, turns)) == [1, 1]
    assert turns[1] == [ExpireAclsOutcome(10)]


async def test_a_batch_that_no_transaction_holds_is_refused_whole(subject: Subject) -> None:
    too_long = batch([*long_names("a"), *long_names("b")])

    with pytest.raises(PolicyViolationException) as refusal:
        await subject.bulk.add(too_long, ACTOR, KnownHistory())

    assert_refused(refusal.value, 2 * HALF * LONG)
    assert await subject.acls() == []
    assert (await subject.head()).last_offset == 0
    await subject.bulk.add(batch(long_names("a")), ACTOR, KnownHistory())
    assert len(await subject.acls()) == HALF


async def test_a_deletion_counts_what_its_filters_list(subject: Subject) -> None:
    await in_turn(subject, create(*long_names("a")))
    once = AclBindingFilter(principal="User:alice", pattern_type=PatternType.LITERAL)

    twice, found = await subject.write(delete(once, once), delete(once))

    # The reply would hold each of them twice.
    assert_refused(twice, 2 * HALF * LONG)
    assert len(matches(found)[0]) == HALF
    assert not [each for each in await subject.records() if isinstance(each, ConfigRecord)]
