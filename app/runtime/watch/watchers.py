"""All readers of this replica's feed, served in small groups, so that no number of them holds up a decision."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from datetime import datetime

from msgspec import UNSET

from app.core.image import AuthorizerImage
from app.core.kafka.errors import AuthorizerNotReadyException, OverloadedException
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
from app.runtime.watch.recent import Line, RecentTransactions, State

_SNAPSHOTS = 4
_SNAPSHOTS_WAITING = 16
_SNAPSHOT_TURN_S = 2.0
_CATCHING_UP = 4
_OLDER_RECORDS = 500
_OLDER_S = 10.0
"""A page is at least one whole transaction, which may be long; a reader that does not get it asks for it for ever."""
HELD_BACK_S = 0.1
"""After this time, readers that did not keep up are looked at again."""
_MOMENT_S = 0.001
"""For so long a bookmark is the same for all: its age and its time are no more wrong than that."""
_TOO_MANY_SNAPSHOTS = "too many snapshots are being sent; nothing was done, try again shortly"

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
        self.catching_up = asyncio.Semaphore(_CATCHING_UP)
        """Bounds how many readers read older transactions from the store at once."""
        self.draining = False
        self.options = options
        self._snapshots = asyncio.Semaphore(_SNAPSHOTS)
        self._snapshots_waiting = 0
        self._readers = 0
        self._hearing: set[ImageParts] = set()
        self._waiting: dict[asyncio.Future[None], Callable[[], bool]] = {}
        self.has_held_back = False
        """Whether a reader was left to a later round."""
        self._bookmark: tuple[tuple[Token, State], float, Line] | None = None
        self._news = asyncio.Event()
        self._ending = asyncio.Event()
        """Set when readers may have to be told that their stream ends."""
        self._task: asyncio.Task[None] | None = None

    def open(self) -> None:
        self._task = asyncio.create_task(self._run(), name="klamm-watchers")

    def drain(self) -> None:
        """Tells every reader to go on elsewhere."""
        self.draining = True
        self._news.set()
        self._ending.set()

    async def close(self) -> None:
        self.drain()
        if self._task is not None:
            await stop(self._task)

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
        self._news.set()

    def replaced(self, image: AuthorizerImage) -> None:
        """Takes a fresh image; one that holds no store's state is shown to nobody."""
        self.image = image if image.loading_complete else None
        self.recent.reset(image)
        self._news.set()
        self._ending.set()

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
        return self.store_time.shown(self.options.clock())

    def bookmark(self, token: Token, state: State, passed_at: datetime | None) -> Line:
        """The same for all readers that stand there at this moment: thousands that began together get it together.

        `passed_at` is a time before which the state was the store's, if it is behind the image; else None.
        """
        key, now = (token, state), self.options.clock()
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

    async def wait(self, due_s: Callable[[], float], push: Callable[[], bool]) -> None:
        """Waits until there is something that `push` did not send. Call it with nothing left to send.

        `push` is called within a step of the loop, when there is news and after `due_s()` seconds. It returns whether
        the wait goes on.
        """
        wait = _Wait(due_s, push)
        self._waiting[wait.woken] = push
        try:
            await wait.woken
        finally:
            wait.end()
            self._waiting.pop(wait.woken, None)

    @asynccontextmanager
    async def snapshot_turn(self) -> AsyncIterator[None]:
        """Raises OverloadedException if too many snapshots are being sent."""
        if self._snapshots.locked() and self._snapshots_waiting >= _SNAPSHOTS_WAITING:
            raise OverloadedException(_TOO_MANY_SNAPSHOTS)
        self._snapshots_waiting += 1
        try:
            async with asyncio.timeout(_SNAPSHOT_TURN_S):
                await self._snapshots.acquire()
        except TimeoutError:
            raise OverloadedException(_TOO_MANY_SNAPSHOTS) from None
        finally:
            self._snapshots_waiting -= 1
        try:
            yield
        finally:
            self._snapshots.release()

    @contextmanager
    def hearing(self, parts: ImageParts) -> Iterator[None]:
        """Enter this in the same step of the loop that made the parts."""
        self._hearing.add(parts)
        try:
            yield
        finally:
            self._hearing.discard(parts)

    # rounds

    async def _run(self) -> None:
        pace = FanOutPace(self.options.clock, lambda: sum(self.metrics.decisions))
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(HELD_BACK_S if self.has_held_back else None):
                    await self._news.wait()
            self._news.clear()
            self.has_held_back = False
            self._ending.clear()
            pace.begin_round()
            try:
                await self._round(pace)
            except Exception:  # noqa: BLE001 - an unexpected fault must not end the rounds
                _log.exception("watch_round_failed")
            pause_s = pace.pause_s()
            if pause_s > 0:
                with suppress(TimeoutError):
                    async with asyncio.timeout(pause_s):
                        await self._ending.wait()

    async def _round(self, pace: FanOutPace) -> None:
        if self._readers:
            await self.recent.encode()
            self.recent.trim(is_read=True)
        waiting = list(self._waiting)
        at = 0
        while at < len(waiting):
            pace.begin_step()
            until = at + pace.at_once
            are_woken = False
            for woken in waiting[at:until]:
                push = self._waiting.get(woken)
                # INVARIANT: only readers that still wait are pushed to; any other may have lines under way.
                if push is not None and not woken.done() and not _goes_on(push):
                    woken.set_result(None)
                    are_woken = True
            at = until
            await pace.end_step(are_woken=are_woken)


class _Wait:
    """Looks again after `due_s()` seconds until it is woken. An object: a function that names itself is garbage that
    only the collector frees, with all that it holds.
    """

    def __init__(self, due_s: Callable[[], float], push: Callable[[], bool]) -> None:
        self._loop = asyncio.get_running_loop()
        self.woken: asyncio.Future[None] = self._loop.create_future()
        self._due_s = due_s
        self._push = push
        self._timer = self._loop.call_later(due_s(), self._look)

    def _look(self) -> None:
        if self.woken.done():
            return
        if _goes_on(self._push):
            self._timer = self._loop.call_later(self._due_s(), self._look)
        else:
            self.woken.set_result(None)

    def end(self) -> None:
        self._timer.cancel()


def _goes_on(push: Callable[[], bool]) -> bool:
    """What `push` says. INVARIANT: a fault with one reader holds up no other."""
    try:
        return push()
    except Exception:  # noqa: BLE001 - the reader is woken, and meets it again or ends
        _log.exception("watch_push_failed")
        return False
