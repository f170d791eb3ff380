"""Who waits to be sent something, and when each gets its turn: in rounds, so that no number of readers holds up a
decision.
"""

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from enum import Enum, auto

from app.runtime.watch.fan_out import FanOutPace

_SHORTEST_DELAY_S, _LONGEST_DELAY_S = 0.001, 0.1
"""After such times, a client that has not taken what it was sent is looked at again."""
_MOST_WOKEN = 8
"""Of one step: what they do next is not in the step that wakes them."""

_log = logging.getLogger(__name__)


class PushResult(Enum):
    IDLE = auto()
    """There is nothing more to send: push again when there is news, or when it is due."""
    MORE = auto()
    """Something was sent, and there is more: push again in the next round."""
    BLOCKED = auto()
    """The client must first take what it was sent: push again after a delay."""
    DONE = auto()
    """The wait is over."""


Push = Callable[[], PushResult]
"""Sends what fits into one slice, if the client takes it."""


class Rounds:
    """INVARIANT: everything that is written to readers, but the first slice of what one was woken for, is written here,
    within the pace of all rounds.
    """

    def __init__(self, pace: FanOutPace) -> None:
        self._pace = pace
        self._idle: dict[_Wait, None] = {}
        self._due: list[_Wait] = []
        """Those of the next round."""
        self._has_news = False
        self.is_closed = False
        """Whether nobody is sent anything any more."""
        self._stirred = asyncio.Event()
        self._urgent = asyncio.Event()

    def announce(self, *, is_urgent: bool = False) -> None:
        """There is news for all that are idle. `is_urgent`: their streams may have to end, so no pause is made."""
        self._has_news = True
        self._stirred.set()
        if is_urgent:
            self._urgent.set()

    async def wait(self, push: Push, due_s: Callable[[], float], result: PushResult = PushResult.IDLE) -> None:
        """Waits until `push` says DONE. `result` is what it said last; `due_s` is in how many seconds it is due.

        `push` is called within a step of the loop, and never by two rounds at once.
        """
        if self.is_closed:
            return
        wait = _Wait(push, due_s)
        try:
            self._put(wait, result)
            await wait.done
        finally:
            self._idle.pop(wait, None)
            wait.end()

    async def run(self) -> None:
        while True:
            await self._stirred.wait()
            self._stirred.clear()
            self._urgent.clear()
            due, self._due = self._due, []
            if self._has_news:
                self._has_news = False
                due = [*self._idle, *due]
            try:
                await self._take(due)
            except Exception:  # noqa: BLE001 - an unexpected fault must not end this: every reader would wait for ever
                _log.exception("watch_round_failed")
                for wait in due:
                    # Each goes on by itself.
                    wait.finish()

    def close(self) -> None:
        """Ends all waits; call it when `run` has ended."""
        self.is_closed = True
        for wait in [*self._idle, *self._due]:
            wait.finish()

    async def _take(self, due: "list[_Wait]") -> None:
        self._pace.begin_round()
        await self._round(due)
        pause_s = self._pace.pause_s()
        if pause_s > 0:
            with suppress(TimeoutError):
                async with asyncio.timeout(pause_s):
                    await self._urgent.wait()

    async def _round(self, waits: "list[_Wait]") -> None:
        at = 0
        while at < len(waits):
            self._pace.begin_step()
            until, woken = min(len(waits), at + self._pace.at_once), 0
            while at < until and woken < _MOST_WOKEN and not self._pace.is_step_over():
                wait = waits[at]
                at += 1
                # INVARIANT: only readers that still wait are pushed to; any other may have lines under way.
                if not wait.done.done():
                    self._put(wait, _push_safely(wait.push))
                    woken += wait.done.done()
            await self._pace.end_step(are_woken=woken > 0)

    def _put(self, wait: "_Wait", result: PushResult) -> None:
        if result is PushResult.IDLE:
            self._idle[wait] = None
            wait.delay_s = _SHORTEST_DELAY_S
            if wait.timer is None:
                self._set_timer(wait, wait.due_s())
            return
        self._idle.pop(wait, None)
        wait.cancel_timer()
        if result is PushResult.MORE:
            wait.delay_s = _SHORTEST_DELAY_S
            self._put_due(wait)
        elif result is PushResult.BLOCKED:
            self._set_timer(wait, wait.delay_s)
            wait.delay_s = min(2 * wait.delay_s, _LONGEST_DELAY_S)
        else:
            wait.finish()

    def _set_timer(self, wait: "_Wait", seconds: float) -> None:
        wait.timer = asyncio.get_running_loop().call_later(seconds, self._put_due, wait)

    def _put_due(self, wait: "_Wait") -> None:
        wait.timer = None
        if self.is_closed:
            wait.finish()
            return
        self._idle.pop(wait, None)
        self._due.append(wait)
        self._stirred.set()


class _Wait:
    __slots__ = ("delay_s", "done", "due_s", "push", "timer")

    def __init__(self, push: Push, due_s: Callable[[], float]) -> None:
        self.push = push
        self.due_s = due_s
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.timer: asyncio.TimerHandle | None = None
        self.delay_s = _SHORTEST_DELAY_S

    def finish(self) -> None:
        if not self.done.done():
            self.done.set_result(None)

    def cancel_timer(self) -> None:
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None

    def end(self) -> None:
        self.cancel_timer()
        self.done.cancel()
        # A round may still hold this, and must not hold its reader.
        self.push, self.due_s = _nothing_to_push, _never


def _nothing_to_push() -> PushResult:
    return PushResult.DONE


def _never() -> float:
    return _LONGEST_DELAY_S


def _push_safely(push: Push) -> PushResult:
    """What `push` says. INVARIANT: a fault with one reader holds up no other."""
    try:
        return push()
    except Exception:  # noqa: BLE001 - the reader is woken, and meets it again or ends
        _log.exception("watch_push_failed")
        return PushResult.DONE
