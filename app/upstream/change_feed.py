"""The change feed of another service: one stream at a time, proved as it is read, from the URL the machine names."""

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from math import inf

from app.core.backoff import Backoff
from app.core.continuity import FeedPosition
from app.core.epochs import Cause, Epochs, Standing
from app.core.kafka.errors import PoisonedRecordException, StoreUnavailableException
from app.core.records import FeedHead, FeedPoll
from app.core.token import Token
from app.formats.feed_events import Bookmark, EpochBegan, Event, NoEventError, Transaction
from app.upstream.chain import FollowerChain
from app.upstream.connection import Connection
from app.upstream.questions import UpstreamQuestions
from app.upstream.received import Received
from app.upstream.snapshot import UpstreamSnapshot, head_of
from app.upstream.stream import WatchStream, token_in
from app.upstream.streams import StreamLeftError, UpstreamStreams, stop_task
from app.upstream.time import UpstreamTime

_log = logging.getLogger(__name__)

_PATIENCE_S = 1.0
"""How long a poll waits for a stream that is being opened: less than the loader's own bound."""
_FIRST_BACKOFF_S = 0.05
_LONGEST_BACKOFF_S = 2.0
_LONGEST_POISON_S = 15.0
"""With the time that a stream may take to open, less than the loader waits for a part of a snapshot."""
_POISON_PASSES_S = 60.0
_BUSY_S = 2.0
_NEEDED = {
    Cause.LOST: "the store has lost changes that are held here",
    Cause.INVALID_POSITION: "the changes that are held here are of an epoch that no store has begun",
    Cause.TRIMMED: "the records after those that are held here have been trimmed",
    Cause.FAILED_CHECK: "what the upstream has sent can't be used",
}


class UpstreamChangeFeed:
    """`resume` and `snapshot` begin a history; `poll` hands over what a task has received of it since.

    INVARIANT: what has been received ends at the position that the machine holds.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._chain = FollowerChain(connection.options.follower)
        self._streams = UpstreamStreams(connection, self._chain)
        self._following = self._streams.following
        self._questions = UpstreamQuestions(connection, self._chain)
        self._clock, jitter = connection.options.clock.monotonic, connection.options.clock.jitter
        self._backoff = Backoff(_FIRST_BACKOFF_S, _LONGEST_BACKOFF_S, jitter)
        self._received: Received | None = None
        self._cluster_id: str | None = None
        self._time = UpstreamTime(connection, self._chain)
        self._unused: tuple[Token | None, Epochs | None, float | None] | None = None
        """What was held before the last snapshot, until a poll goes on from that."""
        self._fault: PoisonedRecordException | None = None
        self._poison_backoff = Backoff(_FIRST_BACKOFF_S, _LONGEST_POISON_S, jitter)
        self._poisoned_at = -inf
        self._news = asyncio.Event()
        self._changed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    @property
    def chain(self) -> Sequence[str]:
        return self._chain.ids

    @property
    def token(self) -> Token:
        """How far the feed has come. Raises StoreUnavailableException before it has begun."""
        if self._following.held is None:
            raise StoreUnavailableException(self._connection.why)
        return self._following.held

    # runtime's port

    @asynccontextmanager
    async def snapshot(self) -> AsyncIterator[UpstreamSnapshot]:
        """One try, at the URL that the machine names; after a failure it names the next."""
        await self._leave()
        self._refuse_unused()
        await self._rest_after_poison()
        following = self._following
        if following.ask.after is not None:
            # The machine would go on, but the image can't: what was handed over has failed a check.
            following.opened(self._clock())
            following.failed_check(self._clock())
        before = following.held, following.epochs, self._equal_at()
        async with AsyncExitStack() as held:
            try:
                stream = await self._streams.open()
                held.push_async_callback(stream.close)
                snapshot = await UpstreamSnapshot.begin(self._streams, stream)
            except StreamLeftError as left:
                self._streams.lost(left)
                raise left.fault from None
            try:
                yield snapshot
            finally:
                if not snapshot.is_complete and not snapshot.is_left:
                    # Whoever takes it could not use it, or has given up.
                    following.broke(self._clock())
            if not snapshot.is_complete:
                return
            held.pop_all()
        self._unused = before
        self._time.hear(snapshot.store_time, stream.asked_at)
        self._cluster_id = snapshot.head.cluster_id
        self._begin(Received(snapshot.head.last_offset, snapshot.head.hash), stream)

    def rewind(self, applied_offset: int) -> None:
        self._cancel()
        self._refuse_unused()
        received, epochs = self._received, self._following.epochs
        if received is not None and epochs is not None and received.ends_at(applied_offset):
            epochs = epochs.upto(applied_offset)
            self._following.resume(Token(epochs.last, applied_offset), epochs, self._equal_at())

    def resume(self, position: FeedPosition, epochs: Epochs | None, age_s: float) -> bool:
        self._cancel()
        self._refuse_unused()
        held = Token(position.epoch, position.offset)
        self._following.resume(held, epochs or Epochs.only(held.epoch), self._clock() - age_s)
        self._begin(Received(position.offset, position.hash), None)
        return True

    async def poll(self, applied_offset: int, limit: int) -> FeedPoll:
        """Answers from memory. Raises PoisonedRecordException for what no stream can have sent."""
        await self._settled(applied_offset)
        received = self._received
        if received is None:
            raise StoreUnavailableException(self._connection.why)
        hash_at, records = received.behind(applied_offset, limit)
        head, age_s = self._head(received), self._following.age_s(self._clock())
        # What ended the stream right behind a snapshot's first bookmark must not cost the image that was built of it.
        is_new = self._unused is not None and hash_at is not None and age_s is not None
        if not records and not is_new:
            fault, self._fault = self._fault, None
            if fault is not None:
                raise fault
            cause = self._following.ask.cause
            if cause is not None:
                return FeedPoll(head, hash_at, (), snapshot_needed=_NEEDED[cause], is_of_primary=False)
            if self._connection.where is None:
                raise StoreUnavailableException(self._connection.why)
        if age_s is None:
            raise StoreUnavailableException("the upstream has not said yet how old its state is")
        if hash_at is not None:
            self._unused = None
        doubt = None if age_s <= self._most_age_s() else "the upstream has lost touch with the head of its own source"
        shown = self._time.shown()
        return FeedPoll(head, hash_at, records, shown, age_s=age_s, doubt=doubt, is_of_primary=False)

    async def history(self, offset: int, limit: int) -> FeedPoll:
        """Asks the upstream, whose records may reach back further."""
        received, epochs = self._received, self._following.epochs
        if received is None or epochs is None:
            raise StoreUnavailableException(self._connection.why)
        start, records = await self._questions.records_behind(Token(epochs.upto(offset).last, offset), limit)
        head = self._head(received, start)
        return FeedPoll(head, None, records, is_of_primary=False)

    async def begin_epoch_if_lost(self, lost: FeedPosition) -> None:
        """Nothing to do: a service that can write to the store begins one, once it is asked for that position."""

    async def standing_of(self, position: Token, asked_by: Sequence[str] = ()) -> Standing:
        return await self._questions.standing_of(position, asked_by)

    async def wait(self, timeout_s: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self._news.wait()
        self._news.clear()

    async def close(self) -> None:
        await self._leave()
        await self._streams.close()
        await self._connection.close()

    async def _rest_after_poison(self) -> None:
        """A stream that is poisoned after each snapshot must not lead to one snapshot after another."""
        if self._clock() - self._poisoned_at > _POISON_PASSES_S:
            self._poison_backoff.reset()
        else:
            await asyncio.sleep(self._poison_backoff.next_s())

    # following

    def _begin(self, received: Received, stream: WatchStream | None) -> None:
        self._received, self._fault = received, None
        self._task = asyncio.create_task(self._run(received, stream, self._task), name="klamm-upstream")

    def _cancel(self) -> None:
        """INVARIANT: in this step of the loop, so that no stream reports to the machine any more."""
        if self._task is not None:
            self._task.cancel()
        self._connection.where = None

    async def _leave(self) -> None:
        task, self._task = self._task, None
        self._connection.where = None
        if task is not None:
            await stop_task(task)

    def _refuse_unused(self) -> None:
        """A snapshot that no poll went on from could not be used: the next URL is asked, from what is held still."""
        if self._unused is not None:
            before, self._unused = self._unused, None
            self._following.broke(self._clock())
            self._following.resume(*before)
            self._received = None

    async def _run(self, received: Received, stream: WatchStream | None, before: asyncio.Task[None] | None) -> None:
        """Reads one stream after the other, until a snapshot is needed."""
        if before is not None:
            await stop_task(before)
        while self._following.ask.after is not None:
            began_at = self._clock()
            try:
                stream = stream or await self._streams.open()
                await self._read(received, stream)
            except StreamLeftError as left:
                if isinstance(left.fault, PoisonedRecordException):
                    self._poisoned_at, self._fault = self._clock(), left.fault
                self._streams.lost(left)
            except Exception:  # noqa: BLE001 - logged; the next stream may hold
                _log.exception("upstream_failed")
                self._following.broke(self._clock())
                self._streams.lost(StreamLeftError("?", StoreUnavailableException("unexpected fault; see the log")))
            finally:
                if stream is not None:
                    await stream.close()
            self._tell()
            stream = None
            if self._clock() - began_at > _LONGEST_BACKOFF_S:
                self._backoff.reset()
            await asyncio.sleep(self._backoff.next_s())

    async def _read(self, received: Received, stream: WatchStream) -> None:
        """Raises StreamLeftError."""
        while True:
            event = await self._streams.next(stream, received.offset + 1)
            with self._streams.reported(stream.url, received.offset + 1):
                await self._take(received, stream, event)
            self._tell()

    async def _take(self, received: Received, stream: WatchStream, event: Event) -> None:
        """Raises StreamLeftError, NoEventError, StoreUnavailableException."""
        following = self._following
        match event:
            case Transaction():
                token = token_in(event.token)
                if event.first_offset != received.offset + 1 or event.last_offset != token.offset:
                    raise NoEventError(
                        f"offset {received.offset} is followed by `{event.token}`, which begins at {event.first_offset}"
                    )
                records = await received.proved(event)
                self._must(stream, following.transaction(token, event.first_offset, self._clock()))
                received.append(records)
            case EpochBegan():
                self._must(stream, following.epoch(event.epoch, event.first_offset, self._clock()))
            case Bookmark():
                self._chain.check(event.chain or ())
                received.confirm(event)
                self._must(stream, following.bookmark(token_in(event.token), event.age_ms / 1000, self._clock()))
                self._time.hear(event.store_time, stream.asked_at)
                if event.store_time is not None and self._time.is_due():
                    await self._time.ask(stream.url, self.token)
                self._fault = None
                self._streams.followed(stream.url, received.offset)
            case _:
                raise NoEventError(f"an unexpected `{type(event).__name__.lower()}` among the changes")

    def _must(self, stream: WatchStream, is_read_on: bool) -> None:  # noqa: FBT001 - the machine's answer
        if not is_read_on:
            why = f"the stream of the upstream `{stream.url}` is damaged: it does not go on from what is held"
            raise StreamLeftError(stream.url, PoisonedRecordException(self.token.offset + 1, why))

    def _head(self, received: Received, start: int | None = None) -> FeedHead:
        held, epochs = self._following.held, self._following.epochs
        if held is None or epochs is None:
            raise StoreUnavailableException(self._connection.why)
        position = FeedPosition(held.epoch, received.offset, received.hash)
        start = received.base_offset + 1 if start is None else start
        return head_of(position, received.digest, self._cluster_id, epochs, start)

    def _equal_at(self) -> float | None:
        now = self._clock()
        age_s = self._following.age_s(now)
        return None if age_s is None else now - age_s

    def _most_age_s(self) -> float:
        """How long bookmarks may take through all the followers, with some patience for a busy machine."""
        return (3 * self._connection.options.bookmark_s + _BUSY_S) * len(self._chain.ids)

    async def _settled(self, applied_offset: int) -> None:
        """Waits until there is something to report, or _PATIENCE_S is over."""
        ends_at = self._clock() + _PATIENCE_S
        # Whoever polls in a loop would otherwise keep the stream from being read.
        await asyncio.sleep(0)
        while (left_s := ends_at - self._clock()) > 0 and not self._has_something(applied_offset):
            self._changed.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(left_s):
                    await self._changed.wait()

    def _tell(self) -> None:
        self._news.set()
        self._changed.set()

    def _has_something(self, applied_offset: int) -> bool:
        received, following = self._received, self._following
        if received is None:
            return False
        if self._fault is not None or following.ask.cause is not None:
            return True
        is_behind = applied_offset < received.offset or self._connection.where is not None
        return is_behind and following.age_s(self._clock()) is not None
