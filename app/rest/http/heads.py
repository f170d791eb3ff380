"""The head of a request: why it is refused, and whether the application is needed to answer the request."""

import re
from collections.abc import Sequence
from contextlib import suppress
from functools import lru_cache
from typing import NamedTuple

import httptools

from app.rest.bodies.reading import OFF_LOOP_BYTES
from app.rest.http import bounds
from app.rest.http.bounds import MAX_HEAD_LINES, MAX_LENGTH_DIGITS, Refusal
from app.rest.http.framing import is_request_line

AUTHORIZE_TARGET = b"/v1/authorize"

Headers = list[tuple[bytes, bytes]]

_ONCE = (b"authorization", b"content-length", b"host")
_OFFERS = (b"upgrade", b"http2-settings")
_is_host = re.compile(rb"(?:\[[0-9A-Za-z:.%_~-]+\]|[0-9A-Za-z._~!$&'()*+,;=%-]*)(?::[0-9]*)?").fullmatch
"""Whether it has the form of a host and port (RFC 9110, 7.2), which may be empty."""
_MAX_REMEMBERED = 1_024


class WholeHead(NamedTuple):
    """The head of a request whose reply may keep the connection, and whose body has a known length."""

    headers: Headers
    length: int
    target: bytes
    method: bytes = b"POST"


def header_of(name: bytes, value: bytes) -> tuple[bytes, bytes]:
    """A header as the application gets it; the parser leaves blanks behind a value (RFC 9110, 5.5)."""
    return name.lower(), value.rstrip(b" \t")


def asks_to_continue(name: bytes, value: bytes) -> bool:
    return name == b"expect" and value.lower() == b"100-continue"


def refusal_of_head(headers: Headers, *, is_old: bool) -> Refusal | None:
    """Why a head is refused: others might read it differently (RFC 9112, 3.2 and 6.1). `is_old`: it is HTTP/1.0."""
    fields = dict(headers)
    if len(fields) < len(headers):
        names = [name for name, _ in headers]
        if any(names.count(each) > 1 for each in _ONCE):
            return bounds.REPEATED_HEADER
    host, coding, length = (fields.get(name) for name in (b"host", b"transfer-encoding", b"content-length"))
    if host is None and not is_old:
        return bounds.NO_HOST
    if host is not None and not _is_host(host):
        return bounds.MALFORMED
    if coding is not None and (is_old or length is not None or coding.lower() != b"chunked"):
        return bounds.MALFORMED
    return None


def set_host_of(target: bytes, headers: Headers) -> None:
    """Where the target names a host (`GET http://a/x`), that one counts and not the header (RFC 9112, 3.2.2)."""
    if not target.startswith(b"/"):
        host = target.partition(b"//")[2].partition(b"/")[0]
        headers[:] = [*(each for each in headers if each[0] != b"host"), (b"host", host)]


def body_length(headers: Headers) -> int | None:
    """None if it comes in chunks."""
    fields = dict(headers)
    return None if b"transfer-encoding" in fields else int(fields.get(b"content-length") or 0)


def is_plain(parser: httptools.HttpRequestParser, target: bytes, length: int) -> bool:
    """Whether a request with a body of this length may be answered at once; the parser has just read its head."""
    is_for_us = target == AUTHORIZE_TARGET and parser.get_method() == b"POST"
    return is_for_us and length <= OFF_LOOP_BYTES and parser.should_keep_alive()


def _plain_head(head: bytes) -> WholeHead | None:
    """What these bytes say if they are exactly the head of a plain request; otherwise None."""
    parser, whole = _whole(head)
    is_sized = whole is not None and any(name == b"content-length" for name, _ in whole.headers)
    return whole if whole is not None and is_sized and is_plain(parser, whole.target, whole.length) else None


def _modern_head(head: bytes) -> WholeHead | None:
    """The same for any request of HTTP/1.1."""
    parser, whole = _whole(head)
    return whole if parser.get_http_version() == "1.1" else None


# Clients that keep a connection send the same head again and again: remembering it saves 7 us.
plain_head = lru_cache(_MAX_REMEMBERED)(_plain_head)
# INVARIANT: unauthenticated clients can't have the heads of known callers forgotten.
unauthenticated_plain_head = lru_cache(_MAX_REMEMBERED)(_plain_head)
unauthenticated_head = lru_cache(_MAX_REMEMBERED)(_modern_head)


def _whole(head: bytes) -> tuple[httptools.HttpRequestParser, WholeHead | None]:
    # INVARIANT: this depends on the bytes alone, and nothing is whole that `KlammProtocol` would refuse.
    parser, found = _read(head)
    if found.is_complete and parser.should_upgrade():
        parser, found = _read(without_offer(parser, found.target, found.headers))
    fields = dict(found.headers)
    length = fields.get(b"content-length", b"0")
    if (
        not found.is_complete
        or parser.should_upgrade()
        or not found.is_kept
        or len(found.headers) > MAX_HEAD_LINES
        or len(length) > MAX_LENGTH_DIGITS
        or not length.isdigit()
        or b"transfer-encoding" in fields
        or any(asks_to_continue(*each) for each in found.headers)
        or refusal_of_head(found.headers, is_old=parser.get_http_version() == "1.0") is not None
    ):
        return parser, None
    return parser, WholeHead(found.headers, int(length), found.target, parser.get_method())


class _Found:
    def __init__(self) -> None:
        self.headers: Headers = []
        self.target = b""
        self.parser: httptools.HttpRequestParser | None = None
        self.may_end = False
        self.is_complete = False
        self.is_kept = False
        """Whether the reply may keep the connection, which the parser no longer knows once it has read the request."""

    def on_url(self, url: bytes) -> None:
        self.target += url

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers.append(header_of(name, value))

    def on_headers_complete(self) -> None:
        if not self.may_end:
            raise ValueError("the head ends before the bytes do")
        self.is_complete = True
        self.is_kept = self.parser is not None and self.parser.should_keep_alive()


def _read(head: bytes) -> tuple[httptools.HttpRequestParser, _Found]:
    found = _Found()
    parser = found.parser = httptools.HttpRequestParser(found)
    if is_request_line(head[: head.find(b"\n") + 1]):
        with suppress(httptools.HttpParserError, httptools.HttpParserUpgrade):
            parser.feed_data(head[:-1])
            found.may_end = True
            parser.feed_data(head[-1:])
    found.parser = None
    return parser, found


def without_offer(parser: httptools.HttpRequestParser, target: bytes, headers: Sequence[tuple[bytes, bytes]]) -> bytes:
    """The head that the parser has read, without the offer to upgrade the connection.

    Java's HttpClient makes one (`Upgrade: h2c`). httptools would stop reading at the body of such a request.
    """
    lines = [b"%b %b HTTP/%b" % (parser.get_method(), target, parser.get_http_version().encode())]
    for name, value in headers:
        kept = value
        if name == b"connection":
            tokens = [token.strip() for token in value.split(b",")]
            kept = b", ".join(token for token in tokens if token.lower() not in _OFFERS)
        if name not in _OFFERS and (kept or not value):
            lines.append(b"%b: %b" % (name, kept))
    return b"\r\n".join((*lines, b"", b""))
