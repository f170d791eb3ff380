"""Trims the change feed's records now and then, so that the store does not grow for ever."""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any

from app.core.kafka.errors import StoreUnavailableException
from app.runtime.deadlines import bounded, stop
from app.runtime.options import RuntimeOptions

_LOG = logging.getLogger(__name__)


class Retention:
    """Calls `trim`, which returns the number of records it removed, until nothing is left; then rests.

    Every replica may run one. A follower that is left behind reloads.
    """

    def __init__(
        self, trim: Callable[[], Coroutine[Any, Any, int]], options: RuntimeOptions, every_s: float = 60.0
    ) -> None:
        self._trim = trim
        self._options = options
        self._every_s = every_s
        self._task: asyncio.Task[None] | None = None

    def open(self) -> None:
        self._task = asyncio.create_task(self._run(), name="klamm-retention")

    async def close(self) -> None:
        """A trim under way is rolled back."""
        if self._task is not None:
            await stop(self._task)

    async def _run(self) -> None:
        while True:
            # Replicas spread, so that they rarely meet at the head's lock.
            await asyncio.sleep(self._options.clock.jitter(self._every_s / 2, self._every_s))
            try:
                while removed := await bounded(self._trim(), self._options.write_timeout_s):
                    _LOG.info("records_trimmed", extra={"records": removed})
            except (StoreUnavailableException, TimeoutError) as fault:
                _LOG.warning("records_not_trimmed", extra={"why": str(fault) or "no answer in time"})
            except Exception:  # noqa: BLE001 - logged with its cause; the task lives on
                _LOG.exception("retention_failed")
