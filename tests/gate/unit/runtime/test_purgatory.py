import asyncio
from dataclasses import replace
from datetime import UTC, datetime
from random import Random
from uuid import UUID

import pytest

from app.core.epochs import Epochs
from app.core.image import AuthorizerImage
from app.core.kafka.configs import AuthorizerConfig
from app.core.kafka.errors import (
    OverloadedException,
    RequestTimedOutException,
    TokenEpochInvalidException,
    TokenEpochMismatchException,
)
from app.core.records import GENESIS_HASH, FeedHead, FeedPoll
from app.core.token import Token
from app.metrics.declared import Metrics
from app.runtime.purgatory import Purgatory
from tests.virtual_time import in_virtual_time, now


def begun_at(ms: int) -> UUID:
    """An epoch."""
    return UUID(int=ms << 80 | 7 << 76 | 2 << 62)


OTHER, ONE, THIRD = begun_at(1), begun_at(2), begun_at(3)
ONLY = Epochs.only(ONE)
HISTORY = Epochs.only(ONE).begun(THIRD, 5)
EMPTY = AuthorizerImage.empty(AuthorizerConfig())


class At:
    """A purgatory whose image is at an offset of epoch ONE."""

    def __init__(self, offset: int, bound: int = 10_000) -> None:
        self.metrics = Metrics()
        self.purgatory = Purgatory(bound, self.metrics)
        self.reach(offset)

    def reach(self, offset: int, epoch: UUID | None = ONE) -> None:
        epochs = HISTORY.upto(offset) if epoch == THIRD else None
        self.purgatory.reached(replace(EMPTY, epoch=epoch, offset=offset, epochs=epochs))

    def confirm(self, ticket: int | None = None, epochs: Epochs = ONLY, *, primary: bool = True) -> None:
        head = FeedHead("", epochs.last, 100, GENESIS_HASH, 1, known_epochs=epochs)
        poll = FeedPoll(head, GENESIS_HASH, (), datetime(2026, 11, 27, tzinfo=UTC), is_of_primary=primary)
        self.purgatory.confirmed(poll, self.purgatory.next_ticket() if ticket is None else ticket)

    def wait(self, offset: int, epoch: UUID = ONE, timeout_s: float = 10.0) -> asyncio.Task[None]:
        return asyncio.create_task(self.purgatory.wait_for(Token(epoch, offset), timeout_s))

    def wait_own(self, offset: int, epoch: UUID = ONE, timeout_s: float = 10.0) -> asyncio.Task[None]:
        return asyncio.create_task(self.purgatory.wait_for_own(Token(epoch, offset), timeout_s))


@in_virtual_time
async def test_an_offset_that_is_reached_is_not_waited_for() -> None:
    at = At(5)
    await at.purgatory.wait_for(Token(ONE, 5), 0)
    await at.purgatory.wait_for_own(Token(ONE, 4), 0)
    assert at.metrics.purgatory_size == 0


@in_virtual_time
async def test_only_those_that_are_due_wake() -> None:
    at = At(5)
    tasks = {offset: at.wait(offset) for offset in (9, 6, 8, 7, 6)}
    await asyncio.sleep(1)
    assert at.metrics.purgatory_num_delayed_operations == 5
    at.reach(7)
    await asyncio.sleep(1)
    assert {offset for offset, task in tasks.items() if task.done()} == {6, 7}
    assert at.metrics.purgatory_num_delayed_operations == 2
    assert at.metrics.purgatory_size == 2
    at.reach(100)
    await asyncio.gather(*tasks.values())
    assert at.metrics.purgatory_num_delayed_operations == at.metrics.purgatory_size == 0


@in_virtual_time
async def test_a_wait_ends_at_its_deadline() -> None:
    at = At(5)
    with pytest.raises(TimeoutError):
        await at.wait(6, timeout_s=3)
    assert now() == pytest.approx(3, abs=0.001)
    assert at.metrics.purgatory_expirations == 1
    assert at.metrics.purgatory_num_delayed_operations == 0


@in_virtual_time
async def test_an_offset_that_comes_in_the_step_of_the_deadline_counts() -> None:
    at = At(5)
    task = at.wait(6, timeout_s=3)
    asyncio.get_running_loop().call_at(3, at.reach, 6)
    await task
    assert at.metrics.purgatory_expirations == 0


@in_virtual_time
async def test_another_epoch_is_refused_once_a_look_that_began_later_has_confirmed_the_images() -> None:
    at = At(5)
    early = at.wait(1, OTHER)
    await asyncio.sleep(1)
    ticket = at.purgatory.next_ticket()
    late, of_a_later = at.wait(1, OTHER), at.wait(9, THIRD)
    await asyncio.sleep(1)
    at.confirm(ticket, primary=False)
    await asyncio.sleep(1)
    assert not early.done()
    at.confirm(ticket)
    with pytest.raises(TokenEpochMismatchException):
        await early
    await asyncio.sleep(1)
    assert not late.done()
    assert at.metrics.purgatory_size == 2
    at.confirm()
    with pytest.raises(TokenEpochMismatchException):
        await late
    assert not of_a_later.done()
    at.reach(9, THIRD)
    await of_a_later


@in_virtual_time
async def test_epoch_that_no_store_has_begun_is_refused_as_such() -> None:
    at = At(5)
    task = at.wait(1, begun_at(33_000_000_000_000))
    await asyncio.sleep(1)
    at.confirm()
    with pytest.raises(TokenEpochInvalidException):
        await task


@in_virtual_time
async def test_token_of_an_older_epoch_is_satisfied_up_to_where_the_next_one_began() -> None:
    at = At(5)
    part, lost = at.wait_own(5, ONE), at.wait(6, ONE)
    await part
    at.reach(7, THIRD)
    await at.wait(5, ONE)
    await asyncio.sleep(1)
    assert not lost.done()
    at.confirm(epochs=HISTORY)
    with pytest.raises(TokenEpochMismatchException):
        await lost


@in_virtual_time
async def test_an_epoch_that_nobody_can_tell_ends_at_the_deadline() -> None:
    at = At(5)
    with pytest.raises(TimeoutError):
        await at.wait(1, OTHER, timeout_s=3)
    assert now() == pytest.approx(3, abs=0.001)


@in_virtual_time
async def test_confirming_the_epoch_leaves_those_alone_who_wait_for_an_offset_of_it() -> None:
    at = At(5)
    task = at.wait(6)
    await asyncio.sleep(1)
    at.confirm()
    await asyncio.sleep(1)
    assert not task.done()
    at.reach(6)
    await task


@pytest.mark.parametrize("epoch", [THIRD, ONE])
@in_virtual_time
async def test_lost_epoch_satisfies_no_wait(epoch: UUID) -> None:
    at = At(5)
    at.purgatory.invalidate_epoch(OTHER)
    await at.wait(5)
    at.purgatory.invalidate_epoch(ONE)
    task = at.wait(5)
    await asyncio.sleep(1)
    assert not task.done()
    at.reach(5, epoch)
    await task


@in_virtual_time
async def test_a_woken_caller_does_not_go_on_with_an_image_that_went_back_meanwhile() -> None:
    at = At(5)
    task = at.wait(6)
    await asyncio.sleep(1)
    at.reach(6)
    at.reach(1)
    with pytest.raises(TimeoutError):
        await task


@in_virtual_time
async def test_an_epoch_that_changes_ends_the_waits_of_the_old_one() -> None:
    at = At(5)
    task, own = at.wait(6), at.wait_own(6)
    await asyncio.sleep(1)
    at.reach(100, THIRD)
    at.confirm(epochs=HISTORY)
    with pytest.raises(TokenEpochMismatchException):
        await task
    with pytest.raises(RequestTimedOutException, match="unknown"):
        await own
    assert at.metrics.purgatory_size == 0


@in_virtual_time
async def test_an_own_update_may_be_of_an_epoch_that_the_image_learns_of_later() -> None:
    at = At(5)
    task, lost = at.wait_own(7, THIRD), at.wait_own(7, ONE)
    await asyncio.sleep(1)
    at.reach(6, THIRD)
    await asyncio.sleep(1)
    assert not task.done()
    at.reach(7, THIRD)
    await task
    at.confirm(epochs=HISTORY)
    with pytest.raises(RequestTimedOutException):
        await lost


@in_virtual_time
async def test_a_woken_caller_never_goes_on_with_an_image_that_was_replaced_meanwhile() -> None:
    at = At(5)
    task = at.wait(6)
    await asyncio.sleep(1)
    at.reach(6)
    at.reach(5, THIRD)
    with pytest.raises(TimeoutError):
        await task


@in_virtual_time
async def test_an_image_that_is_lost_keeps_its_waits_until_the_next() -> None:
    at = At(5)
    task = at.wait(6)
    await asyncio.sleep(1)
    at.reach(-1, None)
    await asyncio.sleep(1)
    assert not task.done()
    at.reach(6)
    await task


@in_virtual_time
async def test_too_many_waits_are_refused_but_never_those_of_own_updates() -> None:
    at = At(5, bound=2)
    tasks = [at.wait(6), at.wait(6)]
    await asyncio.sleep(1)
    with pytest.raises(OverloadedException):
        await at.wait(6)
    own = at.wait_own(6)
    await asyncio.sleep(1)
    at.reach(6)
    await asyncio.gather(own, *tasks)
    await at.wait(6)


@in_virtual_time
async def test_callers_that_left_do_not_fill_the_purgatory_of_a_frozen_image() -> None:
    at = At(5)
    keeper = at.wait(1_000_000, timeout_s=1e6)
    for _ in range(10):
        tasks = [at.wait(6 + number, timeout_s=0.5) for number in range(500)]
        await asyncio.gather(*tasks, return_exceptions=True)
    assert at.metrics.purgatory_expirations == 5000
    assert at.metrics.purgatory_size <= 2500
    assert at.metrics.purgatory_num_delayed_operations == 1
    at.reach(1_000_000)
    await keeper


@in_virtual_time
async def test_a_purge_drops_epochs_that_nobody_waits_for() -> None:
    at = At(5)
    tasks = [at.wait_own(number, OTHER, timeout_s=0.5) for number in range(1500)]
    await asyncio.gather(*tasks, return_exceptions=True)
    task = at.wait(6)
    await asyncio.sleep(1)
    assert at.metrics.purgatory_size == 1
    at.reach(6)
    await task


@in_virtual_time
async def test_a_cancelled_caller_leaves_no_trace() -> None:
    at = At(5)
    task = at.wait(6)
    await asyncio.sleep(1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert at.metrics.purgatory_num_delayed_operations == 0
    at.reach(6)
    assert at.metrics.purgatory_size == 0


@in_virtual_time
async def test_draining_waits_for_those_who_wait_and_no_longer_than_told() -> None:
    at = At(5)
    await at.purgatory.drained(10)
    assert now() < 0.01
    task = at.wait(6)
    await asyncio.sleep(1)
    asyncio.get_running_loop().call_later(2, at.reach, 6)
    await at.purgatory.drained(10)
    assert now() == pytest.approx(3, abs=0.01)
    await task
    stuck = at.wait(7)
    await asyncio.sleep(1)
    await at.purgatory.drained(2)
    assert now() == pytest.approx(6, abs=0.01)
    at.purgatory.close()
    with pytest.raises(TimeoutError):
        await stuck
    with pytest.raises(TimeoutError):
        await at.wait(7)
    await at.wait(6)


@in_virtual_time
async def test_an_offset_that_comes_right_behind_the_deadline_in_the_same_step_counts_too() -> None:
    at = At(5)
    task = at.wait(6, timeout_s=0)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    at.reach(6)
    await task
    assert at.metrics.purgatory_expirations == 0


@in_virtual_time
async def test_a_purge_keeps_the_order_of_those_who_wait() -> None:
    at, random = At(0), Random(7)
    offsets = random.sample(range(1, 10_000), 3000)
    tasks = {offset: at.wait(offset, timeout_s=0.5 if number % 3 else 1e6) for number, offset in enumerate(offsets)}
    await asyncio.sleep(1)
    stay = {offset: task for offset, task in tasks.items() if not task.done()}
    await asyncio.gather(*(tasks[offset] for offset in tasks if offset not in stay), return_exceptions=True)
    stay[10_000] = at.wait(10_000)
    await asyncio.sleep(0.1)
    assert at.metrics.purgatory_size == 1001
    for reached in range(500, 10_001, 500):
        at.reach(reached)
        await asyncio.sleep(0.1)
        assert {offset for offset, task in stay.items() if task.done()} == {each for each in stay if each <= reached}
