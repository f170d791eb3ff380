"""The time and the random numbers that a part goes by: it stands in the part's options, and tests give another one."""

import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

_monotonic = partial(time.clock_gettime, getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


@dataclass(frozen=True, slots=True, kw_only=True)
class Clock:
    """Its fields are the functions themselves, as one is called for each decision. Times are in seconds.

    Waits go by the event loop. Its time can't stand for this one: it stands still within a turn, and while suspended.
    """

    monotonic: Callable[[], float] = _monotonic
    """Never goes back, and counts on while the machine is suspended where its system has such a clock."""
    wall: Callable[[], float] = time.time
    """Since 1970. No other one goes on while the service is down."""
    jitter: Callable[[float, float], float] = random.uniform
    """Draws a number between two others."""


SYSTEM_CLOCK = Clock()
