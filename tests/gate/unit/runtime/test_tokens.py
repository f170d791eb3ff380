"""`at_least`: never an answer older than the caller's token."""

from dataclasses import replace
from uuid import uuid4

import pytest

from app.core.kafka.errors import (
    InvalidRequestException,
    OffsetNotAvailableException,
    TokenEpochMismatchException,
)
from app.core.token import Token
from tests.fakes import FakeStore
from tests.klamm import until
from tests.updates import new
from tests.virtual_time import in_virtual_time, now
from tests.world import OPTIONS, ROOT, acl, authorizer_on, create, may_read, names_in


@in_virtual_time
async def test_at_least_is_never_answered_from_before_it() -> None:
    store = FakeStore()
    store.notify_lost = True
    async with authorizer_on(store, OPTIONS) as one, authorizer_on(store, OPTIONS) as other:
        for number in range(200):
            _, token = await one.updates.create_acls(ROOT, new([acl(f"t{number}")]), None)
            began_at = now()
            await other.wait_for(str(token))
            assert may_read(other, f"t{number}")
            # The hint is lost, yet nobody waits for the next second.
            assert now() - began_at < 0.1


@in_virtual_time
async def test_a_token_that_is_passed_or_absent_costs_no_suspension() -> None:
    store = FakeStore()
    store.commit([create("a")])
    async with authorizer_on(store, OPTIONS) as authorizer:
        for at_least in (None, str(authorizer.image.token), str(Token(store.epoch, 0))):
            waiting = authorizer.wait_for(at_least)
            with pytest.raises(StopIteration):
                waiting.send(None)


@in_virtual_time
async def test_a_token_that_is_not_reached_in_time_is_told() -> None:
    store = FakeStore()
    async with authorizer_on(store, replace(OPTIONS, request_timeout_s=2)) as authorizer:
        began_at = now()
        with pytest.raises(OffsetNotAvailableException):
            await authorizer.wait_for(str(Token(store.epoch, 1)))
        assert now() - began_at == pytest.approx(2, abs=0.01)


@in_virtual_time
async def test_garbage_is_no_token(subtests: pytest.Subtests) -> None:
    for garbage in [
        "",
        "x",
        "1:2",
        "7d18338e-476d-4a79-b308-bf04937c7d91:-1",
        "7d18338e-476d-4a79-b308-bf04937c7d91:1 ",
        "7d18338e-476d-4a79-b308-bf04937c7d91:9223372036854775808",
    ]:
        with subtests.test(garbage=garbage):
            async with authorizer_on(FakeStore(), OPTIONS) as authorizer:
                with pytest.raises(InvalidRequestException):
                    await authorizer.wait_for(garbage)


@in_virtual_time
async def test_tokens_of_an_epoch_that_is_over_are_refused_and_unknown_ones_make_us_look() -> None:
    store = FakeStore()
    store.commit([create("a")])
    async with authorizer_on(store, OPTIONS) as authorizer:
        old = str(authorizer.image.token)
        store.notify_lost = True
        store.restore(0)
        store.commit([create("b")])
        new = str(Token(store.epoch, 1))
        began_at = now()
        # This replica has yet to learn of the epoch; to refuse the token would be to send the caller to the old image.
        await authorizer.wait_for(new)
        assert may_read(authorizer, "b")
        with pytest.raises(TokenEpochMismatchException):
            await authorizer.wait_for(old)
        assert now() - began_at < 0.1


@in_virtual_time
async def test_a_token_of_an_unknown_epoch_is_unavailable_while_nobody_can_tell() -> None:
    store = FakeStore()
    async with authorizer_on(store, replace(OPTIONS, request_timeout_s=2)) as authorizer:
        store.unreachable = True
        with pytest.raises(OffsetNotAvailableException):
            await authorizer.wait_for(str(Token(uuid4(), 0)))


@pytest.mark.parametrize("lost", [1, 2])
@in_virtual_time
async def test_tokens_of_a_lost_history_are_refused_although_the_store_kept_its_epoch(lost: int) -> None:
    store = FakeStore()
    store.commit([create("kept")])
    async with authorizer_on(store, OPTIONS) as one, authorizer_on(store, OPTIONS) as other:
        for number in range(lost):
            store.commit([create(f"lost-{number}")])
        token = Token(store.epoch, store.tables.last_offset)
        await other.wait_for(str(token))
        store.notify_lost = True
        store.restore(1, new_epoch=False)
        store.commit([create("found")])
        for replica in (one, other):
            await until(lambda: names_in(replica.image) == ["found", "kept"])  # noqa: B023 - awaited within the turn
            with pytest.raises(TokenEpochMismatchException):
                await replica.wait_for(str(token))
        assert store.epoch != token.epoch


@in_virtual_time
async def test_an_epoch_that_can_not_be_renounced_at_once_is_later_and_the_reload_does_not_wait_for_it() -> None:
    store = FakeStore()
    store.commit([create("kept"), create("lost")])
    async with authorizer_on(store, OPTIONS) as authorizer:
        lost = str(authorizer.image.token)
        store.hang("write")
        store.restore(1, new_epoch=False)
        store.commit([create("found")])
        await until(lambda: names_in(authorizer.image) == ["found", "kept"], limit_s=10)
        store.release("write")
        await until(lambda: str(authorizer.image.token) != lost, limit_s=10)
        with pytest.raises(TokenEpochMismatchException):
            await authorizer.wait_for(lost)
