import asyncio

import pytest

from app.core.kafka.errors import StoreUnavailableException
from app.formats.clock import Clock
from app.runtime.options import RuntimeOptions
from app.runtime.retention import Retention

_OPTIONS = RuntimeOptions(clock=Clock(jitter=lambda low, _high: low))


class _Log:
    """A feed whose trims answer as told, and then nothing is left."""

    def __init__(self, *answers: int | Exception) -> None:
        self._answers = list(answers)
        self.calls = 0
        self.exhausted = asyncio.Event()

    async def trim(self) -> int:
        self.calls += 1
        if not self._answers:
            self.exhausted.set()
            return 0
        answer = self._answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


async def _run(log: _Log) -> None:
    retention = Retention(log.trim, _OPTIONS, every_s=0.0)
    retention.open()
    async with asyncio.timeout(10):
        await log.exhausted.wait()
    await retention.close()


async def test_trims_until_nothing_is_left() -> None:
    log = _Log(10_000, 10_000, 3)
    await _run(log)
    assert log.calls >= 4


@pytest.mark.parametrize("fault", [StoreUnavailableException("down"), TimeoutError(), ValueError("odd")])
async def test_a_fault_is_logged_and_tried_again(fault: Exception, caplog: pytest.LogCaptureFixture) -> None:
    log = _Log(fault, 5)
    await _run(log)
    assert log.calls >= 3
    assert "retention_failed" in caplog.text or "records_not_trimmed" in caplog.text


async def test_closing_what_was_never_opened_is_fine() -> None:
    await Retention(_Log().trim, _OPTIONS).close()
