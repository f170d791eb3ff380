"""The HTTP protocol of `klamm serve`: uvicorn's, with three differences (DESIGN: hot path).

An authorize request that is complete and plain is answered at once, without a task, a scope and their messages: that
is most of what a request costs. Whatever is not plain (a refusal, `at_least`, a pipeline, a slow reader) takes
uvicorn's way through the ASGI application, which answers it as if it had come there first.

Clients that keep a connection send the same head again and again. The head of a plain request, once parsed, is
remembered byte for byte; the same bytes with as long a body as they say need no parser.

Head and body of a reply that comes through the application leave together: each write of its own wakes the client.

An offer to upgrade the connection (Java's HttpClient makes one: `Upgrade: h2c`) is declined. httptools would stop
reading at the body of such a request; so its head is read once more without the offer.
"""

import asyncio
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from app.rest.strict_json import OFF_LOOP_BYTES

if TYPE_CHECKING:
    from uvicorn.config import Config
    from uvicorn.server import ServerState

Answer = Callable[[Iterable[tuple[bytes, bytes]], bytes], bytes | None]
"""The body of the reply (200, JSON) to these headers and this body; None if it takes more than that."""

_AUTHORIZE_URL = b"/v1/authorize"
_PATIENCE_S = 5.0
"""How long the rest of a plain request's body may take before uvicorn's way waits for it, with a limit of its own."""
_LINE = b"POST /v1/authorize HTTP/1.1\r\n"
_END = b"\r\n\r\n"
_OFFERS = (b"upgrade", b"http2-settings")
_MAX_HEAD_BYTES = 2 * 1024
_MAX_HEADS = 1_024

_Headers = list[tuple[bytes, bytes]]

# INVARIANT: what stands here is a function of its key alone: the parser's reading of a head that was plain.
_PLAIN_HEADS: dict[bytes, tuple[_Headers, int]] = {}
"""Headers and length of the body by the head's own bytes."""


class _Joined(asyncio.Transport):
    """Writes a reply's head together with what follows it; alone only if nothing does in the same turn of the loop."""

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__()
        self.held: bytes | None = None
        self._transport = transport
        self._loop = loop

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Hold the first part back, and write it with the second."""
        if self.held is None:
            self.held = bytes(data)
            self._loop.call_soon(self.flush)
        else:
            held, self.held = self.held, None
            self._transport.writelines((held, data))

    def flush(self) -> None:
        """Write what is held."""
        if self.held is not None:
            held, self.held = self.held, None
            self._transport.write(held)

    def is_closing(self) -> bool:
        """Whether the connection is being closed."""
        return self._transport.is_closing()

    def close(self) -> None:
        """Write what is held, and hang up."""
        self.flush()
        self._transport.close()


class KlammProtocol(HttpToolsProtocol):
    """One connection. `answer` decides plain authorize requests."""

    def __init__(
        self,
        config: "Config",
        server_state: "ServerState",
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
        *,
        answer: Answer,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._answer = answer
        self._held: bytearray | None = None
        """The body so far of a request that may be plain; None for one that takes uvicorn's way."""
        self._patience: asyncio.TimerHandle | None = None
        self._between = True
        """Whether the parser stands at the end of a message, or has not begun any."""
        self._plain: list[tuple[_Headers, int]] = []
        """The plain requests among what came last."""
        self._dated: object = None
        self._head = b""
        """The reply's head up to its length, as of the date headers `_dated`."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn's
        """Begin a connection."""
        super().connection_made(transport)
        self._joined = _Joined(transport, self.loop)

    def data_received(self, data: bytes) -> None:
        """Read on; an offer to upgrade is declined, however the segments were cut."""
        head = self._head_of(data)
        known = _PLAIN_HEADS.get(head)
        if known is not None and len(data) == len(head) + known[1]:
            reply = self._answer(known[0], data[len(head) :])
            if reply is not None:
                self._send(reply)
                return
        self._plain.clear()
        self._parse(data)
        if head:
            self._remember(head, len(data) - len(head))

    def _head_of(self, data: bytes) -> bytes:
        """The head of a request that may be answered without the parser; empty if there is none."""
        if self._between and data.startswith(_LINE) and self._is_free():
            end = data.find(_END)
            return data[: end + len(_END)] if end > 0 else b""
        return b""

    def _remember(self, head: bytes, length: int) -> None:
        # The parser may have taken lines that end otherwise for the end of the head, or have read more requests than
        # one: only if a single plain one makes up all that came, this is its head.
        if len(head) > _MAX_HEAD_BYTES or len(self._plain) != 1 or self._plain[0][1] != length:
            return
        if len(_PLAIN_HEADS) >= _MAX_HEADS:
            _PLAIN_HEADS.clear()
        _PLAIN_HEADS[head] = self._plain[0]

    def _parse(self, data: bytes) -> None:
        self._unset_keepalive_if_required()
        try:
            self._read(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade):
            self._joined.flush()
            self.send_400_response("Invalid HTTP request received.")
            return
        if self._held is not None and self._patience is None:
            self._patience = self.loop.call_later(_PATIENCE_S, self._let_go)

    def _read(self, data: bytes) -> None:
        """Feed the parser. Raises HttpParserUpgrade for what is still an offer without its headers (CONNECT, PRI)."""
        while data:
            try:
                self.parser.feed_data(data)
            except httptools.HttpParserUpgrade as offer:
                head = self._without_offer()
                self.parser = httptools.HttpRequestParser(self)
                self.parser.feed_data(head)
                # INVARIANT: each turn has less to read than the one before, so this ends.
                data = data[offer.args[0] :]
            else:
                return

    def on_message_begin(self) -> None:
        """Stand within a message."""
        self._between = False
        # An answer to a request before it in the same segment has set the timer.
        self._unset_keepalive_if_required()
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """Hold back a request that may be plain; uvicorn gets it later, or never."""
        if self.parser.should_upgrade():
            return
        if self._may_be_plain():
            self._held = bytearray()
        else:
            self._begin_cycle()

    def on_body(self, body: bytes) -> None:
        """Collect the body of a held request; it can't be longer than its head said."""
        if self._held is None:
            super().on_body(body)
        else:
            self._held += body

    def on_message_complete(self) -> None:
        """Answer a held request, or let it go uvicorn's way."""
        self._between = True
        if self.parser.should_upgrade():
            return
        if self._held is not None:
            reply = self._answer(self.headers, bytes(self._held))
            if reply is not None:
                self._plain.append((self.headers, len(self._held)))
                self._hold_no_more()
                self._send(reply)
                return
            self._let_go()
        super().on_message_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget what was held back: nobody waits for it any more."""
        self._hold_no_more()
        self._joined.held = None
        super().connection_lost(exc)

    def shutdown(self) -> None:
        """Close, or let the request that is on its way end first."""
        if self._held is not None:
            self._let_go()
        self._joined.flush()
        super().shutdown()

    def _may_be_plain(self) -> bool:
        return (
            self.url == _AUTHORIZE_URL
            and self.parser.get_method() == b"POST"
            and self._is_free()
            and not self.expect_100_continue
            and self.parser.should_keep_alive()
            and self._is_short()
        )

    def _is_free(self) -> bool:
        """Whether an answer may be written now: none is on its way, and the client reads."""
        return (
            (self.cycle is None or self.cycle.response_complete)
            and not self.pipeline
            and not self.flow.write_paused
            and self._joined.held is None
            and not self.root_path
        )

    def _is_short(self) -> bool:
        for name, value in self.headers:
            if name == b"content-length":
                return value.isdigit() and int(value) <= OFF_LOOP_BYTES
        return False

    def _hold_no_more(self) -> None:
        self._held = None
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None

    def _begin_cycle(self) -> None:
        super().on_headers_complete()
        self.cycle.transport = self._joined

    def _let_go(self) -> None:
        body = self._held
        self._hold_no_more()
        self._begin_cycle()
        if body:
            super().on_body(bytes(body))

    def _send(self, reply: bytes) -> None:
        dated = self.server_state.default_headers
        if dated is not self._dated:
            # The server makes a new list every second.
            self._dated = dated
            lines = [b"HTTP/1.1 200 OK", *(b"%b: %b" % each for each in dated), b"content-type: application/json"]
            self._head = b"\r\n".join((*lines, b"content-length: "))
        self.transport.write(b"%b%d\r\n\r\n%b" % (self._head, len(reply), reply))
        self.on_response_complete()

    def _without_offer(self) -> bytes:
        """The head of the request as it was parsed, without what offers to upgrade."""
        lines = [b"%b %b HTTP/%b" % (self.parser.get_method(), self.url, self.parser.get_http_version().encode())]
        for name, value in self.headers:
            kept = value
            if name == b"connection":
                tokens = [token.strip() for token in value.split(b",")]
                kept = b", ".join(token for token in tokens if token.lower() not in _OFFERS)
            if name not in _OFFERS and (kept or not value):
                lines.append(b"%b: %b" % (name, kept))
        return b"\r\n".join((*lines, b"", b""))
