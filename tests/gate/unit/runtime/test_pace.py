import asyncio
import gc
from collections.abc import Iterator

import pytest

from app.core.collection import collection_paused
from app.runtime import pace
from app.runtime.pace import Pace, run_through
from tests.virtual_time import freeze, in_virtual_time, now


@pytest.fixture(autouse=True)
def _work_takes_virtual_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pace, "perf_counter", now)


async def is_given_away(after_s: float) -> bool:
    """Whether others come through when the work breathes after so long."""
    turns: list[None] = []
    pace = Pace()
    asyncio.get_running_loop().call_soon(turns.append, None)
    freeze(after_s)
    await pace.breathe()
    return bool(turns)


@in_virtual_time
async def test_short_work_keeps_the_loop() -> None:
    assert not await is_given_away(0.0009)


@in_virtual_time
async def test_after_a_millisecond_the_loop_is_given_away_and_taken_back_if_nobody_waits() -> None:
    assert await is_given_away(0.0011)
    # No rest, which takes two milliseconds.
    assert now() == pytest.approx(0.0011, abs=0.0005)


@in_virtual_time
async def test_if_requests_use_the_turn_the_work_rests() -> None:
    pace = Pace()
    asyncio.get_running_loop().call_soon(freeze, 0.0004)
    freeze(0.0011)
    await pace.breathe()
    assert now() == pytest.approx(0.0011 + 0.0004 + 0.002, abs=0.0005)


@in_virtual_time
async def test_all_steps_are_taken() -> None:
    taken: list[int] = []

    def steps() -> Iterator[None]:
        for number in range(1000):
            taken.append(number)
            yield

    await run_through(steps())
    assert len(taken) == 1000


@pytest.mark.parametrize("was_enabled", [True, False])
def test_collection_is_paused_and_afterwards_as_it_was(was_enabled: bool) -> None:  # noqa: FBT001 - a parameter of pytest
    def fail_within() -> None:
        with collection_paused():
            assert not gc.isenabled()
            raise ValueError("broken")

    (gc.enable if was_enabled else gc.disable)()
    try:
        with pytest.raises(ValueError, match="broken"):
            fail_within()
        assert gc.isenabled() is was_enabled
    finally:
        gc.enable()
