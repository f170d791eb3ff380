"""The pace of a round to all readers: what decisions that are asked for meanwhile get of the event loop."""

import asyncio

import pytest

from app.runtime.watch import fan_out
from app.runtime.watch.fan_out import FanOutPace
from tests.virtual_time import in_virtual_time, now
from tests.world import OPTIONS

_STEP_S = 0.0003
_STEPS = 100
_WORK_S = _STEPS * _STEP_S
_TURNS_S = 0.1 * _WORK_S
"""More than the turns of the loop take of virtual time."""
_LONG_S = 1.0


class _Round:
    """Steps that take CPU time, but none of the clock's: what passes there are rests."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.decisions = 0
        self._cpu_s = 0.0
        monkeypatch.setattr(fan_out, "thread_time", lambda: self._cpu_s)
        self.pace = FanOutPace(OPTIONS, lambda: self.decisions)

    async def rests_s(self, decisions_a_step: int) -> float:
        began = now()
        for _ in range(_STEPS):
            self.pace.begin_step()
            self._cpu_s += _STEP_S
            self.decisions += decisions_a_step
            await self.pace.end_step(are_woken=False)
        return now() - began


@in_virtual_time
async def test_while_nobody_asks_readers_have_the_loop_to_themselves(monkeypatch: pytest.MonkeyPatch) -> None:
    quiet = _Round(monkeypatch)
    assert await quiet.rests_s(decisions_a_step=0) < _TURNS_S
    assert quiet.pace.pause_s() <= 0


@in_virtual_time
async def test_decisions_get_half_of_a_round_and_three_quarters_with_the_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    shared = _Round(monkeypatch)
    rests_s = await shared.rests_s(decisions_a_step=1)
    assert rests_s == pytest.approx(_WORK_S, rel=0.1)
    assert rests_s + shared.pace.pause_s() == pytest.approx(4 * _WORK_S, rel=0.01)


@in_virtual_time
async def test_a_decision_brings_a_pause_and_rests_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    shared = _Round(monkeypatch)
    assert await shared.rests_s(decisions_a_step=0) < _TURNS_S
    shared.decisions += 1
    assert shared.pace.pause_s() > 0
    shared.pace.begin_round()
    assert await shared.rests_s(decisions_a_step=0) > _TURNS_S
    await asyncio.sleep(_LONG_S)
    shared.pace.begin_round()
    assert await shared.rests_s(decisions_a_step=0) < _TURNS_S
