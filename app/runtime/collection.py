"""When garbage is collected: a collection that walked over the whole image would stop every request."""

import asyncio
import gc

from app.metrics.declared import Metrics
from app.runtime.deadlines import stop

_NEVER = 1_000_000_000
_RECORDS_TO_SPARE = 10_000
_YOUNG_BETWEEN = 1
"""Collections of the youngest objects before one of the middle generation, which walks over all that these have left:
at Python's own 10 that took 8 ms with 1,000 readers of watch. Older objects wait for a full collection."""


class Collector:
    """Runs full collections once a minute in place of the interpreter, which would begin one in mid-request.

    What the feed adds to the image is frozen every 10,000 records, so that a full collection walks over little.
    Anything else that is frozen with it and later becomes cyclic garbage is never freed.
    """

    def __init__(self, metrics: Metrics, look_s: float = 1.0, every_s: float = 60.0) -> None:
        self._metrics = metrics
        self._look_s = look_s
        self._every_s = every_s
        self._spared = 0
        self._usual = gc.get_threshold()
        self._task: asyncio.Task[None] | None = None

    def open(self) -> None:
        self._usual = gc.get_threshold()
        gc.set_threshold(self._usual[0], _YOUNG_BETWEEN, _NEVER)
        self._task = asyncio.create_task(self._run(), name="klamm-collector")

    async def close(self) -> None:
        if self._task is not None:
            await stop(self._task)
        gc.set_threshold(*self._usual)

    async def _run(self) -> None:
        clock = asyncio.get_running_loop().time
        due = clock() + self._every_s
        while True:
            await asyncio.sleep(self._look_s)
            applied = self._metrics.records_applied
            if applied - self._spared >= _RECORDS_TO_SPARE:
                self._spared = applied
                gc.freeze()
            # The collector is paused while much is being built, and none of that is garbage.
            if clock() >= due and gc.isenabled():
                due = clock() + self._every_s
                gc.collect()
