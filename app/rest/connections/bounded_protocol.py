"""HTTP within bounds: uvicorn's protocol with deadlines, and with heads of a bounded size that say nothing twice."""

from typing import Any

import httptools

from app.rest.connections import bounds
from app.rest.connections.bounds import Refusal
from app.rest.connections.message_size import MAX_HEAD_LINES, MessageSize
from app.rest.connections.target import target_in
from app.rest.connections.timed_protocol import HEAD_TIMEOUT_S, TimedProtocol

_MAX_LENGTH_DIGITS = 20
"""As many as the largest length has that the parser takes; it takes any number of zeros, Python doesn't."""
_MOST_PIPELINED = 16
"""Requests that wait for the one before them. Each is a scope and a cycle, whoever sent it: some kilobytes."""
_ONCE = (b"authorization", b"content-length", b"host")
_PROBES = (b"/livez", b"/readyz", b"/startupz", b"/metrics")


class _RefusedError(Exception):
    """Stops the parser."""


class BoundedProtocol(TimedProtocol):
    """One connection, whose replies all come from the ASGI application."""

    def __init__(self, *arguments: Any, **more: Any) -> None:  # noqa: ANN401 - as TimedProtocol's
        super().__init__(*arguments, **more)
        self._size = MessageSize()
        self.is_new = True
        """Whether no head has come yet, ever."""
        self._why: Refusal | None = None

    def parse(self, data: bytes) -> None:
        """Put this to the parser, and what it finds to the application."""
        before = self._size.mark(in_head=self.in_head, between=self.between)
        try:
            self.feed(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade):
            if not self.deaf:
                # The parser tells of no target that it does not take, nor of one after such a method.
                self.url = self.url or target_in(data)
                self.refuse(self._why or bounds.MALFORMED)
            return
        if not self.between and not self.deaf and self._size.is_exceeded(before, len(data), in_head=self.in_head):
            self.refuse(bounds.HEAD_TOO_LARGE)

    def feed(self, data: bytes) -> None:
        """Feed the parser. Raises HttpParserError, HttpParserUpgrade."""
        self.parser.feed_data(data)

    def on_message_begin(self) -> None:
        """Stand within a message."""
        self.between, self.in_head = False, True
        self._size.begin()
        if not self.is_new and not self.has_work():
            self.wait(HEAD_TIMEOUT_S)
        self.url_before = self.url or self.url_before
        super().on_message_begin()
        self.scope["klamm.names"] = self.names  # type: ignore[typeddict-unknown-key]  # an extension of ours

    def on_url(self, url: bytes) -> None:
        """Count; long ones come in pieces."""
        super().on_url(url)
        self._say(len(url))

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header. What trails a body says nothing about the request any more."""
        self._say(len(name) + len(value) + 4)
        if not self.in_head:
            return
        if len(self.headers) >= MAX_HEAD_LINES:
            self.stop(bounds.HEAD_TOO_LARGE)
        lower = name.lower()
        if lower == b"expect" and value.lower() == b"100-continue":
            self.expect_100_continue = True
        elif lower == b"content-length" and len(value) > _MAX_LENGTH_DIGITS:
            self.stop(bounds.MALFORMED)
        self.headers.append((lower, value))

    def _say(self, size: int) -> None:
        if not self._size.may_say(size):
            self.stop(bounds.HEAD_TOO_LARGE)

    def stop(self, why: Refusal) -> None:
        """Refuse the message that is being parsed. For callbacks of the parser, which end with this."""
        self._why = why
        raise _RefusedError

    def check_head(self) -> None:
        """Refuse what is said twice, what too many wait before, and what a connection too many may not ask."""
        if self.deaf:
            raise _RefusedError
        if len(self.pipeline) >= _MOST_PIPELINED:
            self.stop(bounds.OVERLOADED)
        names = [name for name, _ in self.headers]
        if len(set(names)) < len(names) and any(names.count(each) > 1 for each in _ONCE):
            self.stop(bounds.REPEATED_HEADER)
        if self.surplus and not self.url.partition(b"?")[0].startswith(_PROBES):
            self.stop(bounds.TOO_MANY_CONNECTIONS)
        self.is_new = self.in_head = False
        self._size.end_head()

    def on_headers_complete(self) -> None:
        """Begin to answer."""
        self.check_head()
        self.begin_cycle()

    def on_body(self, body: bytes) -> None:
        """Count, and hand on."""
        self.count_body(len(body))
        super().on_body(body)

    def count_body(self, size: int) -> None:
        """Know that so much of the body has come."""
        self._size.add_body(size)

    def on_message_complete(self) -> None:
        """Stand between messages."""
        self.between = True
        super().on_message_complete()
