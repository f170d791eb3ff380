"""Places for snapshots and pages: shared out among callers, and slow ones give way."""

import asyncio
from contextlib import AsyncExitStack, suppress
from typing import Any, Self

import pytest

from app.core.kafka.errors import OverloadedException
from app.runtime.watch.lines import Line
from app.runtime.watch.places import PlaceOwner, Places, ReaderPlace
from tests.virtual_time import in_virtual_time
from tests.world import OPTIONS

GREEDY, OTHER, THIRD = PlaceOwner("greedy"), PlaceOwner("other"), PlaceOwner("third")
MIB = 1024 * 1024


class Crowd:
    """Who has a place, who was refused, and who was cut. One that is cut gives its place back."""

    def __init__(self, places: Places) -> None:
        self.held: list[PlaceOwner] = []
        self.refused: list[PlaceOwner] = []
        self.cut: list[PlaceOwner] = []
        self._places = places
        self._tasks: list[asyncio.Task[None]] = []
        self._leave: dict[asyncio.Task[Any] | None, asyncio.Event] = {}

    def come(self, caller: PlaceOwner, bytes_per_s: float = 0.0) -> asyncio.Task[None]:
        task = asyncio.create_task(self._read(caller, bytes_per_s))
        self._tasks.append(task)
        self._leave[task] = asyncio.Event()
        return task

    def leave(self, task: asyncio.Task[None]) -> None:
        self._leave[task].set()

    async def _read(self, caller: PlaceOwner, bytes_per_s: float) -> None:
        try:
            async with self._places.place(caller) as place:
                self.held.append(caller)
                await self._take(place, bytes_per_s, self._leave[asyncio.current_task()])
                self.held.remove(caller)
                if place.is_cut:
                    self.cut.append(caller)
        except OverloadedException:
            self.refused.append(caller)

    async def _take(self, place: ReaderPlace, bytes_per_s: float, leave: asyncio.Event) -> None:
        line = Line("acls", None, b"")
        place.keep([line])
        while not (place.is_cut or leave.is_set()):
            await asyncio.sleep(0.1)
            line.sent += int(0.1 * bytes_per_s)
        assert line.is_withdrawn == place.is_cut

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task


def snapshots() -> Places:
    return Places(4, OPTIONS, queue=16, wait_s=2.0)


@in_virtual_time
async def test_caller_with_slow_readers_keeps_nobody_else_from_a_place() -> None:
    async with Crowd(snapshots()) as crowd:
        for _ in range(4):
            crowd.come(GREEDY, bytes_per_s=MIB)
        await asyncio.sleep(3)
        others = [crowd.come(OTHER, bytes_per_s=100 * MIB) for _ in range(6)]
        for _ in range(3):
            await asyncio.sleep(1.5)
            for task in others[:2]:
                crowd.leave(task)
            others = others[2:]
            # As an attacker would.
            crowd.come(GREEDY, bytes_per_s=MIB)
        await asyncio.sleep(1)
        assert OTHER not in crowd.cut


@in_virtual_time
async def test_free_place_goes_to_the_caller_that_has_fewest() -> None:
    async with Crowd(snapshots()) as crowd:
        first, *_ = [crowd.come(GREEDY, bytes_per_s=100 * MIB) for _ in range(4)]
        await asyncio.sleep(0.2)
        for _ in range(5):
            crowd.come(GREEDY)
        await asyncio.sleep(0)
        crowd.come(OTHER)
        await asyncio.sleep(0)
        crowd.leave(first)
        await asyncio.sleep(0.2)
        assert sorted(crowd.held) == [*[GREEDY] * 3, OTHER]
        assert crowd.cut == []


@in_virtual_time
async def test_quick_readers_keep_their_places() -> None:
    async with Crowd(snapshots()) as crowd:
        for _ in range(4):
            crowd.come(GREEDY, bytes_per_s=100 * MIB)
        await asyncio.sleep(3)
        crowd.come(OTHER)
        await asyncio.sleep(3)
        assert (crowd.cut, crowd.refused) == ([], [OTHER])


@in_virtual_time
async def test_share_of_two_callers_is_half_each_whoever_came_first() -> None:
    async with Crowd(snapshots()) as crowd:
        for _ in range(4):
            crowd.come(GREEDY, bytes_per_s=MIB)
        await asyncio.sleep(3)
        for _ in range(3):
            crowd.come(OTHER, bytes_per_s=MIB)
        await asyncio.sleep(10)
        assert sorted(crowd.held) == [GREEDY, GREEDY, OTHER, OTHER]
        assert (crowd.cut, crowd.refused) == ([GREEDY, GREEDY], [OTHER])


@in_virtual_time
async def test_reader_that_takes_nothing_gives_way_to_another_of_its_caller() -> None:
    async with Crowd(snapshots()) as crowd:
        for _ in range(3):
            crowd.come(GREEDY, bytes_per_s=MIB)
        crowd.come(GREEDY)
        await asyncio.sleep(3)
        for _ in range(2):
            crowd.come(GREEDY, bytes_per_s=MIB)
        await asyncio.sleep(10)
        assert (len(crowd.held), crowd.cut, crowd.refused) == (4, [GREEDY], [GREEDY])


@in_virtual_time
async def test_the_service_itself_is_never_cut() -> None:
    async with Crowd(snapshots()) as crowd:
        for _ in range(4):
            crowd.come(PlaceOwner("", is_own=True))
        await asyncio.sleep(3)
        crowd.come(OTHER)
        await asyncio.sleep(10)
        assert (crowd.cut, crowd.refused) == ([], [OTHER])


@in_virtual_time
async def test_full_queue_makes_room_for_a_caller_that_has_less_of_it() -> None:
    async with Crowd(Places(1, OPTIONS, queue=4, wait_s=100.0)) as crowd:
        held = crowd.come(GREEDY, bytes_per_s=100 * MIB)
        await asyncio.sleep(0)
        for caller in [GREEDY] * 5 + [OTHER, OTHER, OTHER]:
            crowd.come(caller)
            await asyncio.sleep(0.01)
        assert crowd.refused == [GREEDY, GREEDY, GREEDY, OTHER]
        crowd.leave(held)
        await asyncio.sleep(0.2)
        assert len(crowd.held) == 1


@in_virtual_time
async def test_reader_that_leaves_the_queue_takes_no_place_with_it() -> None:
    places = Places(1, OPTIONS, wait_s=100.0)
    async with AsyncExitStack() as held:
        await held.enter_async_context(places.place(GREEDY))
        for _ in range(3):
            waiting = asyncio.create_task(held.enter_async_context(places.place(OTHER)))
            await asyncio.sleep(0.1)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
    # Given and cancelled in the same turn.
    async with AsyncExitStack() as held:
        await held.enter_async_context(places.place(GREEDY))
        waiting = asyncio.create_task(held.enter_async_context(places.place(OTHER)))
        await asyncio.sleep(0.1)
        await held.aclose()
        waiting.cancel()
        with suppress(asyncio.CancelledError):
            await waiting
        await held.aclose()
    async with asyncio.timeout(0.1), places.place(THIRD):
        pass
