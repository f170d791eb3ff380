"""ALLOWs end at their second on every replica, by the store's clock, whatever is away and whoever was frozen."""

import asyncio
from dataclasses import replace
from datetime import timedelta

import pytest

from app.core.kafka.bindings import AclBinding, NewAcl
from app.core.mutations import CreateAcls
from app.runtime.authorizer import Authorizer
from app.runtime.deciding import at_one_offset
from tests.fakes import FakeStore
from tests.unit.runtime.world import OPTIONS, acl, may_read, serving, until
from tests.virtual_time import freeze, in_virtual_time, now

# The fake store's clock is the loop's, but for `clock_ahead`, which is whole hours here: so `now` shows its seconds.


def create_for(store: FakeStore, seconds: int, *bindings: AclBinding) -> int:
    """ACLs that end about so many seconds from now, by the store's clock; returns when that is by the loop's."""
    ends_at = int(now()) + seconds
    expires_at = store.now() + timedelta(seconds=ends_at - now())
    store.commit([CreateAcls([NewAcl(each, expires_at.replace(microsecond=0)) for each in bindings], "User:root")])
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
        async with serving(store) as authorizer:
            ends_at = create_for(store, 10, acl("a"))
            await until(lambda: may_read(authorizer, "a"))
            answers = await sampled(authorizer, 12)
            assert all(allowed for at, allowed in answers if at < ends_at - 0.01)
            assert not any(allowed for at, allowed in answers if at >= ends_at)

    run()


@in_virtual_time
async def test_an_allow_ends_while_the_store_is_away() -> None:
    store = FakeStore()
    async with serving(store) as authorizer:
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
    async with serving(store) as authorizer:
        create_for(store, 60, acl("a"))
        await until(lambda: may_read(authorizer, "a"))
        freeze(59)
        assert may_read(authorizer, "a")
        freeze(1.5)
        assert not may_read(authorizer, "a")


@in_virtual_time
async def test_a_poll_that_was_under_way_while_the_process_was_frozen_does_not_take_the_time_back() -> None:
    store = FakeStore()
    async with serving(store) as authorizer:
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
async def test_what_goes_in_steps_begins_again_when_an_allow_ends() -> None:
    store = FakeStore()
    async with serving(store) as authorizer:
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
    async with serving(store) as authorizer:
        create_for(store, 5, acl("later"), acl("never"), acl("now"))
        await until(lambda: may_read(authorizer, "now"))
        await asyncio.sleep(2)
        create_for(store, 60, acl("later"))
        store.commit([CreateAcls([NewAcl(acl("never"), None)], "User:root")])
        await asyncio.sleep(5)
        assert [may_read(authorizer, each) for each in ("later", "never", "now")] == [True, True, False]
        await asyncio.sleep(60)
        assert [may_read(authorizer, each) for each in ("later", "never", "now")] == [False, True, False]


@in_virtual_time
async def test_a_reload_keeps_ends() -> None:
    store = FakeStore()
    async with serving(store) as authorizer:
        ends_at = create_for(store, 30, acl("a"))
        await until(lambda: may_read(authorizer, "a"))
        loads = authorizer.metrics.image_loads
        store.begin_epoch()
        await until(lambda: authorizer.metrics.image_loads > loads)
        assert may_read(authorizer, "a")
        answers = await sampled(authorizer, 40)
        assert not any(allowed for at, allowed in answers if at >= ends_at)
        assert all(allowed for at, allowed in answers if at < ends_at - 0.02)


@in_virtual_time
async def test_a_long_transaction_over_an_end_does_not_bring_the_allow_back() -> None:
    store = FakeStore()
    async with serving(store) as authorizer:
        ends_at = create_for(store, 3, acl("a"))
        await until(lambda: may_read(authorizer, "a"))
        while now() < ends_at + 1:
            store.commit([CreateAcls([NewAcl(acl(f"{now()}-{n}")) for n in range(100)], "User:root")])
            assert may_read(authorizer, "a") is (now() < ends_at - 0.01) or now() < ends_at
            await asyncio.sleep(0.01)
        assert not may_read(authorizer, "a")


@in_virtual_time
async def test_a_store_that_says_no_time_lets_nothing_pass_that_ends() -> None:
    store = FakeStore()
    create_for(store, 3_600, acl("a"))
    store.commit([CreateAcls([NewAcl(acl("b"))], "User:root")])
    store.says_no_time = True
    async with serving(store, replace(OPTIONS)) as authorizer:
        await asyncio.sleep(5)
        assert [may_read(authorizer, each) for each in ("a", "b")] == [False, True]
        store.says_no_time = False
        await asyncio.sleep(2)
        assert [may_read(authorizer, each) for each in ("a", "b")] == [True, True]
