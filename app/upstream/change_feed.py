"""The change feed of another service: one stream at a time, proved as it is read, from whichever URL continues it."""

import asyncio
import logging
import random
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import replace
from math import inf

from app.core.backoff import Backoff
from app.core.continuity import FeedPosition
from app.core.epochs import Standing
from app.core.kafka.errors import PoisonedRecordException, StoreUnavailableException
from app.core.records import FeedHead, FeedPoll, Record
from app.core.token import Token
from app.formats.feed_events import Bookmark, End, NoEventError, Transaction
from app.formats.feed_values import records_in
from app.upstream.connection import Connection, RefusedError, unavailable
from app.upstream.received import Received
from app.upstream.services import OtherHistoryError, UpstreamServices
from app.upstream.snapshot import UpstreamSnapshot, head_of
from app.upstream.stream import WatchStream, opened, poisoned
from app.upstream.time import UpstreamTime

_log = logging.getLogger(__name__)

_PATIENCE_S = 1.0
"""How long a poll waits for a stream that is being opened: less than the loader's own bound."""
_FIRST_BACKOFF_S = 0.05
_LONGEST_BACKOFF_S = 2.0
_LONGEST_POISON_S = 20.0
_POISON_PASSES_S = 60.0
_STOP_S = 1.0
_BUSY_S = 2.0


class UpstreamChangeFeed:
    """`resume` and `snapshot` begin a history; `poll` hands over what a task has received of it since."""

    def __init__(
        self,
        connection: Connection,
        jitter: Callable[[float, float], float] = random.uniform,
    ) -> None:
        self._connection = connection
        self._services = UpstreamServices(connection)
        self._clock = connection.options.clock
        self._jitter = jitter
        self._backoff = Backoff(_FIRST_BACKOFF_S, _LONGEST_BACKOFF_S, jitter)
        self._received: Received | None = None
        self._cluster_id: str | None = None
        self._time = UpstreamTime(connection, jitter)
        self._other: FeedHead | None = None
        self._fault: PoisonedRecordException | None = None
        self._poison_backoff = Backoff(_FIRST_BACKOFF_S, _LONGEST_POISON_S, jitter)
        self._poisoned_at = -inf
        self._news = asyncio.Event()
        self._changed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    @property
    def chain(self) -> Sequence[str]:
        return self._connection.options.follower, *self._services.chain

    @property
    def token(self) -> Token:
        """How far the feed has come. Raises StoreUnavailableException before it has begun."""
        if self._received is None:
            raise StoreUnavailableException(self._connection.why)
        return Token(self._received.tail.epoch, self._received.tail.offset)

    # runtime's port

    @asynccontextmanager
    async def snapshot(self) -> AsyncIterator[UpstreamSnapshot]:
        await self._leave()
        await self._rest_after_poison()
        stream, snapshot = await self._any_snapshot()
        async with AsyncExitStack() as held:
            held.push_async_callback(stream.close)
            yield snapshot
            if not snapshot.is_complete:
                return
            held.pop_all()
        self._time.hear(snapshot.store_time, stream.asked_at)
        head = snapshot.head
        self._cluster_id = head.cluster_id
        self._begin(FeedPosition(head.epoch, head.last_offset, head.hash), stream)

    def resume(self, position: FeedPosition) -> None:
        self._begin(position, None)

    async def poll(self, applied_offset: int, limit: int) -> FeedPoll:
        """Answers from memory. Raises PoisonedRecordException for what no stream can have sent."""
        await self._settled()
        received = self._received
        if self._other is not None:
            return FeedPoll(self._other, None, ())
        if received is None:
            raise StoreUnavailableException(self._connection.why)
        hash_at, records = received.behind(applied_offset, limit)
        if not records:
            fault, self._fault = self._fault, None
            if fault is not None:
                raise fault
            if self._connection.where is None:
                raise StoreUnavailableException(self._connection.why)
        if received.proved_at is None:
            raise StoreUnavailableException("the upstream has not said yet how old its state is")
        age_s = max(0.0, self._clock() - received.proved_at)
        doubt = None if age_s <= self._most_age_s() else "the upstream has lost touch with the head of its own source"
        head = head_of(received.tail, received.digest, self._cluster_id, received.base.offset + 1)
        return FeedPoll(head, hash_at, records, self._time.shown(), age_s=age_s, doubt=doubt)

    async def history(self, offset: int, limit: int) -> FeedPoll:
        """Asks the upstream, whose records may reach back further."""
        received, where = self._received, self._connection.where
        if received is None or where is None:
            raise StoreUnavailableException(self._connection.why)
        tail = received.tail
        try:
            stream = await opened(self._connection, where, Token(tail.epoch, offset))
        except RefusedError as refused:
            oldest = refused.problem.oldest_token if refused.problem is not None else None
            if refused.code != "OFFSET_OUT_OF_RANGE" or oldest is None:
                raise unavailable(where, refused) from None
            start = Token.parse(oldest).offset + 1
            return FeedPoll(head_of(tail, None, self._cluster_id, start), None, ())
        try:
            records = await _page_of(stream, limit)
        except NoEventError as fault:
            raise poisoned(offset + 1, where, fault) from None
        finally:
            await stream.close()
        return FeedPoll(head_of(tail, None, self._cluster_id, offset + 1), None, records)

    async def begin_epoch_if_lost(self, lost: FeedPosition) -> None:
        """Nothing to do: the replicas that can write to the store find out themselves what is lost."""

    async def standing_of(self, position: Token, asked_by: Sequence[str] = ()) -> Standing:  # noqa: ARG002 - comes next
        raise StoreUnavailableException("this follower can't tell whether the position is a part of the history")

    async def wait(self, timeout_s: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self._news.wait()
        self._news.clear()

    async def close(self) -> None:
        await self._leave()
        await self._connection.close()

    async def _rest_after_poison(self) -> None:
        """A stream that is poisoned after each snapshot must not lead to one snapshot after another."""
        if self._clock() - self._poisoned_at > _POISON_PASSES_S:
            self._poison_backoff.reset()
        else:
            await asyncio.sleep(self._poison_backoff.next_s())

    async def _any_snapshot(self) -> tuple[WatchStream, UpstreamSnapshot]:
        """Raises StoreUnavailableException, after a rest, if no service has one."""
        try:
            return await self._services.any_snapshot()
        except StoreUnavailableException as fault:
            self._lost(fault.message)
            await asyncio.sleep(self._backoff.next_s())
            raise

    # following

    def _begin(self, position: FeedPosition, stream: WatchStream | None) -> None:
        self._received, self._other, self._fault = Received(position), None, None
        self._task = asyncio.create_task(self._run(self._received, stream, self._task), name="klamm-upstream")

    async def _leave(self) -> None:
        task, self._task = self._task, None
        if task is not None:
            await stop_task(task)

    async def _run(self, received: Received, stream: WatchStream | None, before: asyncio.Task[None] | None) -> None:
        if before is not None:
            await stop_task(before)
        while True:
            try:
                stream = stream or await self._services.continued(received.tail)
                began_at = self._clock()
                await self._read(received, stream)
            except OtherHistoryError as other:
                self._other = other.head
                self._lost(str(other))
            except StoreUnavailableException as fault:
                self._lost(fault.message)
            except NoEventError as fault:
                where = "?" if stream is None else stream.url
                self._poisoned_at = self._clock()
                self._fault = poisoned(received.tail.offset + 1, where, fault)
                self._lost(self._fault.why)
            except Exception:  # noqa: BLE001 - logged; the next stream may hold
                _log.exception("upstream_failed")
                self._lost("unexpected fault; see the log")
            finally:
                self._connection.where = None
                if stream is not None:
                    await stream.close()
            if stream is not None:
                self._services.turn()
                if self._clock() - began_at > _LONGEST_BACKOFF_S:
                    self._backoff.reset()
            stream = None
            await asyncio.sleep(self._backoff.next_s())

    async def _read(self, received: Received, stream: WatchStream) -> None:
        """Raises StoreUnavailableException at the end of the stream, NoEventError for an event that can't be."""
        async for event in stream.events:
            match event:
                case Transaction():
                    await received.take(event)
                case Bookmark():
                    self._services.check_chain(event.chain or ())
                    received.confirm(event, self._clock())
                    self._time.hear(event.store_time, stream.asked_at)
                    if event.store_time is not None and self._time.is_due():
                        await self._time.ask(stream.url, received.tail)
                    if self._connection.where is None:
                        _log.info("upstream_followed", extra={"url": stream.url, "offset": received.tail.offset})
                    self._connection.where, self._fault = stream.url, None
                    self._services.followed()
                case End():
                    raise StoreUnavailableException(f"the upstream `{stream.url}` ended the stream (`{event.reason}`)")
                case _:
                    raise NoEventError(f"an unexpected `{type(event).__name__.lower()}` among the changes")
            self._tell()
        raise StoreUnavailableException(f"the upstream `{stream.url}` ended the stream")

    def _lost(self, why: str) -> None:
        if why != self._connection.why:
            _log.warning("upstream_lost", extra={"why": why})
        self._connection.why = why
        self._tell()

    def _most_age_s(self) -> float:
        """How long bookmarks may take through all the followers, with some patience for a busy machine."""
        return (3 * self._connection.options.bookmark_s + _BUSY_S) * (1 + len(self._services.chain))

    async def _settled(self) -> None:
        """Waits until there is something to report, or _PATIENCE_S is over."""
        ends_at = self._clock() + _PATIENCE_S
        while (left_s := ends_at - self._clock()) > 0 and not self._has_something():
            self._changed.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(left_s):
                    await self._changed.wait()

    def _tell(self) -> None:
        self._news.set()
        self._changed.set()

    def _has_something(self) -> bool:
        received = self._received
        is_proved = received is not None and received.proved_at is not None
        return self._other is not None or self._fault is not None or (is_proved and self._connection.where is not None)


async def _page_of(stream: WatchStream, limit: int) -> list[Record]:
    """Raises StoreUnavailableException, NoEventError."""
    records: list[Record] = []
    async for event in stream.events:
        if isinstance(event, Transaction):
            some = records_in(event)
            some[-1] = replace(some[-1], hash=bytes.fromhex(event.hash))
            records += some
        if len(records) >= limit or isinstance(event, Bookmark | End):
            break
    return records


async def stop_task(task: asyncio.Task[None]) -> None:
    """Cancels the task and waits a moment for its end."""
    task.cancel()
    await asyncio.wait({task}, timeout=_STOP_S)
