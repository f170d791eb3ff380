"""ALLOWs end at their second on every replica, by the store's clock, whatever is away and whoever was frozen."""

import asyncio
from collections import Counter
from contextlib import AsyncExitStack
from dataclasses import replace
from datetime import timedelta
from random import Random
from uuid import UUID

import pytest

from app.core.kafka.bindings import AclBinding, NewAcl
from app.core.mutations import EXPIRY_ACTOR, CreateAcls, ExpireAcls
from app.core.records import RemoveAccessControlEntryRecord
from app.runtime.authorizer import Authorizer
from app.runtime.deciding import at_one_offset
from tests.fakes import FakeStore
from tests.klamm import until
from tests.virtual_time import VIRTUAL_CLOCK, freeze, in_virtual_time, now
from tests.world import OPTIONS, acl, authorizer_on, may_read

# The fake store's clock is the loop's, but for `clock_ahead`, which is whole hours here: so `now` shows its seconds.


def create_for(store: FakeStore, seconds: int, *bindings: AclBinding) -> int:
    """ACLs that end about so many seconds from now, by the store's clock; returns when that is by the loop's."""
    ends_at = int(now()) + seconds
    expires_at = store.now() + timedelta(seconds=ends_at - now())
    store.commit([CreateAcls([NewAcl(each, expires_at.replace(microsecond=0)) for each in bindings], "User:admin")])
    return ends_at


async def sampled(authorizer: Authorizer, seconds: float, name: str = "a") -> list[tuple[float, bool]]:
    """Whether it may be read, a hundred times a second, each with its time."""
    until_s, found = now() + seconds, list[tuple[float, bool]]()
    while now() < until_s:
        found.append((now(), may_read(authorizer, name)))
        await asyncio.sleep(0.01)
    return found


@pytest.mark.parametrize("hours", [-1, 0, 1])
def test_an_allow_ends_at_its_second_whatever_the_clocks_of_machines_say(hours: int) -> None:
    @in_virtual_time
    async def run() -> None:
        store = FakeStore()
        store.clock_ahead = timedelta(hours=hours)
        async with authorizer_on(store, OPTIONS) as authorizer:
            ends_at = create_for(store, 10, acl("a"))
            await until(lambda: may_read(authorizer, "a"))
            answers = await sampled(authorizer, 12)
            assert all(allowed for at, allowed in answers if at < ends_at - 0.01)
            assert not any(allowed for at, allowed in answers if at >= ends_at)

    run()


@in_virtual_time
async def test_an_allow_ends_while_the_store_is_away() -> None:
    store = FakeStore()
    async with authorizer_on(store, OPTIONS) as authorizer:
        ends_at = create_for(store, 3_600, acl("a"))
        await until(lambda: may_read(authorizer, "a"))
        store.unreachable = True
        await asyncio.sleep(3_590)
        answers = await sampled(authorizer, 20)
        # Two clocks may differ by 0.05 %: what ends, ends earlier by that much, never later.
        assert all(allowed for at, allowed in answers if at < ends_at - 0.0006 * 3_600)
        assert not any(allowed for at, allowed in answers if at >= ends_at)


@in_virtual_time
async def test_a_frozen_process_that_wakes_after_the_end_denies_first() -> None:
    store = FakeStore()
    async with authorizer_on(store, OPTIONS) as authorizer:
        create_for(store, 60, acl("a"))
        await until(lambda: may_read(authorizer, "a"))
        freeze(59)
        assert may_read(authorizer, "a")
        freeze(1.5)
        assert not may_read(authorizer, "a")


@in_virtual_time
async def test_a_poll_that_was_under_way_while_the_process_was_frozen_does_not_take_the_time_back() -> None:
    store = FakeStore()
    async with authorizer_on(store, OPTIONS) as authorizer:
        create_for(store, 60, acl("a"))
        await until(lambda: may_read(authorizer, "a"))
        store.clock_ahead = timedelta(seconds=-1)  # what the poll will say was true a second before it was asked
        await asyncio.sleep(2)
        store.unreachable = True
        freeze(58)
        assert may_read(authorizer, "a")
        freeze(1)
        assert not may_read(authorizer, "a")


@in_virtual_time
async def test_an_answer_that_was_long_on_its_way_lets_nothing_outlive_its_end() -> None:
    store = FakeStore()
    async with authorizer_on(store, OPTIONS) as authorizer:
        ends_at = create_for(store, 20, acl("a"))
        await until(lambda: may_read(authorizer, "a"))
        store.answer_takes_s = 1.5
        answers = await sampled(authorizer, 22)
        assert not any(allowed for at, allowed in answers if at >= ends_at)
        assert all(allowed for at, allowed in answers if at < ends_at - 1.6)


@in_virtual_time
async def test_a_store_whose_clock_is_set_back_brings_nothing_back_that_has_ended() -> None:
    store = FakeStore()
    async with authorizer_on(store, OPTIONS) as authorizer:
        create_for(store, 5, acl("a"), acl("b"))
        await until(lambda: may_read(authorizer, "a"))
        store.hang("write")  # nobody removes it
        await asyncio.sleep(6)
        store.clock_ahead = timedelta(hours=-1)
        await asyncio.sleep(5)
        store.commit([CreateAcls([NewAcl(acl("c"))], "User:admin")])
        await until(lambda: may_read(authorizer, "c"))
        assert not may_read(authorizer, "a")
        store.release("write")


@in_virtual_time
async def test_a_slow_poll_ends_nothing_early_and_nothing_late() -> None:
    store = FakeStore()
    async with authorizer_on(store, OPTIONS) as authorizer:
        ends_at = create_for(store, 20, acl("a"))
        await until(lambda: may_read(authorizer, "a"))
        store.question_takes_s, store.answer_takes_s = 0.66, 0.3
        answers = await sampled(authorizer, 22)
        assert all(allowed for at, allowed in answers if at < ends_at - 0.02)
        assert not any(allowed for at, allowed in answers if at >= ends_at)


@in_virtual_time
async def test_a_clock_that_is_set_while_polls_are_slow_is_followed() -> None:
    store = FakeStore()
    async with authorizer_on(store, OPTIONS) as authorizer:
        create_for(store, 3_000, acl("a"))
        create_for(store, 7_000, acl("b"))
        await until(lambda: may_read(authorizer, "a"))
        store.question_takes_s, store.answer_takes_s = 0.5, 0.5
        store.clock_ahead = timedelta(hours=1)
        await asyncio.sleep(3)
        assert [may_read(authorizer, each) for each in ("a", "b")] == [False, True]


@in_virtual_time
async def test_after_the_clock_went_forward_and_back_new_acls_are_in_force(caplog: pytest.LogCaptureFixture) -> None:
    store = FakeStore()
    async with authorizer_on(store, OPTIONS) as authorizer:
        create_for(store, 5, acl("first"))
        create_for(store, 1_800, acl("second"), acl("third"))
        await until(lambda: may_read(authorizer, "second"))
        store.hang("write")  # nobody removes them
        store.clock_ahead = timedelta(hours=1)
        await until(lambda: not may_read(authorizer, "second"))
        create_for(store, 600, acl("later"))
        await until(lambda: may_read(authorizer, "later"))
        store.clock_ahead = timedelta(0)
        await asyncio.sleep(0.5)
        ends_at = create_for(store, 600, acl("new"))
        await until(lambda: may_read(authorizer, "new"), limit_s=3)
        # What had ended does not come back; what the store says anew does.
        assert [may_read(authorizer, each) for each in ("first", "second", "later")] == [False, False, True]
        create_for(store, 700, acl("third"))
        await until(lambda: may_read(authorizer, "third"), limit_s=3)
        told = [each.__dict__["by_s"] for each in caplog.records if each.message == "store_time_corrected"]
        assert told == [pytest.approx(3_600, abs=1), pytest.approx(-3_600, abs=1)]
        assert authorizer.metrics.store_time_corrections == {"forward": 1, "back": 1}
        await asyncio.sleep(ends_at - 2 - now())
        answers = await sampled(authorizer, 4, "new")
        assert not any(allowed for at, allowed in answers if at >= ends_at)
        assert all(allowed for at, allowed in answers if at < ends_at - 0.02)
        store.release("write")


@in_virtual_time
async def test_what_goes_in_steps_begins_again_when_an_allow_ends() -> None:
    store = FakeStore()
    async with authorizer_on(store, OPTIONS) as authorizer:
        create_for(store, 2, acl("a"))
        await until(lambda: may_read(authorizer, "a"))
        seen = []

        def steps():  # type: ignore[no-untyped-def]  # noqa: ANN202 - a generator of steps
            for _ in range(3):
                seen.append(may_read(authorizer, "a"))
                freeze(1)
                yield
            return seen[-3:]

        answers = await at_one_offset(lambda: authorizer.image, steps)
        assert answers == [False, False, False]
        assert seen[0]


@in_virtual_time
async def test_an_end_that_is_put_off_or_lifted_in_time_changes_nothing() -> None:
    store = FakeStore()
    async with authorizer_on(store, OPTIONS) as authorizer:
        create_for(store, 5, acl("later"), acl("never"), acl("now"))
        await until(lambda: may_read(authorizer, "now"))
        await asyncio.sleep(2)
        create_for(store, 60, acl("later"))
        store.commit([CreateAcls([NewAcl(acl("never"), None)], "User:admin")])
        await asyncio.sleep(5)
        assert [may_read(authorizer, each) for each in ("later", "never", "now")] == [True, True, False]
        await asyncio.sleep(60)
        assert [may_read(authorizer, each) for each in ("later", "never", "now")] == [False, True, False]


@in_virtual_time
async def test_a_reload_keeps_ends() -> None:
    store = FakeStore()
    async with authorizer_on(store, OPTIONS) as authorizer:
        ends_at = create_for(store, 30, acl("a"))
        await until(lambda: may_read(authorizer, "a"))
        loads = authorizer.metrics.image_loads
        store.epoch = UUID(int=7)
        await until(lambda: authorizer.metrics.image_loads > loads)
        assert may_read(authorizer, "a")
        answers = await sampled(authorizer, 40)
        assert not any(allowed for at, allowed in answers if at >= ends_at)
        assert all(allowed for at, allowed in answers if at < ends_at - 0.02)


@in_virtual_time
async def test_a_long_transaction_over_an_end_does_not_bring_the_allow_back() -> None:
    store = FakeStore()
    async with authorizer_on(store, OPTIONS) as authorizer:
        ends_at = create_for(store, 3, acl("a"))
        await until(lambda: may_read(authorizer, "a"))
        await asyncio.sleep(ends_at - 0.5 - now())
        while now() < ends_at + 0.5:
            store.commit([CreateAcls([NewAcl(acl(f"{now()}-{n}")) for n in range(100)], "User:admin")])
            assert may_read(authorizer, "a") is (now() < ends_at - 0.01) or now() < ends_at
            await asyncio.sleep(0.01)
        assert not may_read(authorizer, "a")


@in_virtual_time
async def test_a_store_that_says_no_time_lets_nothing_pass_that_ends() -> None:
    store = FakeStore()
    create_for(store, 3_600, acl("a"))
    store.commit([CreateAcls([NewAcl(acl("b"))], "User:admin")])
    store.says_no_time = True
    async with authorizer_on(store, replace(OPTIONS)) as authorizer:
        await asyncio.sleep(5)
        assert [may_read(authorizer, each) for each in ("a", "b")] == [False, True]
        store.says_no_time = False
        await asyncio.sleep(2)
        assert [may_read(authorizer, each) for each in ("a", "b")] == [True, True]


def removals(store: FakeStore) -> list[str]:
    records = store.tables.records
    return [
        each.acl.binding.resource_name
        for each in records
        if isinstance(each, RemoveAccessControlEntryRecord) and each.actor == EXPIRY_ACTOR
    ]


@in_virtual_time
async def test_what_has_ended_is_removed_within_a_second_or_so_a_deny_too() -> None:
    store = FakeStore()
    store.clock_ahead = timedelta(hours=1)
    async with authorizer_on(store, OPTIONS) as authorizer:
        ends_at = create_for(store, 10, acl("a"), acl("b", allow=False))
        store.commit([CreateAcls([NewAcl(acl("b"))], "User:admin")])
        await until(lambda: now() >= ends_at)
        assert not may_read(authorizer, "b")
        await until(lambda: sorted(removals(store)) == ["a", "b"], limit_s=1.5)
        await until(lambda: may_read(authorizer, "b"), limit_s=0.5)
        assert authorizer.metrics.acls_expired == 2


@in_virtual_time
async def test_of_many_replicas_one_removes_it_and_few_try() -> None:
    store = FakeStore()
    options = replace(OPTIONS, clock=replace(VIRTUAL_CLOCK, jitter=Random(3).uniform))
    async with AsyncExitStack() as stack:
        replicas = [await stack.enter_async_context(authorizer_on(store, options)) for _ in range(10)]
        for number in range(5):
            create_for(store, 5, *[acl(f"{number}-{each}") for each in range(20)])
            await asyncio.sleep(10)
        assert len(removals(store)) == len(set(removals(store))) == 100
        tries = sum(isinstance(each, ExpireAcls) for group in store.groups for each in group)
        assert 5 <= tries <= 10
        assert sum(each.metrics.acls_expired for each in replicas) == 100


@in_virtual_time
async def test_nothing_is_written_while_nothing_has_ended() -> None:
    store = FakeStore()
    async with authorizer_on(store, OPTIONS):
        create_for(store, 3_600, acl("a"))
        await asyncio.sleep(3_000)
        assert store.tries == 0


@in_virtual_time
async def test_many_are_removed_in_bounded_batches() -> None:
    store = FakeStore()
    async with authorizer_on(store, OPTIONS) as authorizer:
        create_for(store, 5, *[acl(f"t{n:04}") for n in range(2_500)])
        await asyncio.sleep(8)
        assert len(removals(store)) == 2_500
        assert authorizer.image.acl_count == 0
        lengths = Counter(each.tx_last for each in store.tables.records[2_500:])
        assert max(lengths.values()) == 1_000


@in_virtual_time
async def test_a_store_that_is_away_has_its_removals_once_it_is_back() -> None:
    store = FakeStore()
    async with authorizer_on(store, OPTIONS) as authorizer:
        create_for(store, 5, acl("a"))
        await until(lambda: may_read(authorizer, "a"))
        store.hang("write")
        await asyncio.sleep(60)
        assert not may_read(authorizer, "a")
        store.release("write")
        await until(lambda: removals(store) == ["a"], limit_s=40)
        await until(lambda: authorizer.image.acl_count == 0)


@in_virtual_time
async def test_what_ends_is_counted_and_told_once_an_hour(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    store = FakeStore()
    async with authorizer_on(store, replace(OPTIONS, poll_s=20.0)) as authorizer:
        create_for(store, 3 * 3_600, acl("a"), acl("b"))
        create_for(store, 48 * 3_600, acl("c"))
        store.commit([CreateAcls([NewAcl(acl("d"))], "User:admin")])
        await asyncio.sleep(2 * 3_600 + 60)
        metrics = authorizer.metrics
        assert (metrics.acls_with_end, metrics.acls_ending_within_a_day, metrics.acls_ended) == (3, 2, 0)
        told = [each for each in caplog.records if each.message == "acls_end_within_a_day"]
        assert [each.__dict__["acls"] for each in told] == [2, 2, 2]
        store.hang("write")
        await asyncio.sleep(2 * 3_600)
        assert (metrics.acls_with_end, metrics.acls_ending_within_a_day, metrics.acls_ended) == (3, 0, 2)
