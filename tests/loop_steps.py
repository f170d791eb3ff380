"""How long each step of the event loop takes, in CPU time of the loop's thread."""

import asyncio
import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import wraps
from time import thread_time
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


@dataclass(slots=True)
class Steps:
    count: int = 0
    longest_s: float = 0.0
    longest: str = ""
    """What took longest."""


class _Apart:
    spent_s = 0.0


def apart(work: Callable[P, R]) -> Callable[P, R]:
    """The same, without its time being counted: for what stands in for another process, as a store in memory."""

    @wraps(work)
    def run(*arguments: P.args, **named: P.kwargs) -> R:
        began = thread_time()
        try:
            return work(*arguments, **named)
        finally:
            _Apart.spent_s += thread_time() - began

    return run


@contextmanager
def measured_steps() -> Iterator[Steps]:
    """Measures each step of asyncio's own loop. uvloop has steps of its own, which nothing measures here.

    Only time on the core counts, so neighbours add nothing but what they take from the caches: the least of several
    tries is what the code takes. The interpreter's garbage collector is off meanwhile, as the service runs it apart
    from requests (`runtime/collection`), and the objects of a test suite are not the service's.
    """
    steps, usual = Steps(), asyncio.Handle._run

    def run(handle: asyncio.Handle) -> None:
        began = thread_time() - _Apart.spent_s
        try:
            usual(handle)
        finally:
            took = thread_time() - _Apart.spent_s - began
            steps.count += 1
            if took > steps.longest_s:
                steps.longest_s, steps.longest = took, repr(handle)

    was_enabled = gc.isenabled()
    gc.disable()
    asyncio.Handle._run = run  # type: ignore[method-assign,assignment]
    try:
        yield steps
    finally:
        asyncio.Handle._run = usual  # type: ignore[method-assign]
        if was_enabled:
            gc.enable()


@dataclass(slots=True)
class Turns:
    count: int = 0
    longest_s: float = 0.0


@contextmanager
def measured_turns() -> Iterator[Turns]:
    """As `measured_steps`, but whole turns: all steps that are ready at once, for which a request has to wait."""
    turns, loop_class = Turns(), asyncio.BaseEventLoop
    usual = loop_class._run_once  # type: ignore[attr-defined]  # private

    def run_once(loop: asyncio.BaseEventLoop) -> None:
        began = thread_time() - _Apart.spent_s
        usual(loop)
        turns.count += 1
        turns.longest_s = max(turns.longest_s, thread_time() - _Apart.spent_s - began)

    was_enabled = gc.isenabled()
    gc.disable()
    loop_class._run_once = run_once  # type: ignore[attr-defined]
    try:
        yield turns
    finally:
        loop_class._run_once = usual  # type: ignore[attr-defined]
        if was_enabled:
            gc.enable()
