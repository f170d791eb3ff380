"""Loads take their turn with those of sibling processes; waiting for it, a replica goes on as it was."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from uuid import UUID

from app.runtime.readiness import State
from tests.fakes import FakeStore
from tests.klamm import until
from tests.virtual_time import in_virtual_time, now
from tests.world import OPTIONS, authorizer_on, create, may_read, until_ready


class Turn:
    """Had by one at a time; `entered` counts how often."""

    def __init__(self) -> None:
        self.entered = 0
        self.patience_s: list[float] = []
        self.lock = asyncio.Lock()

    @asynccontextmanager
    async def __call__(self, patience_s: float) -> AsyncIterator[None]:
        self.patience_s.append(patience_s)
        async with self.lock:
            self.entered += 1
            yield


def filled() -> FakeStore:
    store = FakeStore()
    store.commit([create("orders")])
    return store


@in_virtual_time
async def test_nothing_is_loaded_before_the_turn_comes_and_it_is_given_back() -> None:
    store, turn = filled(), Turn()
    await turn.lock.acquire()
    async with authorizer_on(store, replace(OPTIONS, load_turn=turn), ready=False) as authorizer:
        await until(lambda: now() > 20)
        assert authorizer.readiness.state is State.LOADING
        turn.lock.release()
        await until_ready(authorizer)
        assert (turn.entered, turn.lock.locked()) == (1, False)


@in_virtual_time
async def test_a_load_that_fails_gives_its_turn_back() -> None:
    store, turn = filled(), Turn()
    store.unreachable = True
    async with authorizer_on(store, replace(OPTIONS, load_turn=turn), ready=False) as authorizer:
        await until(lambda: turn.entered > 3)
        store.unreachable = False
        await until_ready(authorizer)
        assert not turn.lock.locked()


@in_virtual_time
async def test_a_replica_decides_on_from_its_image_while_it_waits_to_reload() -> None:
    store, turn = filled(), Turn()
    async with authorizer_on(store, replace(OPTIONS, load_turn=turn), ready=False) as authorizer:
        await until_ready(authorizer)
        async with turn.lock:
            store.epoch = UUID(int=7)
            await until(lambda: authorizer.readiness.state is State.LAGGING)
            waited_from = now()
            await until(lambda: now() > waited_from + 20)
            assert may_read(authorizer, "orders")
            assert authorizer.image.epoch != store.epoch
        await until(lambda: authorizer.image.epoch == store.epoch)
        assert turn.entered == 2
        # Nobody is served while it waits for the first, and by an image that is over while it waits for the next.
        assert turn.patience_s == [OPTIONS.first_turn_s, OPTIONS.reload_turn_s]
        assert OPTIONS.reload_turn_s <= 5


@in_virtual_time
async def test_a_replica_that_closes_does_not_wait_for_its_turn() -> None:
    turn = Turn()
    await turn.lock.acquire()
    async with authorizer_on(filled(), replace(OPTIONS, load_turn=turn), ready=False):
        await until(lambda: now() > 1)
        closing_from = now()
    assert now() < closing_from + 60
    turn.lock.release()
    assert turn.entered == 0
