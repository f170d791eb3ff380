"""A fresh image from a snapshot of the store, built in slices beside the one in use."""

import asyncio
import gc
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from app.core.image import AuthorizerImage, ImageBuilder
from app.core.kafka.bindings import AclRow
from app.core.kafka.configs import AuthorizerConfig
from app.core.records import FeedHead
from app.metrics.declared import Metrics
from app.runtime.collection import collection_paused
from app.runtime.deadlines import stop
from app.runtime.pace import Pace, run_through
from app.runtime.ports import ChangeFeed

_ROWS_AT_ONCE = 50
_SLICES_AHEAD = 2


@dataclass(frozen=True, slots=True)
class _Opening:
    head: FeedHead
    configs: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class _Slice:
    rows: Sequence[AclRow]


@dataclass(frozen=True, slots=True)
class _End:
    head: FeedHead


_Part = _Opening | _Slice | _End | Exception


async def load_image(
    feed: ChangeFeed, startup: AuthorizerConfig, timeout_s: float, metrics: Metrics
) -> AuthorizerImage:
    """The image at the head of a new snapshot. Each part of the snapshot may take `timeout_s`.

    Raises StoreUnavailableException, PoisonedRecordException, TimeoutError, or what else the feed failed with; what
    was built until then is freed in steps.
    """
    loading = _Loading(startup, metrics)
    parts: asyncio.Queue[_Part] = asyncio.Queue(_SLICES_AHEAD)
    # The reader is a task of its own so that it can be left behind if it hangs beyond cancellation.
    reader = asyncio.create_task(_read(feed, parts), name="klamm-snapshot")
    try:
        with collection_paused():
            while loading.image is None:
                async with asyncio.timeout(timeout_s):
                    part = await parts.get()
                await loading.take(part)
            # The new image outlives every collection: the first one would walk over all of it, for 40 ms and more.
            gc.freeze()
    except BaseException:
        await loading.discard()
        raise
    finally:
        metrics.acls_being_loaded = 0
        await stop(reader)
    return loading.image


async def _read(feed: ChangeFeed, parts: asyncio.Queue[_Part]) -> None:
    try:
        async with feed.snapshot() as reader:
            await parts.put(_Opening(reader.head, dict(reader.configs)))
            async for rows in reader.slices():
                await parts.put(_Slice(rows))
            end = _End(reader.head)
        await parts.put(end)
    except Exception as fault:  # noqa: BLE001 - the builder raises it
        await parts.put(fault)


class _Loading:
    """`image` is None until the snapshot has come to its end."""

    def __init__(self, startup: AuthorizerConfig, metrics: Metrics) -> None:
        self.image: AuthorizerImage | None = None
        self._builder = ImageBuilder(startup)
        self._head: FeedHead | None = None
        self._metrics = metrics
        self._pace = Pace()

    async def take(self, part: _Part) -> None:
        if isinstance(part, Exception):
            raise part
        if isinstance(part, _Opening):
            self._head = part.head
            self._builder.set_configs(part.configs)
        elif isinstance(part, _Slice):
            await self._add(part.rows)
        else:
            self.image = self._builder.build(part.head)

    async def discard(self) -> None:
        if self._head is not None:
            await run_through(self._builder.build(self._head).index.dismantle())

    async def _add(self, rows: Sequence[AclRow]) -> None:
        for start in range(0, len(rows), _ROWS_AT_ONCE):
            self._builder.add_rows(rows[start : start + _ROWS_AT_ONCE])
            await self._pace.breathe()
        self._metrics.acls_being_loaded += len(rows)
