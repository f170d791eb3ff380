"""When garbage is collected: a collection that walked over the whole image would stop every request."""

import asyncio
import gc

from app.metrics.declared import Metrics
from app.runtime.deadlines import stop

_NEVER = 1_000_000_000
_OBJECTS_TO_SPARE = 20_000
"""A full collection over so many takes up to 10 ms."""
_OBJECTS_A_RECORD, _OBJECTS_A_CONNECTION, _OBJECTS_A_READER = 2, 30, 60
"""What each adds for as long as it stays; measured."""
_YOUNG_BETWEEN = 1
"""Collections of the youngest objects before one of the middle generation, which walks over all that these have left:
at Python's own 10 that took 8 ms with 1,000 readers of watch. Older objects wait for a full collection."""


class Collector:
    """Runs full collections once a minute in place of the interpreter, which would begin one in mid-request.

    What stays (records in the image, connections, readers of watch) is frozen before it is much, so that a full
    collection walks over little. INVARIANT: none of that becomes cyclic garbage, which would then never be freed;
    nor may much else that happens to be there.
    """

    def __init__(self, metrics: Metrics, look_s: float = 1.0, every_s: float = 60.0) -> None:
        self._metrics = metrics
        self._look_s = look_s
        self._every_s = every_s
        self._frozen = 0
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
            objects = self._staying_objects()
            # What has gone makes room.
            self._frozen = min(self._frozen, objects)
            if objects - self._frozen >= _OBJECTS_TO_SPARE:
                self._frozen = objects
                gc.freeze()
            # The collector is paused while much is being built, and none of that is garbage.
            if clock() >= due and gc.isenabled():
                due = clock() + self._every_s
                gc.collect()

    def _staying_objects(self) -> int:
        metrics = self._metrics
        return (
            _OBJECTS_A_RECORD * metrics.records_applied
            + _OBJECTS_A_CONNECTION * metrics.connections
            + _OBJECTS_A_READER * metrics.watch_readers
        )
