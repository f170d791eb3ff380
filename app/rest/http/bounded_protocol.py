"""HTTP within bounds: uvicorn's protocol with deadlines, and with heads of a bounded size that say nothing twice."""

import re
from typing import Any

import httptools

from app.rest.http import bounds
from app.rest.http.bounds import Refusal
from app.rest.http.message_size import MAX_HEAD_LINES, MessageSize
from app.rest.http.pieces import BadLineError, Pieces
from app.rest.http.target import target_in
from app.rest.http.timed_protocol import HEAD_TIMEOUT_S, TimedProtocol

_MAX_LENGTH_DIGITS = 20
"""As many as the largest length has that the parser takes; it takes any number of zeros, Python doesn't."""
_MOST_PIPELINED = 16
"""Requests that wait for the one before them. Each is a scope and a cycle, whoever sent it: some kilobytes."""
_ONCE = (b"authorization", b"content-length", b"host")
_PROBES = (b"/livez", b"/readyz", b"/startupz", b"/metrics")
_is_host = re.compile(rb"(?:\[[0-9A-Za-z:.%_~-]+\]|[0-9A-Za-z._~!$&'()*+,;=%-]*)(?::[0-9]*)?").fullmatch
"""Whether it has the form of a host and its port (RFC 9110, 7.2), which may be empty."""


class _RefusedError(Exception):
    """Stops the parser."""


class BoundedProtocol(TimedProtocol):
    """One connection, whose replies all come from the ASGI application."""

    def __init__(self, *arguments: Any, **more: Any) -> None:  # noqa: ANN401 - as TimedProtocol's
        super().__init__(*arguments, **more)
        self._size = MessageSize()
        self.pieces = Pieces()
        self.is_new = True
        """Whether no head has come yet, ever."""
        self._why: Refusal | None = None

    def parse(self, data: bytes) -> None:
        """Put this to the parser, and what it finds to the application; a message at a time."""
        at = 0
        try:
            while at < len(data) and not self.deaf and self._refused is None:
                begin = self.pieces.skip(data, at)
                at = self.pieces.end(data, begin) if begin < len(data) else begin
                if begin < at:
                    self._parse_piece(data[begin:at])
        except BadLineError:
            if self.between:
                self.url_before = self.url or self.url_before
            self.url = target_in(bytes(self.pieces.line))
            self.refuse(bounds.MALFORMED)

    def _parse_piece(self, piece: bytes) -> None:
        before = self._size.mark(in_head=self.in_head, between=self.between)
        try:
            self.feed(piece)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade):
            if not self.deaf:
                # The parser tells of no target that it does not take, nor of one after such a method.
                self.url = self.url or target_in(bytes(self.pieces.line))
                self.refuse(self._why or bounds.MALFORMED)
            return
        if not self.between and not self.deaf and self._size.is_exceeded(before, len(piece), in_head=self.in_head):
            self.refuse(bounds.HEAD_TOO_LARGE)

    def feed(self, data: bytes) -> None:
        """Feed the parser. Raises HttpParserError, HttpParserUpgrade."""
        self.parser.feed_data(data)

    def on_message_begin(self) -> None:
        """Stand within a message."""
        if not self.pieces.begins():
            self.stop(bounds.MALFORMED)
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
        # The parser leaves the blanks behind a value, which are no part of it (RFC 9110, 5.5).
        lower, said = name.lower(), value.rstrip(b" \t")
        if lower == b"expect" and said.lower() == b"100-continue":
            self.expect_100_continue = True
        elif lower == b"content-length" and len(said) > _MAX_LENGTH_DIGITS:
            self.stop(bounds.MALFORMED)
        self.headers.append((lower, said))

    def _say(self, size: int) -> None:
        if not self._size.may_say(size):
            self.stop(bounds.HEAD_TOO_LARGE)

    def stop(self, why: Refusal) -> None:
        """Refuse the message that is being parsed. For callbacks of the parser, which end with this."""
        self._why = why
        raise _RefusedError

    def check_head(self) -> None:
        """Refuse heads that may be read in two ways, what too many wait before, and what one too many may not ask."""
        if self.deaf:
            raise _RefusedError
        if len(self.pipeline) >= _MOST_PIPELINED:
            self.stop(bounds.OVERLOADED)
        names = [name for name, _ in self.headers]
        if len(set(names)) < len(names) and any(names.count(each) > 1 for each in _ONCE):
            self.stop(bounds.REPEATED_HEADER)
        if self.surplus and not self.url.partition(b"?")[0].startswith(_PROBES):
            self.stop(bounds.TOO_MANY_CONNECTIONS)
        self._check_form()
        self.is_new = False
        self._size.end_head()

    def _check_form(self) -> None:
        """Refuse what others may read otherwise (RFC 9112, 3.2 and 6.1), and know how long the body is."""
        is_old = self.parser.get_http_version() == "1.0"
        fields = dict(self.headers)
        host, coding, length = (fields.get(name) for name in (b"host", b"transfer-encoding", b"content-length"))
        if host is None and not is_old:
            self.stop(bounds.NO_HOST)
        if host is not None and not _is_host(host):
            self.stop(bounds.MALFORMED)
        if coding is not None and (is_old or length is not None or coding.lower() != b"chunked"):
            self.stop(bounds.MALFORMED)
        if is_old:
            # Who speaks HTTP/1.0 knows of no reply before the reply (RFC 9110, 10.1.1).
            self.expect_100_continue = False
        self.pieces.end_head(int(length or 0) if coding is None else None)

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
        self.pieces.end_message()
        super().on_message_complete()
