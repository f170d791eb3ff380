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
from app.upstream.connection import Connection, RefusedError, unavailable

_WATCH, _NDJSON = "/v1/watch", "application/x-ndjson"
_IDLE_S = 16.0
"""A stream that is silent for so long is over, whoever reads it; the machine leaves it before."""
_LONG_BYTES = 256 << 10
_AT_ONCE = 500  # records that are decoded in one step: a millisecond


class WatchStream:
    def __init__(self, url: str, parts: AsyncIterator[bytes], held: AsyncExitStack, asked_at: float) -> None:
        """`asked_at` is the clock's time before the request was sent."""
        self.url = url
        self.asked_at = asked_at
        self.last_size = 0
        """How many bytes the line of the last event had."""
        self._events = self._read(parts)
        self._held = held

    async def next(self) -> Event:
        """The next event that this version knows; it may never come.

        Raises StoreUnavailableException at the end of the stream, NoEventError for a bad line.
        """
        return await anext(self._events)

    async def close(self) -> None:
        await self._events.aclose()
        await self._held.aclose()

    async def _read(self, parts: AsyncIterator[bytes]) -> AsyncGenerator[Event, None]:
        try:
            async for line in _lines(parts):
                event = await _decoded(line) if line.strip() else None
                if event is not None:
                    self.last_size = len(line)
                    yield event
                # A full socket would otherwise occupy the loop.
                await asyncio.sleep(0)
        except httpx.HTTPError as fault:
            raise unavailable(self.url, fault) from None
        raise StoreUnavailableException(f"the upstream `{self.url}` ended the stream without saying why")


async def opened(connection: Connection, url: str, after: Token | None, asked_by: str) -> WatchStream:
    """Begins with a snapshot if no token is given. `asked_by` names the followers that ask (docs/watch.md).

    Raises RefusedError, StoreUnavailableException. It may take for ever: bound the time.
    """
    begin = {"snapshot": "true"} if after is None else {"after": str(after)}
    asked_at = connection.options.clock.monotonic()
    query = urlencode({**begin, "bookmark_ms": round(connection.options.bookmark_s * 1000)})
    fields = {"klamm-epochs": "1", "klamm-followers": asked_by}
    held = AsyncExitStack()
    try:
        reply = connection.stream("GET", f"{url}{_WATCH}?{query}", idle_s=_IDLE_S, fields=fields)
        response = await held.enter_async_context(reply)
    except httpx.HTTPError as fault:
        raise unavailable(url, fault) from None
    if not response.headers.get("content-type", "").startswith(_NDJSON):
        await held.aclose()
        raise RefusedError(response.status_code, None)
    return WatchStream(url, response.aiter_raw(), held, asked_at)


def position_in(event: Snapshot | Synced | Bookmark) -> FeedPosition:
    """Raises NoEventError."""
    token = token_in(event.token)
    try:
        return FeedPosition(token.epoch, token.offset, bytes.fromhex(event.hash))
    except ValueError as fault:
        raise NoEventError(f"not a position: {fault}") from None


def token_in(text: str) -> Token:
    """Raises NoEventError."""
    try:
        return Token.parse(text, "token")
    except InvalidRequestException as fault:
        raise NoEventError(f"not a position: {fault}") from None


def digest_in(event: Snapshot | Synced | Bookmark) -> int | None:
    """Raises NoEventError."""
    try:
        return None if event.digest is None else int.from_bytes(bytes.fromhex(event.digest))
    except ValueError as fault:
        raise NoEventError(f"not a digest: {fault}") from None


def poison_of(offset: int, url: str, fault: Exception) -> PoisonedRecordException:
    """Of what can't be read. What that is, is for the log: an upstream has said it."""
    if isinstance(fault, UnknownValueError):
        why = f"the upstream `{url}` has what a later version has written; the log says what"
        return UnknownRecordException(offset, why)
    return PoisonedRecordException(offset, f"the stream of the upstream `{url}` is damaged; the log says how")


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
