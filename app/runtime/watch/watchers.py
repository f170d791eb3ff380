"""What all readers of this replica's feed share: the newest transactions, the image, places, and their turns."""

import asyncio
import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime

from msgspec import UNSET

from app.core.image import AuthorizerImage
from app.core.kafka.errors import AuthorizerNotReadyException
from app.core.records import AccessControlEntryRecord, FeedPoll, Record
from app.core.store_time import StoreTime
from app.core.token import Token
from app.formats.feed_events import Bookmark, EndReason, encode
from app.formats.feed_values import digest_of
from app.metrics.declared import Metrics
from app.runtime.deadlines import bounded, stop
from app.runtime.options import RuntimeOptions
from app.runtime.pace import Pace
from app.runtime.ports import ChangeFeed
from app.runtime.readiness import Readiness
from app.runtime.watch.fan_out import FanOutPace
from app.runtime.watch.image_parts import ImageParts
from app.runtime.watch.lines import Line, State
from app.runtime.watch.places import Places
from app.runtime.watch.recent import RecentTransactions
from app.runtime.watch.rounds import Rounds

_SNAPSHOTS = 4
_SNAPSHOTS_WAITING = 16
_SNAPSHOT_TURN_S = 2.0
_PAGES = 4
_OLDER_RECORDS = 500
_OLDER_S = 10.0
"""A page is at least one whole transaction, which may be long; a reader that does not get it asks for it for ever."""
_MOMENT_S = 0.001
"""For so long a bookmark is the same for all: its age and its time are no more wrong than that."""

_log = logging.getLogger(__name__)


class Watchers:
    """What the readers share. The loader reports each transaction and each fresh image in the step that shows it."""

    def __init__(self, feed: ChangeFeed, readiness: Readiness, metrics: Metrics, options: RuntimeOptions) -> None:
        self.recent = RecentTransactions()
        self.image: AuthorizerImage | None = None
        """The newest image that holds a store's state."""
        self._feed = feed
        self.readiness = readiness
        self.store_time = StoreTime()
        self.metrics = metrics
        self.draining = False
        self.options = options
        self.snapshots = Places(_SNAPSHOTS, options, queue=_SNAPSHOTS_WAITING, wait_s=_SNAPSHOT_TURN_S)
        self.pages = Places(_PAGES, options)
        """For lines that are encoded for one reader alone: older transactions, and what a filter lets through."""
        self.rounds = Rounds(FanOutPace(options, lambda: sum(self.metrics.decisions)))
        self._readers = 0
        self._hearing: set[ImageParts] = set()
        self._bookmark: tuple[tuple[Token, State], float, Line] | None = None
        self._news = asyncio.Event()
        """Set when there may be transactions to encode."""
        self._tasks: list[asyncio.Task[None]] = []

    def open(self) -> None:
        for work, name in ((self._run(), "klamm-watchers"), (self.rounds.run(), "klamm-watch-rounds")):
            self._tasks.append(asyncio.create_task(work, name=name))

    def drain(self) -> None:
        """Tells every reader to go on elsewhere."""
        self.draining = True
        self.rounds.announce(is_urgent=True)

    async def close(self) -> None:
        self.drain()
        for task in self._tasks:
            await stop(task)
        self.rounds.close()

    # what the loader reports

    async def applying(self, image: AuthorizerImage, transaction: Sequence[Record]) -> None:
        """Await this before the transaction is applied to the image."""
        if self._hearing:
            pace = Pace()
            for record in transaction:
                if isinstance(record, AccessControlEntryRecord):
                    there = image.index.find(record.acl.binding)
                    if there is not None:
                        for parts in self._hearing:
                            parts.before(there)
                    await pace.breathe()

    def applied(self, image: AuthorizerImage, transaction: Sequence[Record]) -> None:
        self.image = image
        if image.epoch is not None:
            self.recent.append(image.epoch, transaction, image.digest)
        self.recent.trim(is_read=self._readers > 0)
        for parts in self._hearing:
            parts.passed(transaction)
        self._news.set()

    def epoch_began(self, image: AuthorizerImage) -> None:
        """Takes the same image, in the epoch that began at its offset."""
        self.image = image
        self.rounds.announce()

    def replaced(self, image: AuthorizerImage) -> None:
        """Takes a fresh image; one that holds no store's state is shown to nobody."""
        self.image = image if image.loading_complete else None
        self.recent.reset(image)
        self.rounds.announce(is_urgent=True)

    # what readers ask for

    @property
    def chain(self) -> Sequence[str]:
        return self._feed.chain

    def loaded_image(self) -> AuthorizerImage:
        if self.image is None:
            raise AuthorizerNotReadyException("the ACLs are not loaded yet; try again shortly", self.chain)
        return self.image

    def store_time_now(self) -> datetime | None:
        """The store's time, never behind its clock; None before the first poll."""
        return self.store_time.shown(self.options.clock.monotonic())

    def bookmark(self, token: Token, state: State, passed_at: datetime | None) -> Line:
        """The same for all readers that stand there at this moment: thousands that began together get it together.

        `passed_at` is a time before which the state was the store's, if it is behind the image; else None.
        """
        key, now = (token, state), self.options.clock.monotonic()
        if self._bookmark is None or self._bookmark[0] != key or now - self._bookmark[1] > _MOMENT_S:
            store_time, age_s = self.store_time_now(), self.readiness.age_s
            if passed_at is not None and store_time is not None:
                age_s = max(age_s, (store_time - passed_at).total_seconds())
            (chained, digest), text, chain = state, str(token), self.chain or UNSET
            event = Bookmark(text, chained.hex(), digest_of(digest), round(age_s * 1000), store_time, chain=chain)
            self._bookmark = key, now, Line("bookmark", text, encode(event))
        return self._bookmark[2]

    def serves(self, image: AuthorizerImage) -> bool:
        """Whether this image, or a later one on the same index, is in use."""
        return self.image is not None and self.image.index is image.index

    async def history(self, offset: int) -> FeedPoll:
        """A page of the store's records behind the offset. Raises TimeoutError, StoreUnavailableException."""
        return await bounded(self._feed.history(offset, _OLDER_RECORDS), _OLDER_S)

    @contextmanager
    def reading(self, *, is_own: bool) -> Iterator[None]:
        """Enter this as long as the feed is read; the service's own readers are not counted in the metrics."""
        self._readers += 1
        self.metrics.watch_readers += not is_own
        if not self.recent.is_encoded:
            self._news.set()
        try:
            yield
        finally:
            self._readers -= 1
            self.metrics.watch_readers -= not is_own

    def count_end(self, reason: EndReason) -> None:
        self.metrics.watch_ends[reason] += 1

    @contextmanager
    def hearing(self, parts: ImageParts) -> Iterator[None]:
        """Enter this in the same step of the loop that made the parts."""
        self._hearing.add(parts)
        try:
            yield
        finally:
            self._hearing.discard(parts)

    async def _run(self) -> None:
        """Encodes what is new, and says so; rounds go on meanwhile, with bookmarks."""
        while True:
            await self._news.wait()
            self._news.clear()
            try:
                if self._readers:
                    await self.recent.encode()
                    self.recent.trim(is_read=True)
            except Exception:  # noqa: BLE001 - an unexpected fault must not end this
                _log.exception("watch_round_failed")
            self.rounds.announce()
