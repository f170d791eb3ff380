"""A fresh image from a snapshot of the store, built in slices beside the one in use."""

import asyncio
import gc
from collections.abc import Mapping
from dataclasses import dataclass

from app.core.collection import collection_paused
from app.core.image import AuthorizerImage, ImageBuilder
from app.core.kafka.bindings import AclSlice
from app.core.kafka.configs import AuthorizerConfig
from app.core.records import FeedHead
from app.metrics.declared import Metrics
from app.runtime.deadlines import stop
from app.runtime.pace import Pace, run_through
from app.runtime.ports import SnapshotSource

_ROWS_AT_ONCE = 50
_SLICES_AHEAD = 2


@dataclass(frozen=True, slots=True)
class _Rest:
    """What is known after the last slice."""

    head: FeedHead
    configs: Mapping[str, str]


_Part = AclSlice | _Rest | Exception


async def load_image(
    feed: SnapshotSource, startup: AuthorizerConfig, timeout_s: float, metrics: Metrics
) -> AuthorizerImage:
    """The image at the head of a new snapshot. Each part of the snapshot may take `timeout_s`, else TimeoutError."""
    builder, pace = ImageBuilder(startup), Pace()
    parts: asyncio.Queue[_Part] = asyncio.Queue(_SLICES_AHEAD)
    # The reader is a task of its own so that it can be left behind if it hangs beyond cancellation.
    reader = asyncio.create_task(_read(feed, parts), name="klamm-snapshot")
    try:
        with collection_paused():
            while not isinstance(part := await _next(parts, timeout_s), _Rest):
                for start in range(0, len(part.rows), _ROWS_AT_ONCE):
                    builder.add_rows(part.rows[start : start + _ROWS_AT_ONCE])
                    await pace.breathe()
                builder.add_terms(part)
                metrics.acls_being_loaded += len(part.rows)
            builder.set_configs(part.configs)
            builder.check_digest(part.head)
            image = builder.build(part.head)
            # The new image outlives every collection: the first one would walk over all of it, for 40 ms and more.
            gc.freeze()
    except BaseException:
        # What has been built so far is freed in steps.
        await run_through(builder.index.dismantle())
        raise
    finally:
        metrics.acls_being_loaded = 0
        await stop(reader)
    return image


async def _read(feed: SnapshotSource, parts: asyncio.Queue[_Part]) -> None:
    try:
        async with feed.snapshot() as reader:
            async for some in reader.slices():
                await parts.put(some)
            rest = _Rest(reader.head, dict(reader.configs))
        await parts.put(rest)
    except Exception as fault:  # noqa: BLE001 - the builder raises it
        await parts.put(fault)


async def _next(parts: asyncio.Queue[_Part], timeout_s: float) -> AclSlice | _Rest:
    async with asyncio.timeout(timeout_s):
        part = await parts.get()
    if isinstance(part, Exception):
        raise part
    return part
