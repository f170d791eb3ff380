import asyncio

import pytest

from app.runtime.deadlines import bounded, stop
from tests.virtual_time import in_virtual_time, now


async def give(value: int, after_s: float = 0.0) -> int:
    await asyncio.sleep(after_s)
    return value


async def fail() -> None:
    await asyncio.sleep(0)
    raise ValueError("broken")


async def cling(released: asyncio.Event, fault: Exception | None = None) -> int:
    """Swallows every cancellation until it is released."""
    while not released.is_set():
        try:
            await released.wait()
        except asyncio.CancelledError:
            continue
    if fault is not None:
        raise fault
    return 1


@in_virtual_time
async def test_work_that_ends_in_time_gives_its_result() -> None:
    assert await bounded(give(7, 0.9), 1.0) == 7


@in_virtual_time
async def test_a_fault_of_the_work_comes_through() -> None:
    with pytest.raises(ValueError, match="broken"):
        await bounded(fail(), 1.0)


@in_virtual_time
async def test_work_that_takes_too_long_is_cancelled() -> None:
    with pytest.raises(TimeoutError):
        await bounded(give(7, 5.0), 1.0)
    assert now() == pytest.approx(1.0, abs=0.001)


@in_virtual_time
async def test_work_that_answers_its_cancellation_is_heard() -> None:
    async def answer() -> str:
        try:
            await asyncio.sleep(5)
        except asyncio.CancelledError:
            return "committed after all"
        return "never"

    assert await bounded(answer(), 1.0) == "committed after all"


@pytest.mark.parametrize("fault", [None, ValueError("too late")])
@in_virtual_time
async def test_work_that_swallows_cancellation_is_left_behind(fault: Exception | None) -> None:
    released = asyncio.Event()
    with pytest.raises(TimeoutError):
        await bounded(cling(released, fault), 1.0)
    assert now() == pytest.approx(1.5, abs=0.001)
    released.set()
    await asyncio.sleep(1)


@in_virtual_time
async def test_the_callers_cancellation_reaches_the_work() -> None:
    ended = asyncio.Event()

    async def work() -> None:
        try:
            await asyncio.sleep(5)
        finally:
            ended.set()

    task = asyncio.create_task(bounded(work(), 10.0))
    await asyncio.sleep(1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended.is_set()


@in_virtual_time
async def test_stopping_a_task_that_has_failed_already_is_quiet() -> None:
    task = asyncio.create_task(fail())
    await asyncio.sleep(1)
    await stop(task)
    assert task.done()
