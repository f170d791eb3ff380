"""One reader of the feed: where it stands, what it gets next, and why it ends."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, aclosing
from dataclasses import dataclass
from datetime import UTC, datetime
from uuid import UUID

from app.core.epochs import Epochs
from app.core.image import AuthorizerImage
from app.core.kafka.errors import (
    ApiException,
    OffsetOutOfRangeException,
    PoisonedRecordException,
    StoreUnavailableException,
)
from app.core.kafka.filters import AclBindingFilter
from app.core.records import FeedPoll, Record
from app.core.token import Token
from app.formats.feed_events import End, EndReason, EpochBegan, encode
from app.runtime.continuity import transactions_of
from app.runtime.pace import Pace
from app.runtime.watch.image_parts import ImageLeftException, ImageParts
from app.runtime.watch.lines import SLICE_BYTES, Line, Part, State
from app.runtime.watch.places import PlaceOwner, ReaderPlace
from app.runtime.watch.recent import MAX_BYTES, is_too_long, transaction_line
from app.runtime.watch.rounds import PushResult
from app.runtime.watch.watchers import Watchers

Lines = Sequence[Line]

_MAX_BEHIND = 1024 * 1024
_LONG_AGO = datetime.fromtimestamp(0, UTC)
_SLOW_S = 1.0
"""A reader that took longer than this to take what it was sent, and is that far behind, is cut."""
_SHORTEST_WAIT_S = 0.05
_HELD_BACK_MOST_S = 30.0
"""A client that has not read for so long is sent more all the same: the bounds for slow clients then cut it."""
_SNAPSHOT_S = 600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchRequest:
    after: Token | None
    """None: a snapshot first."""
    acl_filter: AclBindingFilter | None
    bookmark_s: float
    may_watch: Callable[[], Awaitable[None]]
    """Raises ApiException once the caller may not see what comes next."""
    push: Callable[[Part], bool] | None = None
    """Sends a part within a step of the loop, if the caller may see it and has taken what it was sent before.

    Returns False, with nothing sent, if that is not certain; the part is then yielded.
    """
    keeps_up: Callable[[], bool] | None = None
    """Whether the client has taken nearly all that it was sent; until it has, nothing more is pushed."""
    caller: str = ""
    """Its name; empty for one that has none."""
    with_epochs: bool = False
    """Whether the reader goes on from one epoch to the next; if not, its stream ends where another one begins."""
    is_own: bool = False
    """The reader is this process itself: it is not counted, and cut only when memory no longer holds what it needs."""


class _EndedError(Exception):
    def __init__(self, reason: EndReason) -> None:
        super().__init__(reason)
        self.reason: EndReason = reason


async def watch(watchers: Watchers, request: WatchRequest) -> AsyncGenerator[Lines, None]:
    """The lines to send the reader, up to its `end`. Close the generator.

    Refusals are raised before the first lines: AuthorizerNotReadyException, OffsetOutOfRangeException,
    OverloadedException, StoreUnavailableException, and what `may_watch` raises.
    """
    with watchers.reading(is_own=request.is_own):
        begun, reader = False, _Reader(watchers, request)
        try:
            async with aclosing(reader.lines()) as batches:
                async for lines in batches:
                    await request.may_watch()
                    begun = True
                    yield lines
                    reader.seen = lines[-1].token or reader.seen
        except (_EndedError, ApiException) as ended:
            if not begun and isinstance(ended, ApiException):
                raise
            if not begun:
                await request.may_watch()
            reason: EndReason = ended.reason if isinstance(ended, _EndedError) else "caller"
            if not request.is_own:
                watchers.count_end(reason)
            yield [Line("end", reader.seen, encode(End(reader.seen, reason)))]


class _Reader:
    def __init__(self, watchers: Watchers, request: WatchRequest) -> None:
        self.seen = None if request.after is None else str(request.after)
        """The token of the last state that it was sent."""
        self._watchers = watchers
        self._request = request
        self._clock = watchers.options.clock.monotonic
        image = watchers.loaded_image()
        self._epoch: UUID | None = image.epoch if request.after is None else _epoch_of(image, request.after)
        self._offset = -1 if request.after is None else request.after.offset
        self._sent_at: datetime | None = None
        """When the last record that was sent was written."""
        self._state: State | None = None
        """That of the image at the offset, once it is known."""
        self._bookmark_at = 0.0
        self._held_at: float | None = None
        """Since when it has been held back."""
        self._max_behind = MAX_BYTES if request.is_own else _MAX_BEHIND
        self._caller = PlaceOwner(request.caller, request.is_own)

    @property
    def token(self) -> str | None:
        return None if self._epoch is None or self._offset < 0 else str(Token(self._epoch, self._offset))

    async def lines(self) -> AsyncGenerator[Lines, None]:
        """Raises _EndedError, and refusals before the first lines."""
        if self._request.after is None:
            async with aclosing(self._snapshot()) as parts:
                async for line in parts:
                    yield [line]
        elif self._offset + 1 < self._watchers.recent.first:
            async with self._watchers.pages.place(self._caller):
                await self._check_reach()
        while True:
            before = self._offset
            async with AsyncExitStack() as held:
                place: ReaderPlace | None = None
                if self._encodes_for_itself():
                    place = await held.enter_async_context(self._watchers.pages.place(self._caller))
                lines = await self._next_lines()
                if place is not None and sum(len(line.json) for line in lines) > SLICE_BYTES:
                    # INVARIANT: what is longer is in memory for the readers with a place only.
                    place.keep(lines)
                else:
                    await held.aclose()
                if lines:
                    asked_at = self._clock()
                    yield lines
                    self._check_pace(asked_at, place)
            if not lines and self._offset == before:
                await self._watchers.rounds.wait(self._push, self._due_s)

    def _encodes_for_itself(self) -> bool:
        """Whether what comes next is not encoded for all. Raises _EndedError."""
        image, recent = self._image_to_follow(), self._watchers.recent
        if self._offset == image.offset:
            return False
        return self._offset + 1 < recent.first or (
            self._request.acl_filter is not None and recent.has_after(self._offset)
        )

    def _check_pace(self, asked_at: float, place: ReaderPlace | None) -> None:
        """Raises _EndedError if the reader is too slow."""
        is_late = self._clock() - asked_at > _SLOW_S
        if (place is not None and place.is_cut) or (
            is_late and self._watchers.recent.is_behind(self._offset, self._max_behind)
        ):
            raise _EndedError("slow")

    def _due_s(self) -> float:
        """Seconds until a bookmark is due."""
        return max(_SHORTEST_WAIT_S, self._bookmark_at - self._clock())

    def _push(self) -> PushResult:
        """Sends what is new while this waits. DONE if `lines` has to, as for all but plain transactions."""
        request, image, recent = self._request, self._watchers.image, self._watchers.recent
        if request.push is None or image is None or not self._is_plain(image):
            return PushResult.DONE
        if self._offset == image.offset and self._clock() < self._bookmark_at:
            return PushResult.IDLE
        if request.keeps_up is not None and not request.keeps_up():
            return self._hold_back()
        self._held_at = None
        # None: it is not encoded yet; news follow when it is, and bookmarks until then.
        part = recent.part(self._offset) if self._offset < image.offset else None
        if part is not None:
            if part.size > SLICE_BYTES or not request.push(part):
                return PushResult.DONE
            self._pass(part)
            self.seen = part.lines[-1].token
            if recent.has_after(self._offset):
                return PushResult.MORE
        return self._push_bookmark(image, request.push)

    def _is_plain(self, image: AuthorizerImage) -> bool:
        """Whether what comes next is a transaction as all are sent it, or a bookmark."""
        if self._request.acl_filter is not None or self._watchers.draining or image.epoch != self._epoch:
            return False
        return image.offset >= self._offset >= self._watchers.recent.first - 1

    def _pass(self, part: Part) -> None:
        self._offset, self._state, self._sent_at = part.last, part.state, part.recorded_at

    def _hold_back(self) -> PushResult:
        """Leaves it to a later round to send what is new, together.

        DONE after long, or once the reader is far behind: `lines` then sends, and a client that never reads is cut.
        """
        now = self._clock()
        self._held_at = self._held_at or now
        if now - self._held_at > _HELD_BACK_MOST_S or self._watchers.recent.is_behind(self._offset, self._max_behind):
            self._held_at = None
            return PushResult.DONE
        return PushResult.BLOCKED

    def _push_bookmark(self, image: AuthorizerImage, push: Callable[[Part], bool]) -> PushResult:
        """DONE if `lines` has to send it."""
        due_at = self._bookmark_at
        if self._clock() < due_at:
            return PushResult.IDLE
        lines = self._bookmark(image)
        if lines and self._epoch is not None and self._state is not None:
            part = Part(lines, len(lines[0].json), self._epoch, self._offset, self._state, _LONG_AGO)
            if not push(part):
                self._bookmark_at = due_at
                return PushResult.DONE
            self.seen = lines[0].token
        return PushResult.IDLE

    async def _snapshot(self) -> AsyncGenerator[Line, None]:
        watchers, ends_at = self._watchers, self._clock() + _SNAPSHOT_S
        async with watchers.snapshots.place(self._caller) as place:
            # In one step of the loop, so that the parts hear of every transaction after the image.
            image = watchers.loaded_image()
            self._epoch = image.epoch
            parts = ImageParts(image, self._request.acl_filter, watchers.store_time_now)
            with watchers.hearing(parts):
                try:
                    async with aclosing(parts.lines(lambda: watchers.serves(image))) as lines:
                        async for line in lines:
                            place.keep([line])
                            yield line
                            if watchers.draining:
                                raise _EndedError("draining")
                            if place.is_cut or self._clock() > ends_at:
                                raise _EndedError("slow")
                except ImageLeftException as left:
                    raise _EndedError("slow" if left.is_too_slow else "reload") from None
        self._offset, self._state = image.offset, (image.hash, image.digest)

    def _image_to_follow(self) -> AuthorizerImage:
        """Raises _EndedError."""
        image = self._watchers.image
        if self._watchers.draining:
            raise _EndedError("draining")
        if image is None or self._epoch is None or not image.has(Token(self._epoch, self._offset)):
            raise _EndedError("reload")
        return image

    def _epoch_lines(self, image: AuthorizerImage) -> list[Line]:
        """The epochs that begin where the reader stands. Raises _EndedError if it takes none."""
        lines: list[Line] = []
        while self._epoch is not None and image.epochs is not None:
            following = image.epochs.after(self._epoch)
            if following is None or following.first_offset != self._offset:
                break
            if not self._request.with_epochs:
                raise _EndedError("reload")
            self._epoch = following.id
            event = EpochBegan(following.id, following.first_offset)
            lines.append(Line("epoch", str(Token(following.id, self._offset)), encode(event)))
        return lines

    async def _next_lines(self) -> list[Line]:
        """What all are sent: SLICE_BYTES at most, or one line that is longer. Raises _EndedError."""
        image, recent = self._image_to_follow(), self._watchers.recent
        lines = self._epoch_lines(image)
        if self._offset == image.offset:
            pass
        elif self._offset + 1 < recent.first:
            lines += await self._older_lines(image)
        elif self._request.acl_filter is not None:
            lines += await self._filtered_lines()
        else:
            part = recent.part(self._offset)
            if part is not None and part.epoch == self._epoch:
                self._pass(part)
                lines += part.lines
        return lines + self._bookmark(image)

    async def _filtered_lines(self) -> list[Line]:
        lines: list[Line] = []
        size, pace = 0, Pace()
        for entry in list(self._watchers.recent.after(self._offset)):
            if entry.epoch != self._epoch:
                break
            line = await self._line(entry.records)
            self._offset, self._state = entry.last, (entry.records[-1].hash, entry.digest)
            self._sent_at = entry.records[-1].recorded_at
            if line is not None:
                lines.append(line)
                size += len(line.json)
            if size >= SLICE_BYTES:
                break
            await pace.breathe()
        return lines

    def _bookmark(self, image: AuthorizerImage) -> list[Line]:
        """Where the reader stands, if a bookmark is due and that is surely a state of the image; else no line."""
        if self._offset == image.offset:
            self._state = image.hash, image.digest
        if self._state is None or self._clock() < self._bookmark_at or self._epoch is None or self._offset < 0:
            return []
        self._bookmark_at = self._clock() + self._request.bookmark_s
        passed_at = self._sent_at if self._offset < image.offset else None
        return [self._watchers.bookmark(Token(self._epoch, self._offset), self._state, passed_at)]

    async def _line(self, records: Sequence[Record]) -> Line | None:
        """None if the filter lets nothing through."""
        return None if self._epoch is None else await transaction_line(self._epoch, records, self._request.acl_filter)

    # what is older than the memory

    async def _check_reach(self) -> None:
        """Raises OffsetOutOfRangeException, StoreUnavailableException."""
        recent = self._watchers.recent
        try:
            poll = await self._watchers.history(self._offset)
        except TimeoutError:
            raise StoreUnavailableException("the store does not answer; try again shortly") from None
        except PoisonedRecordException:
            # They may be of a later version; a snapshot needs none of them.
            recent.refuse_before(recent.first - 1)
            image = self._watchers.loaded_image()
            raise _out_of_range("can't be read by this version", recent.oldest_offset, image.epochs) from None
        first = next(transactions_of(poll.records), ())
        if first and await is_too_long(first):
            recent.refuse_before(first[-1].offset)
        if self._is_missing(poll):
            oldest = min(poll.head.log_start_offset, recent.first) - 1
            raise _out_of_range("are gone", max(oldest, recent.oldest_offset), poll.head.epochs)
        if self._offset < recent.oldest_offset:
            raise _out_of_range("can't be sent, as some are too long", recent.oldest_offset, poll.head.epochs)

    async def _older_lines(self, image: AuthorizerImage) -> list[Line]:
        """A page of the store's records, up to what the image holds."""
        recent = self._watchers.recent
        try:
            poll = await self._watchers.history(self._offset)
        except (StoreUnavailableException, PoisonedRecordException, TimeoutError) as fault:
            if isinstance(fault, PoisonedRecordException):
                recent.refuse_before(recent.first - 1)
            raise _EndedError("reload") from None
        if self._is_missing(poll) or not poll.records:
            raise _EndedError("reload")
        lines: list[Line] = []
        for transaction in transactions_of(poll.records):
            last = transaction[-1]
            if last.offset > image.offset or (image.epochs and image.epochs.at(last.offset) != self._epoch):
                break
            if await is_too_long(transaction):
                recent.refuse_before(last.offset)
                if lines:
                    break
                raise _EndedError("reload")
            line = await self._line(transaction)
            # The digest there is not known.
            self._offset, self._state, self._sent_at = last.offset, (last.hash, None), last.recorded_at
            if line is not None:
                lines.append(line)
        return lines

    def _is_missing(self, poll: FeedPoll) -> bool:
        head = poll.head
        if self._epoch is None or self._offset + 1 < head.log_start_offset:
            return True
        return not head.epochs.has(Token(self._epoch, self._offset), head.last_offset)


def _out_of_range(why: str, oldest: int, epochs: Epochs | None) -> OffsetOutOfRangeException:
    token = None if epochs is None else str(Token(epochs.at(oldest), oldest))
    works = "" if token is None else f"the oldest token that works is `{token}`, or "
    return OffsetOutOfRangeException(
        f"the records after this token {why}; {works}start again with `snapshot=true`", token
    )


def _epoch_of(image: AuthorizerImage, after: Token) -> UUID:
    """The epoch of the token; of a token from before its epoch began, that in which its record was written."""
    if image.epochs is not None:
        for row in image.epochs.rows:
            if row.id == after.epoch and after.offset < row.first_offset:
                return image.epochs.at(after.offset)
    return after.epoch
