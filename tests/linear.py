"""Whether work grows with its input as it may: by CPU time for an input and for one of four times its length."""

import gc
import time
from collections.abc import Callable

_LONGER = 4
MOST = 8.0
"""Linear work takes 4 times as long, quadratic 16 times."""
_LEAST_TRIES = 2
_TRIES = 40
_SLOT_S = 0.0002
_HOPELESS_S = 1.0
_ROUNDS = 3
_PAUSE_S = 0.3


def grows(work: Callable[[int], Callable[[], object]], size: int) -> float:
    """How many times longer the work takes for an input of four times the length; well below 8 if it is linear.

    `work` prepares an input of a size and gives what is to be measured. Only the least of many runs counts, of time on
    the core: whatever else the machine does adds to some runs and takes nothing from any.
    """
    short, long = work(size), work(_LONGER * size)
    repeats = 1
    while (least_short := _spent(short, repeats) / repeats) * repeats < _SLOT_S:
        repeats *= 2
    # What is over at once is repeated, or reading the clock would be most of it.
    long_repeats = max(1, repeats // _LONGER)
    least_long = float("inf")
    gc.disable()
    try:
        for tries in range(_TRIES):
            took = _spent(long, long_repeats)
            least_long = min(least_long, took / long_repeats)
            least_short = min(least_short, _spent(short, repeats) / repeats)
            # The first runs of the short input may both have been held up.
            if (tries >= _LEAST_TRIES and least_long / least_short < MOST) or took > _HOPELESS_S:
                break
    finally:
        gc.enable()
    return least_long / least_short


def is_linear(work: Callable[[int], Callable[[], object]], size: int) -> bool:
    """Whether the work is at worst linear. It is asked anew, as neighbours that leave it no cache can spoil a round."""
    for _ in range(_ROUNDS):
        if grows(work, size) < MOST:
            return True
        time.sleep(_PAUSE_S)
    return False


def _spent(work: Callable[[], object], repeats: int) -> float:
    began = time.thread_time()
    for _ in range(repeats):
        work()
    return time.thread_time() - began
