"""Keeps the image equal to the head of the change feed (KIP-801; DESIGN: store and change feed).

First a snapshot, then whole transactions in order. Each poll proves that the feed still continues this image (epoch,
hash at the image's offset); if not, a fresh snapshot is built beside the image in use and swapped in.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Sequence
from functools import partial

from app.core.backoff import Backoff
from app.core.epochs import Epochs
from app.core.image import AuthorizerImage
from app.core.index.tree import AclIndex
from app.core.kafka.configs import AuthorizerConfig
from app.core.kafka.errors import PoisonedRecordException, StoreUnavailableException, UnknownRecordException
from app.core.records import Record
from app.logs.super_users import warn_of_super_users
from app.metrics.declared import Metrics
from app.runtime.applying import ImageLostException, apply_in_steps
from app.runtime.continuity import position_of, transactions_of
from app.runtime.deadlines import bounded, stop
from app.runtime.options import RuntimeOptions
from app.runtime.pace import run_through
from app.runtime.polls import FeedMismatchException, Polls
from app.runtime.ports import ChangeFeed
from app.runtime.present import PresentImage
from app.runtime.purgatory import Purgatory
from app.runtime.snapshot import load_image
from app.runtime.state.reading import Restored, restore
from app.runtime.wakeup import WakeUp
from app.runtime.watch.watchers import Watchers

_logger = logging.getLogger(__name__)
_TIMEOUTS_BEFORE_RELOAD = 3
_ASKED = 1_000
_UNEXPECTED = "unexpected fault; see the log"


class Loader:
    """Follows the feed with `present`, the image that decisions read."""

    def __init__(
        self,
        feed: ChangeFeed,
        startup: AuthorizerConfig,
        watchers: Watchers,
        purgatory: Purgatory,
        metrics: Metrics,
        options: RuntimeOptions,
    ) -> None:
        self.present = PresentImage(AuthorizerImage.empty(startup), watchers.store_time, options)
        self.polls = Polls(feed, self.present, metrics, options)
        self._feed = feed
        self._startup = startup
        self.watchers = watchers
        self._readiness = watchers.readiness
        self._purgatory = purgatory
        self._metrics = metrics
        self._options = options
        self._may_restore = options.state is not None
        """Until the state file was tried."""
        self._held: Restored | None = None
        """What a follower's state file held, until something is loaded or this serves."""
        self._wake_up = WakeUp(feed)
        self._backoff = Backoff(options.first_backoff_s, options.max_backoff_s, options.clock.jitter)
        self._poison_backoff = Backoff(options.first_backoff_s, options.max_poison_backoff_s, options.clock.jitter)
        self._reload: str | None = "the first load"  # why a fresh snapshot is needed; None while following
        self._reload_at = 0.0
        self._loading = False  # whether the step under way is a load
        self._timeouts = 0
        self._askers: deque[tuple[float, int]] = deque(maxlen=_ASKED)  # when polls began, and who had asked by then
        self._trouble: str | None = None
        self._task: asyncio.Task[None] | None = None
        self._freeing: set[asyncio.Task[None]] = set()

    @property
    def image(self) -> AuthorizerImage:
        return self.present.image

    def open(self) -> None:
        self._readiness.loading()
        self._task = asyncio.create_task(self._run(), name="klamm-loader")

    def nudge(self) -> None:
        self._wake_up.nudge()

    async def close(self) -> None:
        if self._task is not None:
            await stop(self._task)
        await self._wake_up.close()
        for task in list(self._freeing):
            await stop(task)
        try:
            await bounded(self._feed.close(), self._options.drain_timeout_s)
        except Exception:
            _logger.exception("feed_not_closed")

    async def _run(self) -> None:
        while True:
            try:
                more = await self._step()
            except (StoreUnavailableException, PoisonedRecordException, TimeoutError, FeedMismatchException) as fault:
                await asyncio.sleep(self._fault(fault, str(fault) or "no answer in time"))
            except Exception as fault:
                if self._trouble != _UNEXPECTED:
                    _logger.exception("loader_failed")
                await asyncio.sleep(self._fault(fault, _UNEXPECTED))
            else:
                self._backoff.reset()
                if not more:
                    await self._wake_up.wait(self._poll_within_s())

    async def _step(self) -> bool:
        self._loading = self._reload is not None and self._options.clock.monotonic() >= self._reload_at
        if self._loading:
            options = self._options
            async with options.load_turn(
                options.reload_turn_s if self.image.loading_complete else options.first_turn_s
            ):
                await self._load_or_restore()
            return True
        try:
            return await self._follow()
        except FeedMismatchException as mismatch:
            self._metrics.feed_mismatches += 1
            if self._readiness.is_from_state_file and self.polls.cluster_id not in (None, self.image.cluster_id):
                self._drop_restored()
            lost = self.polls.lost
            if lost is not None:
                self._purgatory.invalidate_epoch(lost.epoch)
                await self.polls.renounce()
            if self._reload is not None:
                raise  # a snapshot is due already, after a rest
            self._want_reload(str(mismatch))
            self._in_trouble(str(mismatch))
            return True

    async def _follow(self) -> bool:
        self._askers.append((self._options.clock.monotonic(), self._purgatory.next_ticket()))
        poll, true_at = await self.polls.next(self.image)
        self._purgatory.confirmed(poll, self._askers_before(true_at))
        # What the store says after its clock was set back must not be taken for something that had ended before.
        if self.present.is_ahead:
            await run_through(self.image.end_for_good())
            self.present.set_back()
        await self.polls.renounce()
        self._enter(poll.head.epochs)
        for transaction in transactions_of(poll.records):
            await self._apply(transaction)
            self._enter(poll.head.epochs)
            # Requests get their turn between two transactions, never within one.
            await asyncio.sleep(0)
        self._reload, self._timeouts = None, 0
        self._poison_backoff.reset()
        if poll.records:
            self._wake_up.found_records()
        if self.image.offset < poll.head.last_offset:
            return True
        self._current(true_at, poll.doubt)
        return False

    def _askers_before(self, at: float) -> int:
        """How many had asked when a poll's head was known to be the store's: it answers only those. -1: none."""
        while len(self._askers) > 1 and self._askers[1][0] <= at:
            self._askers.popleft()
        asked_at, askers = self._askers[0]
        return askers if asked_at <= at else -1

    def _enter(self, epochs: Epochs) -> None:
        """Takes the image into the epochs that had begun at its offset, before the next transaction is applied."""
        image = self.image.within(epochs)
        if image is not self.image:
            self._publish(image)
            self.watchers.epoch_began(image)

    async def _apply(self, transaction: Sequence[Record]) -> None:
        await self.watchers.applying(self.image, transaction)
        try:
            await apply_in_steps(self.image, transaction, partial(self._applied, transaction))
        except ImageLostException as fault:
            # INVARIANT: an index that may be half changed is never decided on; only super users pass until the reload.
            self._want_reload(str(fault))
            self._replace(AuthorizerImage.empty(self._startup))
            raise

    def _applied(self, transaction: Sequence[Record], image: AuthorizerImage) -> None:
        self._metrics.transactions_applied += 1
        self._metrics.records_applied += len(transaction)
        self._publish(image)
        self.watchers.applied(image, transaction)

    def _replace(self, image: AuthorizerImage) -> None:
        self._publish(image)
        self.watchers.replaced(image)

    async def _load(self) -> None:
        began_at = self._options.clock.monotonic()
        self._feed.rewind(self.image.offset)
        try:
            image, equal_at, doubt = await self._fresh_image()
        except BaseException:
            if self._resume():
                self._reload = None
            raise
        replaced, self._reload = self.image.index, None
        self._replace(image)
        self._free(replaced)
        self._poison_backoff.reset()
        self._timeouts = 0
        self._metrics.image_loads += 1
        self._metrics.last_image_load_seconds = self._options.clock.monotonic() - began_at
        _logger.info("image_loaded", extra={"epoch": str(image.epoch), "offset": image.offset, "acls": image.acl_count})
        self._current(equal_at, doubt)

    async def _load_or_restore(self) -> None:
        """Loads. If there is no image yet and the source is away, or what it has is damaged, the state file's serves
        until that is over; tried once.

        The fault is raised even then. A follower reads its file first, and loads only what may replace that.
        """
        await self._hold_file()
        try:
            await self._load()
        except (StoreUnavailableException, PoisonedRecordException, TimeoutError):
            restored, self._held = self._held, None
            may_restore, self._may_restore = self._may_restore, False
            if not self.image.loading_complete:
                if restored is None and may_restore:
                    restored = await restore(self._options, self._startup, self._metrics)
                if restored is not None:
                    self._reload = None
                    self._readiness.restored(restored.age_s)
                    self._replace(restored.image)
                    self._resume()
                    self._metrics.image_from_state_file = 1
                    extra = {"offset": self.image.offset, "acls": self.image.acl_count, "age_s": round(restored.age_s)}
                    _logger.warning("started_from_state_file", extra=extra)
            raise
        held, self._held = self._held, None
        if held is not None:
            self._free(held.image.index)

    async def _hold_file(self) -> None:
        """Reads a follower's state file before the first load; the feed judges snapshots by what it holds."""
        if not self._may_restore or not self._feed.chain or self.image.loading_complete:
            return
        self._held = await restore(self._options, self._startup, self._metrics)
        self._may_restore = False
        position = None if self._held is None else position_of(self._held.image)
        if self._held is not None and position is not None:
            self._feed.resume(position, self._held.image.epochs, self._held.age_s)

    def _drop_restored(self) -> None:
        """INVARIANT: once the source says that it is another cluster's, nothing is decided by the file's ACLs."""
        index, self._readiness.is_from_state_file = self.image.index, False
        self._metrics.image_from_state_file = 0
        self._replace(AuthorizerImage.empty(self._startup))
        self._free(index)
        self.polls.forget()

    async def _fresh_image(self) -> tuple[AuthorizerImage, float, str | None]:
        image = await load_image(self._feed, self._startup, self._options.snapshot_timeout_s, self._metrics)
        try:
            await self.polls.check_snapshot(image)
            return await self._caught_up(image)
        except BaseException:
            self._free(image.index)
            raise

    def _resume(self) -> bool:
        """Makes the feed continue from the image in use. Returns what the feed's `resume` does."""
        position = position_of(self.image)
        if position is None:
            return False
        return self._feed.resume(position, self.image.epochs, self._readiness.age_s)

    async def _caught_up(self, image: AuthorizerImage) -> tuple[AuthorizerImage, float, str | None]:
        """The image at the head as of when the snapshot was built, the time of that poll and its doubt: so a load that
        took long neither becomes ready with an old state nor takes the offset back.
        """
        poll, equal_at = await self.polls.next(image)
        doubt = poll.doubt
        high_watermark = poll.head.last_offset
        while True:
            for transaction in transactions_of(poll.records):
                image = await apply_in_steps(image.within(poll.head.epochs), transaction)
                await asyncio.sleep(0)
            image = image.within(poll.head.epochs)
            if image.offset >= high_watermark:
                return image, equal_at, doubt
            poll, _ = await self.polls.next(image)

    def _free(self, index: AclIndex) -> None:
        task = asyncio.create_task(run_through(index.dismantle()), name="klamm-free")
        self._freeing.add(task)
        task.add_done_callback(self._freeing.discard)

    def _publish(self, image: AuthorizerImage) -> None:
        if image.config is not self.image.config:
            # Those of the start-up settings are the first image's; `klamm serve` has warned of them.
            warn_of_super_users(image.config.super_users - self.image.config.super_users)
        self.present.replace(image)
        position = position_of(image)
        if position is not None:
            self.polls.known.saw(position)
        self._metrics.feed_offset = image.offset
        self._metrics.configs_unknown = len(image.unknown_configs)
        self._readiness.published(image)
        self._purgatory.reached(image)

    def _fault(self, fault: Exception, why: str) -> float:
        if self._loading:
            self._metrics.image_load_failures += 1
        else:
            self._metrics.feed_poll_failures += 1
        self._in_trouble(why)
        if isinstance(fault, PoisonedRecordException):
            self._metrics.records_poisoned += 1
            self._metrics.records_unknown += isinstance(fault, UnknownRecordException)
        if isinstance(fault, TimeoutError):
            # It has waited enough already. A poll that never ends may be too large; a snapshot comes in parts.
            self._backoff.reset()
            self._timeouts += 1
            if self._reload is None and self._timeouts >= _TIMEOUTS_BEFORE_RELOAD:
                self._want_reload(why)
        elif not isinstance(fault, StoreUnavailableException):
            # The feed can't be followed, but the table may be sound. Snapshots are expensive, so they get rarer.
            if not self._loading:
                if self._reload is None:
                    self._want_reload(why)
            elif self._reload is not None and self.image.loading_complete:
                self._reload_at = self._options.clock.monotonic() + self._poison_backoff.next_s()
        return self._backoff.next_s()

    def _want_reload(self, why: str) -> None:
        self._reload, self._reload_at = why, 0.0

    def _in_trouble(self, why: str) -> None:
        if self._trouble is None:
            _logger.warning("feed_in_trouble", extra={"why": why, "offset": self.image.offset})
        self._trouble = why
        self._readiness.troubled(why)

    def _current(self, at: float, doubt: str | None) -> None:
        self._readiness.current(at)
        if doubt is not None:
            self._in_trouble(doubt)
            return
        if self._trouble is not None:
            _logger.info("feed_recovered", extra={"offset": self.image.offset})
        self._trouble = None
        self._metrics.image_from_state_file = 0

    def _poll_within_s(self) -> float:
        # Sooner if max.staleness.ms would fence the image before the next poll, or an ALLOW ends, to be removed.
        limit_ms, within_s = self.image.config.max_staleness_ms, self._options.poll_s
        if limit_ms is not None:
            within_s = min(within_s, limit_ms / 2000)
        return max(0.02, min(within_s, self.present.next_end_s()))
