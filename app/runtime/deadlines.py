"""Waits with a deadline."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")

_GRACE_S = 0.5

_abandoned: set[asyncio.Task[Any]] = set()


async def bounded(work: Coroutine[Any, Any, T], seconds: float) -> T:
    """Raises TimeoutError. Work that ignores its cancellation, as on a half-open connection, is left behind."""
    task = asyncio.create_task(work)
    try:
        await asyncio.wait({task}, timeout=seconds)
    finally:
        # Also when the caller is cancelled: the work gets the chance to tidy up first.
        await stop(task)
    if task.cancelled():
        raise TimeoutError
    if task.done():
        return task.result()
    raise TimeoutError


async def answered(answer: asyncio.Future[T], seconds: float) -> T:
    """Awaits a future that somebody else settles. Raises TimeoutError at the deadline, and sets it on the future.

    It costs a fraction of asyncio.timeout, which matters where every update waits twice.
    """
    deadline = answer.get_loop().call_later(seconds, _expire, answer)
    try:
        return await answer
    finally:
        deadline.cancel()


def _expire(answer: asyncio.Future[Any]) -> None:
    if not answer.done():
        answer.set_exception(TimeoutError())


async def stop(task: asyncio.Task[Any]) -> None:
    """Cancels the task and waits a moment for its end; a task that does not end by then is left behind."""
    if not task.done():
        task.cancel()
        await asyncio.wait({task}, timeout=_GRACE_S)
    if task.done():
        _forget(task)
    else:
        _abandoned.add(task)
        task.add_done_callback(_forget)


def _forget(task: asyncio.Task[Any]) -> None:
    _abandoned.discard(task)
    if not task.cancelled():
        task.exception()  # asyncio warns of exceptions that were never retrieved
