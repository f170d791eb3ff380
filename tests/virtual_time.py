"""An event loop whose time is free: waiting for a timer costs nothing, and nothing depends on the machine's speed."""

import asyncio
import selectors
from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any, ParamSpec

from app.formats.clock import Clock

P = ParamSpec("P")


_TICK_S = 0.000_01


class _Selector(selectors.DefaultSelector):
    """Instead of sleeping until the next timer, it moves the clock there; a turn of the loop costs a tick."""

    now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            raise RuntimeError("every task waits, and no timer is set: nothing will ever happen")
        ready = super().select(0)
        # What can be read already is not waited for.
        self.now += _TICK_S if ready else max(_TICK_S, timeout)
        return ready


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """Starts at 0 seconds. `faults` collects what would only be logged otherwise."""

    def __init__(self) -> None:
        self._virtual = _Selector()
        self.faults: list[dict[str, Any]] = []
        super().__init__(self._virtual)
        self.set_exception_handler(lambda _, context: self.faults.append(context))

    def time(self) -> float:
        return self._virtual.now

    def stand_still(self, seconds: float) -> None:
        self._virtual.now += seconds


def in_virtual_time(test: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    """Run an asynchronous test in a loop of its own; faults that nobody looked at fail it."""

    @wraps(test)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        loop = VirtualTimeLoop()
        with asyncio.Runner(loop_factory=lambda: loop) as runner:
            runner.run(test(*args, **kwargs))
        assert not loop.faults, loop.faults

    return run


def now() -> float:
    """Seconds since the test began."""
    return asyncio.get_running_loop().time()


EPOCH_S = 1_800_000_000.0
"""The wall clock's time when virtual time begins."""


VIRTUAL_CLOCK = Clock(monotonic=now, wall=lambda: EPOCH_S + now(), jitter=lambda _least, most: most)
"""Goes with the test's event loop. Nothing is drawn: rests are as long as they may be, so that times are exact."""


def freeze(seconds: float) -> None:
    """The process stands still for so long, as after SIGSTOP: nothing of it runs, and its clocks go on."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualTimeLoop)
    loop.stand_still(seconds)
