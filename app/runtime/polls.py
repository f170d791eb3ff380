"""Polls of the feed: each proves that the store continues the image, and all that this process has seen of it."""

import asyncio
import logging

from app.core.continuity import FeedPosition, KnownHistory
from app.core.image import AuthorizerImage
from app.core.kafka.errors import PoisonedRecordException, StoreUnavailableException
from app.core.records import FeedPoll
from app.metrics.declared import Metrics
from app.runtime.continuity import lost_history, mismatch_of, transactions_of
from app.runtime.deadlines import bounded
from app.runtime.options import RuntimeOptions
from app.runtime.ports import ChangeFeed
from app.runtime.present import CLOCK_SET_S, PresentImage

_logger = logging.getLogger(__name__)
_CLOCK_SET = "the database's clock was set, or this machine stood still; check the clock, as ALLOWs end by it"
_LOST = "the store has lost changes that this process has seen"


class FeedMismatchException(Exception):
    """The feed does not continue the image: a fresh snapshot is needed."""


class Polls:
    def __init__(self, feed: ChangeFeed, present: PresentImage, metrics: Metrics, options: RuntimeOptions) -> None:
        self.known = KnownHistory()
        self.holds_ended = asyncio.Event()
        """Set if the store held ACLs that had ended at the last poll."""
        self.lost: FeedPosition | None = None
        """What the store has lost, until its epoch is renounced for it."""
        self.cluster_id: str | None = None
        """The store's at the last poll; None where nobody has said it yet."""
        self._feed = feed
        self._present = present
        self._metrics = metrics
        self._options = options

    async def next(self, image: AuthorizerImage) -> tuple[FeedPoll, float]:
        """A poll that continues the image, and when its head was the store's, by the clock."""
        self._metrics.feed_polls += 1
        known, options = self._still_known(), self._options
        asked_at = options.clock.monotonic()
        try:
            poll = await bounded(self._feed.poll(image.offset, options.poll_records), options.poll_timeout_s)
        except PoisonedRecordException as poison:
            good = poison.offset - image.offset - 1
            if good <= 0:
                raise
            # Whole transactions up to the poisoned record can still be applied.
            poll = await bounded(self._feed.poll(image.offset, good), options.poll_timeout_s)
        self.cluster_id = poll.head.cluster_id or None
        (self.holds_ended.set if poll.holds_ended else self.holds_ended.clear)()
        if poll.store_time is not None:
            self._note_correction(self._present.looked(poll.store_time, asked_at))
        self._metrics.feed_high_watermark = poll.head.last_offset
        lost = lost_history(known, self._still_known(), image, poll)
        mismatch = poll.snapshot_needed or mismatch_of(image, poll)
        if lost is not None:
            self.lost = lost
            self.known.lose()
        if mismatch is not None or lost is not None:
            raise FeedMismatchException(mismatch or _LOST)
        if not poll.records and image.offset < poll.head.last_offset:
            raise PoisonedRecordException(image.offset + 1, "the record is missing")
        if any(len(each) > options.max_step_records for each in transactions_of(poll.records)):
            raise FeedMismatchException("a transaction is too large to become visible in one step")
        return poll, asked_at - poll.age_s

    def forget(self) -> None:
        """Drops all that is known of the history, which was another cluster's."""
        self.lost = self.known.position = None
        self.known.is_lost = False

    async def renounce(self) -> None:
        """Begins a new epoch in the store once history was lost, so that no token means two states."""
        if self.lost is None:
            return
        lost, self.lost = self.lost, None
        try:
            await bounded(self._feed.begin_epoch_if_lost(lost), self._options.poll_timeout_s)
        except (StoreUnavailableException, TimeoutError) as fault:
            self.lost = lost
            _logger.warning("epoch_not_renounced", extra={"why": str(fault) or "no answer in time"})

    async def check_snapshot(self, image: AuthorizerImage) -> None:
        """A snapshot may be past what is known, such as an update of this process, without containing it."""
        known = self._still_known()
        if known is not None and known.offset < image.offset and image.has(known.token):
            self.lost = self.lost or known  # the epoch stays if the store continues it
        await self.renounce()

    def _note_correction(self, by_s: float) -> None:
        if abs(by_s) <= CLOCK_SET_S:
            return
        self._metrics.store_time_corrections["forward" if by_s > 0 else "back"] += 1
        _logger.warning("store_time_corrected", extra={"by_s": round(by_s, 1), "why": _CLOCK_SET})

    def _still_known(self) -> FeedPosition | None:
        """What the store has to continue; None also if it has lost that and no later epoch is known yet."""
        return None if self.known.is_lost else self.known.position
