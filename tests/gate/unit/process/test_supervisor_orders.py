"""What a supervisor makes of signals and of what workers tell it. The workers are other ends of channels in here."""

import asyncio
import operator
import signal
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import pytest

from app.process.channel import Channel
from app.process.supervisor import Supervisor
from tests.klamm import until


@pytest.fixture(autouse=True)
def own_signals() -> Iterator[None]:
    """The supervisor's handlers stay when it is done; here they go."""
    before = {each: signal.getsignal(each) for each in (signal.SIGTERM, signal.SIGINT)}
    yield
    for each, handler in before.items():
        signal.signal(each, handler)


class Worker:
    """Stands for a worker's process, and notes what it is told and sent."""

    def __init__(self, number: int) -> None:
        self.number, self.pid = number, 0
        self.returncode: int | None = None
        self.told: list[str] = []
        self.signals: list[int] = []
        self.supervisor_s, end = socket.socketpair()
        self.channel = Channel(end, self._hear)

    async def _hear(self, subject: str, _: object) -> object:
        self.told.append(subject)
        return None

    def poll(self) -> int | None:
        return self.returncode

    def send_signal(self, number: int) -> None:
        self.signals.append(number)

    async def end(self) -> None:
        self.returncode = 0
        await self.channel.close()


@asynccontextmanager
async def supervised(
    count: int, once_serving: Callable[[], Awaitable[None]] | None = None
) -> AsyncIterator[list[Worker]]:
    workers: list[Worker] = []

    def launch(number: int) -> Any:  # noqa: ANN401 - in a process' place
        workers.append(Worker(number))
        return workers[-1], workers[-1].supervisor_s

    running = asyncio.create_task(Supervisor(count, launch, once_serving=once_serving).run())
    await until(lambda: len(workers) == count)
    for worker in workers:
        await worker.channel.open()
    try:
        yield workers
    finally:
        signal.raise_signal(signal.SIGTERM)
        await until(lambda: all(worker.signals for worker in workers))
        for worker in workers:
            await worker.end()
        await running


async def test_ctrl_c_ends_workers_in_order_and_once_more_is_passed_on_to_them() -> None:
    async with supervised(2) as workers:
        signal.raise_signal(signal.SIGINT)
        await until(lambda: all(worker.signals for worker in workers))
        assert [worker.signals for worker in workers] == [[signal.SIGTERM]] * 2
        await until(lambda: all(worker.told for worker in workers))
        assert [worker.told for worker in workers] == [["end"]] * 2
        signal.raise_signal(signal.SIGINT)
        await until(lambda: all(len(worker.signals) == 2 for worker in workers))
        assert [worker.signals[1] for worker in workers] == [signal.SIGINT] * 2


async def test_the_first_worker_that_takes_connections_lets_serving_begin_once() -> None:
    served: list[bool] = []

    async def once_serving() -> None:
        served.append(True)

    async with supervised(2, once_serving) as workers:
        for worker in workers:
            for subject in ("up", "loaded"):
                await worker.channel.ask(subject, timeout_s=60)
            await until(partial(operator.contains, worker.told, "listen"))
            assert served == [True] * (worker is not workers[0])
            # The second answer comes when what the first one set off has begun.
            for _ in range(2):
                await worker.channel.ask("listening", timeout_s=60)
            assert served == [True]
