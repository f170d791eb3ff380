"""Which upstream service to follow: the first that continues the history held here, else the first that is up."""

from collections.abc import Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass

from app.core.continuity import FeedPosition
from app.core.epochs import is_later
from app.core.kafka.errors import PoisonedRecordException, StoreUnavailableException
from app.core.records import FeedHead
from app.core.token import Token
from app.formats.feed_events import End, NoEventError, Snapshot
from app.upstream.connection import Connection, RefusedError, unavailable
from app.upstream.snapshot import UpstreamSnapshot
from app.upstream.stream import WatchStream, opened, poisoned

_GRACE_S = 10.0
"""How long a service that could continue this history may be away before one of another history is followed."""
_MOST_IN_A_ROW = 16
_LOOP = "this follower would follow itself; set upstream.urls to a service that is nearer to the store"
_NOT_CONTINUED = ("TOKEN_EPOCH_MISMATCH", "OFFSET_OUT_OF_RANGE", "OFFSET_NOT_AVAILABLE")


class OtherHistoryError(Exception):
    """No service continues the history held here. `head` is that of the service to follow instead."""

    def __init__(self, head: FeedHead) -> None:
        super().__init__("the upstream does not continue the history held here")
        self.head = head


@dataclass(frozen=True, slots=True)
class _Other:
    """The head of a service that does not continue what was received."""

    head: FeedHead
    url: str
    is_certain: bool
    """Whether it is of a later history, or has trimmed what follows: waiting for it changes nothing."""


class UpstreamServices:
    def __init__(self, connection: Connection) -> None:
        self.chain: Sequence[str] = ()
        """The chain of the service that is followed, or was asked last."""
        self._connection = connection
        self._urls = list(connection.options.urls)
        self._clock = connection.options.clock
        self._failing_since: float | None = None

    async def continued(self, tail: FeedPosition) -> WatchStream:
        """A stream that goes on where the last one ended, from the first service that has one.

        Raises StoreUnavailableException, or OtherHistoryError if none has but another is to be followed.
        """
        others, whys = list[_Other](), list[str]()
        for url in list(self._urls):
            try:
                return await opened(self._connection, url, Token(tail.epoch, tail.offset))
            except (RefusedError, StoreUnavailableException) as fault:
                why, other = self._why(url, fault), None
                if isinstance(fault, RefusedError) and fault.code in _NOT_CONTINUED:
                    with suppress(StoreUnavailableException):
                        other = await self._other_at(url, tail)
                if other is None:
                    whys.append(why)
                else:
                    others.append(other)
        now = self._clock()
        self._failing_since = now if self._failing_since is None else self._failing_since
        is_late = now - self._failing_since > _GRACE_S
        chosen = next((each for each in others if each.is_certain or not whys or is_late), None)
        if chosen is not None:
            self._urls.remove(chosen.url)
            self._urls.insert(0, chosen.url)
            raise OtherHistoryError(chosen.head)
        raise StoreUnavailableException("; ".join(whys) or "the upstream does not continue this history")

    async def _other_at(self, url: str, tail: FeedPosition) -> _Other | None:
        """The head of a service that does not continue from the tail; None if it does by now."""
        try:
            stream = await opened(self._connection, url, None)
        except RefusedError as refused:
            raise unavailable(url, refused) from None
        try:
            head = (await self._opening(stream)).head
        finally:
            await stream.close()
        if head.epoch != tail.epoch:
            return _Other(head, url, is_certain=is_later(head.epoch, tail.epoch))
        if (head.last_offset, head.hash) == (tail.offset, tail.hash):
            return None
        return _Other(head, url, is_certain=head.last_offset > tail.offset)

    async def any_snapshot(self) -> tuple[WatchStream, UpstreamSnapshot]:
        """From the first service that has one. Raises StoreUnavailableException if none has."""
        whys: list[str] = []
        for url in list(self._urls):
            try:
                stream = await opened(self._connection, url, None)
                async with AsyncExitStack() as held:
                    held.push_async_callback(stream.close)
                    snapshot = await self._opening(stream)
                    held.pop_all()
                    return stream, snapshot
            except (RefusedError, StoreUnavailableException) as fault:
                whys.append(self._why(url, fault))
        raise StoreUnavailableException("; ".join(whys))

    async def _opening(self, stream: WatchStream) -> UpstreamSnapshot:
        """Raises StoreUnavailableException, PoisonedRecordException."""
        try:
            first = await anext(stream.events, None)
            if isinstance(first, Snapshot):
                return UpstreamSnapshot(first, stream.events, stream.url)
        except NoEventError as fault:
            raise poisoned(-1, stream.url, fault) from None
        if isinstance(first, End):
            raise StoreUnavailableException(f"the upstream `{stream.url}` ended the stream (`{first.reason}`)")
        raise PoisonedRecordException(-1, f"the stream of the upstream `{stream.url}` does not begin with a snapshot")

    def followed(self) -> None:
        """Notes that the stream continues the history held here."""
        self._failing_since = None

    def turn(self) -> None:
        """Makes the next try begin with the next service."""
        self._urls.append(self._urls.pop(0))

    def check_chain(self, chain: Sequence[str]) -> None:
        """Raises StoreUnavailableException."""
        own = self._connection.options.follower
        if own in chain:
            self.chain = chain[: chain.index(own)]
            raise StoreUnavailableException(_LOOP)
        if len(chain) >= _MOST_IN_A_ROW:
            raise StoreUnavailableException(
                f"more than {_MOST_IN_A_ROW} followers in a row; follow a service that is nearer to the store"
            )
        self.chain = chain

    def _why(self, url: str, fault: RefusedError | StoreUnavailableException) -> str:
        problem = fault.problem if isinstance(fault, RefusedError) else None
        try:
            if problem is not None and problem.chain:
                self.check_chain(problem.chain)
        except StoreUnavailableException as loop:
            return f"`{url}`: {loop.message}"
        return unavailable(url, fault).message
