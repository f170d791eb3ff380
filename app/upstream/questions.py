"""What a follower asks of the service that it follows, beside the stream: older records, and what a position is."""

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace

from app.core.epochs import Standing
from app.core.kafka.errors import (
    InvalidRequestException,
    OffsetOutOfRangeException,
    StoreUnavailableException,
    TokenEpochInvalidException,
    TokenEpochMismatchException,
)
from app.core.records import Record
from app.core.token import Token
from app.formats.feed_events import Bookmark, End, NoEventError, Transaction
from app.formats.feed_values import records_in
from app.upstream.chain import FollowerChain
from app.upstream.connection import Connection, RefusedError, cut, unavailable
from app.upstream.stream import WatchStream, opened, poison_of

_log = logging.getLogger(__name__)

_MOST_S = 4.5
"""Less than a follower that asks waits for its own answer."""
_GOOD_S = 1.0
_STANDINGS = {
    TokenEpochMismatchException.error.value: Standing.LOST,
    TokenEpochInvalidException.error.value: Standing.INVALID,
}


class UpstreamQuestions:
    def __init__(self, connection: Connection, chain: FollowerChain) -> None:
        self._connection = connection
        self._chain = chain
        self._clock = connection.options.clock.monotonic
        self._one_at_a_time = asyncio.Lock()
        self._answer: tuple[Token, Standing, float] | None = None
        """The last position asked about, what it is, and until when that holds."""

    async def standing_of(self, position: Token, asked_by: Sequence[str]) -> Standing:
        """What a service that has read the store's head says of the position. Raises StoreUnavailableException.

        INVARIANT: only such a service says that a position is lost or invalid; a follower hands that on.
        """
        followers = self._chain.asking(asked_by)
        try:
            async with asyncio.timeout(_MOST_S), self._one_at_a_time:
                if self._answer is None or self._answer[0] != position or self._clock() > self._answer[2]:
                    standing = await self._asked(position, followers)
                    self._answer = position, standing, self._clock() + _GOOD_S
                return self._answer[1]
        except TimeoutError:
            raise StoreUnavailableException(
                "the upstream does not say in time whether the position is a part of the history"
            ) from None

    async def records_behind(self, position: Token, limit: int) -> tuple[int, list[Record]]:
        """A page of records, and the first offset that can be had; none if those right behind it are trimmed.

        Raises StoreUnavailableException, PoisonedRecordException.
        """
        where = self._where()
        try:
            async with self._asking(where, position, self._chain.asking()) as stream:
                return position.offset + 1, await _page_of(stream, position.offset, limit)
        except RefusedError as refused:
            oldest = refused.problem.oldest_token if refused.problem is not None else None
            if refused.code != OffsetOutOfRangeException.error.value or oldest is None:
                raise unavailable(where, refused) from None
            return _after(where, oldest), []
        except ValueError as fault:
            _log.warning("upstream_records_invalid", extra={"url": where, "detail": cut(str(fault))})
            raise poison_of(position.offset + 1, where, fault) from None

    async def _asked(self, position: Token, followers: str) -> Standing:
        where = self._where()
        try:
            async with self._asking(where, position, followers):
                return Standing.PART
        except RefusedError as refused:
            standing = _STANDINGS.get(refused.code or "")
            if standing is None:
                raise unavailable(where, refused) from None
            return standing

    def _where(self) -> str:
        if self._connection.where is None:
            raise StoreUnavailableException(self._connection.why)
        return self._connection.where

    @asynccontextmanager
    async def _asking(self, where: str, position: Token, followers: str) -> AsyncIterator[WatchStream]:
        """A stream that begins there. Raises RefusedError, StoreUnavailableException."""
        stream = await opened(self._connection, where, position, followers)
        try:
            yield stream
        finally:
            await stream.close()


def _after(where: str, oldest_token: str) -> int:
    try:
        return Token.parse(oldest_token).offset + 1
    except InvalidRequestException:
        raise unavailable(where, RefusedError(410, None)) from None


async def _page_of(stream: WatchStream, offset: int, limit: int) -> list[Record]:
    """Raises StoreUnavailableException, ValueError for what can't be."""
    records: list[Record] = []
    while len(records) < limit:
        event = await stream.next()
        if isinstance(event, Transaction):
            if event.first_offset != offset + 1:
                raise NoEventError(f"offset {offset} is followed by a transaction that begins at {event.first_offset}")
            some = records_in(event)
            some[-1] = replace(some[-1], hash=bytes.fromhex(event.hash))
            records += some
            offset = event.last_offset
        elif isinstance(event, Bookmark | End):
            break
    return records
