"""What runtime's `AclStore` promises of guarded mutations (`if_unchanged_since`), of the fake and of PostgreSQL."""

from collections.abc import Callable
from dataclasses import replace
from uuid import UUID

import pytest

from app.core.continuity import KnownHistory
from app.core.kafka.errors import InvalidUpdateVersionException, PolicyViolationException, TokenEpochMismatchException
from app.core.kafka.filters import AclBindingFilter
from app.core.mutations import AlterConfigs, CreateAcls, DeleteAcls
from app.core.token import Token
from tests.gate.contract.subject import Subject
from tests.updates import alter, create, created, delete, matches, topic

EVERYTHING = AclBindingFilter()
Guarded = Callable[[Token], CreateAcls | DeleteAcls | AlterConfigs]


def creates(*names: str) -> Guarded:
    return lambda guard: replace(create(*map(topic, names)), guard=guard)


def deletes(*names: str) -> Guarded:
    return lambda guard: replace(delete(*[AclBindingFilter(resource_name=name) for name in names]), guard=guard)


def alters(value: str | None) -> Guarded:
    return lambda guard: replace(alter(("audit.level", value)), guard=guard)


async def at(subject: Subject, offset: int) -> Token:
    return Token((await subject.head()).epoch, offset)


async def names_in(subject: Subject) -> list[str]:
    return [acl.binding.resource_name for acl in await subject.acls()]


async def configs_in(subject: Subject) -> dict[str, str]:
    async with subject.feed.snapshot() as reader:
        return dict(reader.configs)


@pytest.mark.upstream
async def test_a_guarded_mutation_is_written_at_its_offset_and_tells_the_state_it_has_left(subject: Subject) -> None:
    await subject.write(create(topic("old")))

    (made,) = await subject.write(creates("a", "b", "old")(await at(subject, 1)))
    (gone,) = await subject.write(deletes("old", "a", "none")(await at(subject, 3)))
    (set_once,) = await subject.write(alters("DEBUG")(await at(subject, 5)))
    (set_again,) = await subject.write(alters("DEBUG")(await at(subject, 6)))

    assert [each.created for each in created(made)] == [True, True, False]
    assert [len(found) for found in matches(gone)] == [1, 1, 0]
    assert getattr(made, "token", None) == await at(subject, 3)
    assert getattr(gone, "token", None) == await at(subject, 5)
    assert getattr(set_once, "token", None) == getattr(set_again, "token", None) == await at(subject, 6)
    assert await names_in(subject) == ["b"]


@pytest.mark.upstream
@pytest.mark.parametrize("guarded", [creates("new"), deletes("old"), alters("DEBUG")])
@pytest.mark.parametrize("offset", [0, 1, 3, 1 << 62])
async def test_nothing_is_written_at_any_other_offset(subject: Subject, guarded: Guarded, offset: int) -> None:
    await subject.write(create(topic("old"), topic("other")))

    before = await subject.head()
    outcome = await subject.store.write([guarded(await at(subject, offset))], KnownHistory())

    (refusal,) = outcome.outcomes
    assert isinstance(refusal, InvalidUpdateVersionException)
    assert f"`{before.epoch}:2`" in refusal.message
    assert f"`{before.epoch}:{offset}`" in refusal.message
    assert (outcome.epoch, outcome.last_offset) == (before.epoch, 2)
    assert await subject.head() == before
    assert await names_in(subject) == ["old", "other"]


@pytest.mark.upstream
@pytest.mark.parametrize("guarded", [creates("new"), deletes("old"), alters("DEBUG")])
async def test_another_epochs_guard_is_refused_as_such(subject: Subject, guarded: Guarded) -> None:
    await subject.write(create(topic("old")))

    (refusal,) = await subject.write(guarded(Token(UUID(int=7), 1)))

    assert isinstance(refusal, TokenEpochMismatchException)
    assert await names_in(subject) == ["old"]


async def test_a_guard_is_asked_when_its_turn_in_the_group_comes_and_hinders_no_neighbour(subject: Subject) -> None:
    await subject.write(create(topic("old")))
    start = await at(subject, 1)

    first, late, after, chained, gone, last = await subject.write(
        creates("a")(start),
        creates("b")(start),
        create(topic("c")),
        creates("d")(Token(start.epoch, 3)),
        deletes("a")(start),
        delete(AclBindingFilter(resource_name="c")),
    )

    assert created(first)[0].created
    assert isinstance(late, InvalidUpdateVersionException)
    assert created(after)[0].created
    assert created(chained)[0].created
    assert isinstance(gone, InvalidUpdateVersionException)
    assert [len(found) for found in matches(last)] == [1]
    assert await names_in(subject) == ["a", "d", "old"]
    assert [record.offset for record in await subject.records()] == [1, 2, 3, 4, 5]


async def test_the_token_of_a_guarded_mutation_does_not_count_what_comes_behind_it_in_the_group(
    subject: Subject,
) -> None:
    outcome = await subject.store.write(
        [creates("mine")(await at(subject, 0)), create(topic("foreign"))], KnownHistory()
    )

    token = await at(subject, 1)
    assert (getattr(outcome.outcomes[0], "token", None), outcome.last_offset) == (token, 2)
    (noticed,) = await subject.write(creates("next")(token))
    assert isinstance(noticed, InvalidUpdateVersionException)


async def test_what_an_acl_is_worth_for_the_guard_is_what_it_writes(subject: Subject) -> None:
    """Nothing new is no change, so neighbours' guards hold; and an unguarded one tells no token."""
    start = await at(subject, 0)

    nothing, unset, noop, made, altered = await subject.write(
        delete(EVERYTHING), alter(("audit.level", None)), deletes("none")(start), creates()(start), alters(None)(start)
    )

    assert getattr(nothing, "token", start) is getattr(unset, "token", start) is None
    assert getattr(noop, "token", None) == getattr(made, "token", None) == getattr(altered, "token", None) == start


async def test_a_refused_duplicate_leaves_its_acl_to_the_next(subject: Subject) -> None:
    """The refused one is looked up and planned together with its neighbour, which must not take its id for one."""
    refused, made = await subject.write(creates("a")(await at(subject, 5)), create(topic("a")))

    assert isinstance(refused, InvalidUpdateVersionException)
    assert created(made)[0].created
    assert [acl.id for acl in await subject.acls()] == [created(made)[0].id]


async def test_a_change_of_the_configuration_is_a_change(subject: Subject) -> None:
    start = await at(subject, 0)
    _, *refused = await subject.write(alter(("super.users", "User:root")), creates("a")(start), alters("DEBUG")(start))

    assert all(isinstance(each, InvalidUpdateVersionException) for each in refused)
    assert await configs_in(subject) == {"super.users": "User:root"}


async def test_of_two_guarded_changes_of_one_property_the_first_wins(subject: Subject) -> None:
    await subject.write(create(topic("old")))
    start = await at(subject, 1)
    won, lost, other = await subject.write(
        alters("DEBUG")(start), alters("INFO")(start), alters("WARN")(Token(start.epoch, 2))
    )

    assert getattr(won, "token", None) == await at(subject, 2)
    assert isinstance(lost, InvalidUpdateVersionException)
    assert getattr(other, "token", None) == await at(subject, 3)
    assert await configs_in(subject) == {"audit.level": "WARN"}


@pytest.mark.upstream
async def test_a_guarded_mutation_over_its_bound_is_refused_for_that(subject: Subject) -> None:
    (refused,) = await subject.write(creates(*map(str, range(10_001)))(await at(subject, 0)))

    assert isinstance(refused, PolicyViolationException)
    assert (await subject.head()).last_offset == 0
