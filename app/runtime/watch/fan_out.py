"""How much of the event loop's time goes into sending a change to all readers.

Steps take about 0.3 ms, and requests come through after each step. While decisions are asked for, there is a rest
after each millisecond, and a round to all readers is followed by a pause three times as long as its steps took: changes
that come meanwhile go out together, and an endless stream of them costs decisions a quarter of the loop. While nobody
asks, readers have the loop's time to themselves, and a change reaches all of them as soon as it can.
"""

import asyncio
from collections.abc import Callable
from time import perf_counter, thread_time

from app.runtime.options import RuntimeOptions

_STEP_S = 0.0003
_RUN_S = 0.001
_REST_S = 0.001
_LONGEST_STEP_S = 0.002
"""A step in which readers need longer than those of the step before ends early."""
_FEWEST, _FIRST, _MOST = 4, 16, 64
_SHARE = 0.25
_LONGEST_PAUSE_S = 0.25
_SHARED_S = 0.25
"""After a decision, more are expected within this time."""


class FanOutPace:
    """The pace of all rounds, one after the other."""

    def __init__(self, options: RuntimeOptions, decisions: Callable[[], int]) -> None:
        """`decisions` counts those that were made so far."""
        self.at_once = _FIRST
        """How many readers the next step sends to."""
        self._clock = options.clock.monotonic
        self._decisions = decisions
        self._decided = decisions()
        self._shared_until = 0.0
        self._round_began = self._clock()
        self._step_began = self._step_ends = self._run_s = self._spent_s = 0.0

    def begin_round(self) -> None:
        self._round_began = self._clock()
        self._run_s = self._spent_s = 0.0

    def begin_step(self) -> None:
        # CPU time of this thread: time that other processes had the core is not our work.
        self._step_began = thread_time()
        self._step_ends = perf_counter() + _LONGEST_STEP_S

    def is_step_over(self) -> bool:
        """Whether no more readers may be sent to in this step."""
        # A tenth of what the CPU time costs to read. Where other processes have the core, steps are shorter.
        return perf_counter() > self._step_ends

    async def end_step(self, *, are_woken: bool) -> None:
        """Await this after each step. `are_woken`: some readers were woken and send for themselves now."""
        # What the kernel did not take at once, it is offered again in the next turn of the loop.
        await asyncio.sleep(0)
        if are_woken:
            await asyncio.sleep(0)
        took_s = thread_time() - self._step_began
        self._run_s += took_s
        self._spent_s += took_s
        if took_s > _STEP_S:
            self.at_once = max(_FEWEST, self.at_once // 2)
        elif took_s < _STEP_S / 2:
            self.at_once = min(_MOST, self.at_once * 2)
        if self._run_s >= _RUN_S:
            if self._is_shared():
                # Decisions get at least as much of the loop's time as readers.
                await asyncio.sleep(max(_REST_S, self._run_s))
            self._run_s = 0.0

    def pause_s(self) -> float:
        """Seconds until the next round may begin."""
        if not self._is_shared():
            return 0.0
        due_s = min(self._spent_s / _SHARE, self._spent_s + _LONGEST_PAUSE_S)
        return self._round_began + due_s - self._clock()

    def _is_shared(self) -> bool:
        """Whether decisions need the loop, too: one was made recently."""
        decided, now = self._decisions(), self._clock()
        if decided != self._decided:
            self._decided, self._shared_until = decided, now + _SHARED_S
        return now < self._shared_until
