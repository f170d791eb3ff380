"""An endless reply: events, one after the other, as NDJSON or as server-sent events."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, aclosing
from types import MappingProxyType

from starlette.types import Receive, Send

from app.runtime.watch.recent import PART_BYTES, Form, Line, Part

NDJSON = "application/x-ndjson"
SSE = "text/event-stream"

_log = logging.getLogger(__name__)


def _ndjson(lines: Iterable[Line]) -> bytes:
    return b"".join([part for line in lines for part in (line.json, b"\n")])


def _sse(lines: Iterable[Line]) -> bytes:
    # If no id is sent, the browser keeps the one before.
    return b"".join(
        b"%bevent: %b\ndata: %b\n\n"
        % (b"" if line.token is None else b"id: %b\n" % line.token.encode(), line.event.encode(), line.json)
        for line in lines
    )


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


_FORMS: Mapping[str, Form] = MappingProxyType({NDJSON: _ndjson, SSE: _sse})
_CHUNKS: Mapping[str, Form] = MappingProxyType(
    {NDJSON: lambda lines: _chunk(_ndjson(lines)), SSE: lambda lines: _chunk(_sse(lines))}
)


def pushed(media_type: str, push: Callable[[bytes], bool]) -> Callable[[Part], bool]:
    """Sends a part as a chunk of its own (RFC 9112, 7.1); `push` is the connection's."""
    form = _CHUNKS[media_type]
    return lambda part: push(part.written(form))


class EventStream:
    """`first` begins the stream; once it is there, nothing can refuse the request. `rest` is closed at the end."""

    def __init__(self, media_type: str, first: Sequence[Line], rest: AsyncGenerator[Sequence[Line], None]) -> None:
        self._media_type = media_type
        self._form = _FORMS[media_type]
        self._first = first
        self._rest = rest
        self.held = AsyncExitStack()
        """What is released at the end."""

    async def send(self, receive: Receive, send: Send) -> None:
        """Returns when the client has gone or the stream has ended."""
        headers = [
            (b"content-type", self._media_type.encode()),
            (b"cache-control", b"no-store"),
            # nginx would hold events back.
            (b"x-accel-buffering", b"no"),
        ]
        gone = asyncio.ensure_future(_gone(receive))
        try:
            async with self.held, aclosing(self._rest) as rest:
                await send({"type": "http.response.start", "status": 200, "headers": headers})
                await self._send_lines(self._first, send)
                async for lines in rest:
                    if gone.done():
                        return
                    await self._send_lines(lines, send)
        except Exception:  # noqa: BLE001 - logged; the client sees a stream without its `end`
            _log.exception("stream_failed")
        finally:
            gone.cancel()
        await send({"type": "http.response.body", "body": b""})

    async def _send_lines(self, lines: Sequence[Line], send: Send) -> None:
        data = memoryview(self._form(lines))
        for start in range(0, len(data), PART_BYTES):
            # In parts, so that only one of them is held for a slow client.
            part = bytes(data[start : start + PART_BYTES])
            await send({"type": "http.response.body", "body": part, "more_body": True})


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
