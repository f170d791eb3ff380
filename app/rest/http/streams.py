"""An endless reply: events, one after the other, as NDJSON or as server-sent events."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, aclosing
from time import monotonic
from types import MappingProxyType

from starlette.requests import Request
from starlette.types import Receive, Send

from app.core.context import Reader
from app.core.kafka.errors import ApiException
from app.rest.callers.authentication import shows_one_at_most
from app.rest.callers.roles import FOLLOWERS
from app.rest.http.bounds import READER_TIMEOUT_S
from app.rest.http.replies import ReplyWriter
from app.rest.http.services import Services
from app.runtime.watch.lines import Form, Frame, Line, Part, Slices
from app.runtime.watch.rounds import PushResult, Rounds

NDJSON = "application/x-ndjson"
SSE = "text/event-stream"

_LOOK_S = 1.0

_log = logging.getLogger(__name__)


def _ndjson(line: Line) -> tuple[bytes, bytes, bytes]:
    return b"", line.json, b"\n"


def _sse(line: Line) -> tuple[bytes, bytes, bytes]:
    # If no id is sent, the browser keeps the one before.
    token = b"" if line.token is None else b"id: %b\n" % line.token.encode()
    return b"%bevent: %b\ndata: " % (token, line.event.encode()), line.json, b"\n\n"


def _chunk(data: bytes) -> bytes:
    """RFC 9112, 7.1."""
    return b"%x\r\n%b\r\n" % (len(data), data)


def _whole(lines: Iterable[Line], frame: Frame) -> bytes:
    return _chunk(b"".join([piece for line in lines for piece in frame(line)]))


_FRAMES: Mapping[str, Frame] = MappingProxyType({NDJSON: _ndjson, SSE: _sse})
_FORMS: Mapping[str, Form] = MappingProxyType(
    {NDJSON: lambda lines: _whole(lines, _ndjson), SSE: lambda lines: _whole(lines, _sse)}
)


class ReaderRights:
    """Whether the client may be sent more: rights are looked at before each part, credentials each second."""

    def __init__(self, services: Services, reader: Reader, request: Request) -> None:
        self._services = services
        self._reader = reader
        self._headers, self._names = request.scope["headers"], request.scope.get("klamm.names", ())
        self._fields = dict(self._headers) if shows_one_at_most(self._headers) else None
        self._looked_at = monotonic()

    async def check(self) -> None:
        """Raises ApiException."""
        self._services.authorizer.rights.check_watch(self._reader)
        if self._is_due():
            self._looked_at = monotonic()
            caller = await self._services.callers.identified(self._headers, self._names)
            caller.check_role("watch", FOLLOWERS)

    def are_certain(self) -> bool:
        """Whether `check` would let it through without a wait."""
        try:
            self._services.authorizer.rights.check_watch(self._reader)
            if self._is_due():
                # As in `check`, whose task would cost each reader ten times as much, and all of them in one second.
                caller = None if self._fields is None else self._services.callers.known(self._fields, self._names)
                if caller is None:
                    return False
                caller.check_role("watch", FOLLOWERS)
                self._looked_at = monotonic()
        except ApiException:
            return False
        return True

    def _is_due(self) -> bool:
        return monotonic() - self._looked_at >= _LOOK_S


class Connection:
    """Where the events of one stream are written: directly, within a step of the loop."""

    def __init__(self, writer: ReplyWriter, media_type: str, rights: ReaderRights, rounds: Rounds) -> None:
        self.media_type = media_type
        self.rights = rights
        self.rounds = rounds
        self.writer = writer
        self.frame = _FRAMES[media_type]
        self._form = _FORMS[media_type]

    def push(self, part: Part) -> bool:
        """Sends a part as a chunk of its own."""
        return self.rights.are_certain() and self.writer.push(part.written(self._form))

    def push_slice(self, slices: Slices) -> bool:
        return self.writer.push(_chunk(slices.take()))


class _CutError(Exception):
    """The client takes nothing, or what it is being sent is not there any more. Or it has gone."""


class EventStream:
    """`first` begins the stream; once it is there, nothing can refuse the request. `rest` is closed at the end."""

    def __init__(
        self, connection: Connection, first: Sequence[Line], rest: AsyncGenerator[Sequence[Line], None]
    ) -> None:
        self._connection = connection
        self._first = first
        self._rest = rest
        self.held = AsyncExitStack()
        """What is released at the end."""

    async def send(self, receive: Receive, send: Send) -> None:
        """Returns when the client has gone or the stream has ended."""
        headers = [
            (b"content-type", self._connection.media_type.encode()),
            (b"cache-control", b"no-store"),
            # nginx would hold events back.
            (b"x-accel-buffering", b"no"),
        ]
        gone = asyncio.ensure_future(_gone(receive))
        try:
            async with self.held, aclosing(self._rest) as rest:
                await send({"type": "http.response.start", "status": 200, "headers": headers})
                await self._send_lines(self._first)
                async for lines in rest:
                    await self._send_lines(lines)
        except _CutError:
            # INVARIANT: a stream that ends within a line has no last chunk, which its client could take for its end.
            if not self._connection.writer.is_gone():
                self._connection.writer.abort()
        except Exception:  # noqa: BLE001 - logged; the client sees a stream without its `end`
            _log.exception("stream_failed")
        finally:
            gone.cancel()
        await send({"type": "http.response.body", "body": b""})

    async def _send_lines(self, lines: Sequence[Line]) -> None:
        """Raises _CutError."""
        sending = _Sending(self._connection, lines)
        while not sending.is_over:
            result = sending.push()
            if result is not PushResult.DONE:
                await self._connection.rounds.wait(sending.push, sending.due_s, result)
            # A wait for closed rounds is over at once, and would be begun again without end.
            if sending.is_cut or self._connection.rounds.is_closed:
                raise _CutError
            if not sending.is_over:
                try:
                    await self._connection.rights.check()
                except ApiException:
                    raise _CutError from None


class _Sending:
    """Lines on their way to a client, a slice at a time."""

    def __init__(self, connection: Connection, lines: Sequence[Line]) -> None:
        self.is_cut = False
        self._connection = connection
        self._slices = Slices(lines, connection.frame)
        self._shows_nothing = lines[0].event == "end"
        """A client is told that its stream ends because it has lost its rights."""
        self._taken_at = monotonic()

    @property
    def is_over(self) -> bool:
        return self._slices.is_empty

    def push(self) -> PushResult:
        """DONE if it is over or cut, or if the rights must be checked first."""
        writer, slices = self._connection.writer, self._slices
        if writer.is_gone() or slices.is_withdrawn:
            self.is_cut = True
            return PushResult.DONE
        if not writer.keeps_up():
            self.is_cut = monotonic() - self._taken_at > READER_TIMEOUT_S
            return PushResult.DONE if self.is_cut else PushResult.BLOCKED
        if not (self._shows_nothing or self._connection.rights.are_certain()):
            return PushResult.DONE
        self.is_cut = not self._connection.push_slice(slices)
        self._taken_at = monotonic()
        return PushResult.DONE if self.is_cut or slices.is_empty else PushResult.MORE

    @staticmethod
    def due_s() -> float:
        return READER_TIMEOUT_S


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
