"""One stream of watch, read to its end: lines, events, and what they claim about themselves."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AsyncExitStack
from urllib.parse import urlencode

import httpx

from app.core.continuity import FeedPosition
from app.core.kafka.errors import (
    InvalidRequestException,
    PoisonedRecordException,
    StoreUnavailableException,
    UnknownRecordException,
)
from app.core.token import Token
from app.formats.feed_events import (
    MAX_LINE_BYTES,
    Bookmark,
    Event,
    NoEventError,
    Snapshot,
    Synced,
    Transaction,
    UnknownValueError,
    decode,
    long_transaction,
    record_in,
)
from app.upstream.connection import Connection, unavailable

_WATCH = "/v1/watch"
_ANSWER_S = 16.0
"""A service that is behind the token waits up to five seconds before it says so."""
_LEAST_SILENCE_S = 3.0
_LONG_BYTES = 256 << 10
_AT_ONCE = 500  # records that are decoded in one step: a millisecond


class WatchStream:
    """`events` runs to the end of the stream, and raises StoreUnavailableException, or NoEventError for a bad line."""

    def __init__(
        self, url: str, parts: AsyncIterator[bytes], held: AsyncExitStack, bookmark_s: float, asked_at: float
    ) -> None:
        """`asked_at` is the clock's time before the request was sent."""
        self.url = url
        self.asked_at = asked_at
        self.events = self._read(parts)
        self._held = held
        # Three missing bookmarks mean a broken connection (docs/watch.md).
        self._silence_s = max(_LEAST_SILENCE_S, 3 * bookmark_s)

    async def close(self) -> None:
        await self.events.aclose()
        await self._held.aclose()

    async def _read(self, parts: AsyncIterator[bytes]) -> AsyncGenerator[Event, None]:
        try:
            async for line in _lines(self._heard(parts)):
                event = await _decoded(line)
                if event is not None:
                    yield event
                # A full socket would otherwise occupy the loop.
                await asyncio.sleep(0)
        except httpx.HTTPError as fault:
            raise unavailable(self.url, fault) from None
        raise StoreUnavailableException(f"the upstream `{self.url}` ended the stream without saying why")

    async def _heard(self, parts: AsyncIterator[bytes]) -> AsyncGenerator[bytes, None]:
        while True:
            try:
                async with asyncio.timeout(self._silence_s):
                    part = await anext(parts)
            except StopAsyncIteration:
                return
            except TimeoutError:
                raise StoreUnavailableException(
                    f"the upstream `{self.url}` has sent nothing for {self._silence_s:g} s"
                ) from None
            yield part


async def opened(connection: Connection, url: str, after: Token | None) -> WatchStream:
    """Begins with a snapshot if no token is given. Raises RefusedError, StoreUnavailableException."""
    begin = {"snapshot": "true"} if after is None else {"after": str(after)}
    bookmark_s, asked_at = connection.options.bookmark_s, connection.options.clock()
    query = urlencode({**begin, "bookmark_ms": round(bookmark_s * 1000)})
    held = AsyncExitStack()
    try:
        response = await held.enter_async_context(connection.stream("GET", f"{url}{_WATCH}?{query}", idle_s=_ANSWER_S))
    except httpx.HTTPError as fault:
        raise unavailable(url, fault) from None
    return WatchStream(url, response.aiter_raw(), held, bookmark_s, asked_at)


def position_in(event: Snapshot | Synced | Bookmark) -> FeedPosition:
    """Raises NoEventError."""
    try:
        token = Token.parse(event.token, "token")
        return FeedPosition(token.epoch, token.offset, bytes.fromhex(event.hash))
    except (ValueError, InvalidRequestException) as fault:
        raise NoEventError(f"not a position: {fault}") from None


def digest_in(event: Snapshot | Synced | Bookmark) -> int | None:
    """Raises NoEventError."""
    try:
        return None if event.digest is None else int.from_bytes(bytes.fromhex(event.digest))
    except ValueError as fault:
        raise NoEventError(f"not a digest: {fault}") from None


def poisoned(offset: int, url: str, fault: Exception) -> PoisonedRecordException:
    if isinstance(fault, UnknownValueError):
        return UnknownRecordException(offset, f"the upstream `{url}` has what a later version has written: {fault}")
    return PoisonedRecordException(offset, f"the stream of the upstream `{url}` is damaged: {fault}")


async def _decoded(line: bytes) -> Event | None:
    """Raises NoEventError."""
    parts = long_transaction(line) if len(line) > _LONG_BYTES else None
    if parts is None:
        return decode(line)
    event = decode(parts[0])
    if isinstance(event, Transaction):
        for part in parts[1]:
            event.records.append(record_in(part))
            if not len(event.records) % _AT_ONCE:
                await asyncio.sleep(0)
    return event


async def _lines(parts: AsyncIterator[bytes]) -> AsyncGenerator[bytes, None]:
    begun: list[bytes] = []
    size = 0
    async for part in parts:
        start = 0
        while (end := part.find(b"\n", start)) >= 0:
            begun.append(part[start:end])
            yield b"".join(begun)
            begun, size, start = [], 0, end + 1
        begun.append(part[start:])
        size += len(part) - start
        if size > MAX_LINE_BYTES:
            raise NoEventError(f"a line is longer than {MAX_LINE_BYTES} bytes, so it is not an event")
