"""`at_least`: never an answer older than the caller's token."""

from dataclasses import replace
from uuid import uuid4

import pytest

from app.core.errors import (
    InvalidRequestException,
    OffsetNotAvailableException,
    TokenEpochMismatchException,
)
from app.core.token import Token
from tests.fakes import FakeStore
from tests.unit.runtime.world import (
    OPTIONS,
    ROOT,
    acl,
    create,
    may_read,
    serving,
    until,
)
from tests.virtual_time import in_virtual_time, now


@in_virtual_time
async def test_at_least_is_never_answered_from_before_it() -> None:
    store = FakeStore()
    store.notify_lost = True
    async with serving(store) as one, serving(store) as other:
        for number in range(200):
            _, token = await one.create_acls(ROOT, [acl(f"t{number}")], None)
            began_at = now()
            await other.wait_for(str(token))
            assert may_read(other, f"t{number}")
            # The hint is lost, yet nobody waits for the next second.
            assert now() - began_at < 0.1


@in_virtual_time
async def test_a_token_that_is_passed_or_absent_costs_no_suspension() -> None:
    store = FakeStore()
    store.commit([create("a")])
    async with serving(store) as authorizer:
        for at_least in (None, str(authorizer.image.token), str(Token(store.epoch, 0))):
            waiting = authorizer.wait_for(at_least)
            with pytest.raises(StopIteration):
                waiting.send(None)


@in_virtual_time
async def test_a_token_that_is_not_reached_in_time_is_told() -> None:
    store = FakeStore()
    async with serving(store, replace(OPTIONS, request_timeout_s=2)) as authorizer:
        began_at = now()
        with pytest.raises(OffsetNotAvailableException):
            await authorizer.wait_for(str(Token(store.epoch, 1)))
        assert now() - began_at == pytest.approx(2, abs=0.01)


@pytest.mark.parametrize("garbage", ["", "x", "1:2", f"{uuid4()}:-1", f"{uuid4()}:1 ", f"{uuid4()}:{1 << 63}"])
@in_virtual_time
async def test_garbage_is_no_token(garbage: str) -> None:
    async with serving(FakeStore()) as authorizer:
        with pytest.raises(InvalidRequestException):
            await authorizer.wait_for(garbage)


@in_virtual_time
async def test_tokens_of_an_epoch_that_is_over_are_refused_and_unknown_ones_make_us_look() -> None:
    store = FakeStore()
    store.commit([create("a")])
    async with serving(store) as authorizer:
        old = str(authorizer.image.token)
        store.notify_lost = True
        store.restore(0)
        store.commit([create("b")])
        new = str(Token(store.epoch, 1))
        began_at = now()
        with pytest.raises(TokenEpochMismatchException):
            await authorizer.wait_for(new)
        await until(lambda: authorizer.image.epoch == store.epoch)
        assert now() - began_at < 0.1
        await authorizer.wait_for(new)
        with pytest.raises(TokenEpochMismatchException):
            await authorizer.wait_for(old)
