"""The HTTP protocol of `klamm serve`: uvicorn's, with two differences (DESIGN: hot path).

An authorize request that is complete and plain is answered at once, without a task, a scope and their messages: that
is most of what a request costs. Whatever is not plain (a refusal, `at_least`, a pipeline, a slow reader) takes
uvicorn's way through the ASGI application, which answers it as if it had come there first.

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
_STATUS_LINE = b"HTTP/1.1 200 OK\r\n"
_HEADERS = b"content-type: application/json\r\ncontent-length: %d\r\n\r\n"
_OFFERS = (b"upgrade", b"http2-settings")


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

    def data_received(self, data: bytes) -> None:
        """Read on; an offer to upgrade is declined, however the segments were cut."""
        self._unset_keepalive_if_required()
        try:
            self._read(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade):
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

    def on_headers_complete(self) -> None:
        """Hold back a request that may be plain; uvicorn gets it later, or never."""
        if self.parser.should_upgrade():
            return
        if self._may_be_plain():
            self._held = bytearray()
        else:
            super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Collect the body of a held request; it can't be longer than its head said."""
        if self._held is None:
            super().on_body(body)
        else:
            self._held += body

    def on_message_complete(self) -> None:
        """Answer a held request, or let it go uvicorn's way."""
        if self.parser.should_upgrade():
            return
        if self._held is not None:
            reply = self._answer(self.headers, bytes(self._held))
            if reply is not None:
                self._hold_no_more()
                self._send(reply)
                return
            self._let_go()
        super().on_message_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget what was held back: nobody waits for it any more."""
        self._hold_no_more()
        super().connection_lost(exc)

    def shutdown(self) -> None:
        """Close, or let the request that is on its way end first."""
        if self._held is not None:
            self._let_go()
        super().shutdown()

    def _may_be_plain(self) -> bool:
        return (
            self.url == _AUTHORIZE_URL
            and self.parser.get_method() == b"POST"
            and (self.cycle is None or self.cycle.response_complete)
            and not self.pipeline
            and not self.expect_100_continue
            # Who does not read gets no more from here: uvicorn's way waits for the reader.
            and not self.flow.write_paused
            and self.parser.should_keep_alive()
            and not self.root_path
            and self._is_short()
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

    def _let_go(self) -> None:
        body = self._held
        self._hold_no_more()
        super().on_headers_complete()
        if body:
            super().on_body(bytes(body))

    def _send(self, reply: bytes) -> None:
        parts = [_STATUS_LINE]
        for name, value in self.server_state.default_headers:
            parts += (name, b": ", value, b"\r\n")
        parts += (_HEADERS % len(reply), reply)
        self.transport.write(b"".join(parts))
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
