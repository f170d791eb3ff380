"""Request ids and W3C trace context: from a request's headers into its log lines and its reply's headers.

A header that is not in its exact form is ignored, so that it can forge neither a log line nor a header.
"""

import re
from collections.abc import Iterable, Mapping
from itertools import count
from secrets import token_hex

from starlette.types import Message, Send

from app.logs.service import RequestMark

REQUEST_ID = b"x-request-id"
TRACEPARENT = b"traceparent"

_REQUEST_ID_FORM = re.compile(rb"[!-~]{1,128}").fullmatch
_TRACEPARENT_FORM = re.compile(
    rb"(?!ff)([0-9a-f]{2})-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})(-.*)?", re.DOTALL
).fullmatch
_SAMPLED = 1

# Each worker is a process of its own.
_PREFIX = token_hex(6)
_next_number = count(1).__next__


def mark_of(fields: Mapping[bytes, bytes]) -> RequestMark:
    """No header may have come more than once."""
    own_id = fields.get(REQUEST_ID)
    traceparent = fields.get(TRACEPARENT)
    return RequestMark(
        f"{_PREFIX}-{_next_number():x}" if own_id is None else _request_id(own_id),
        None if traceparent is None else _traceparent(traceparent),
    )


def mark_of_headers(headers: Iterable[tuple[bytes, bytes]]) -> RequestMark:
    """Headers that came more than once are ignored."""
    fields: dict[bytes, bytes] = {}
    for name, value in headers:
        if name in (REQUEST_ID, TRACEPARENT):
            # An empty value has neither header's form.
            fields[name] = b"" if name in fields else value
    return mark_of(fields)


def reply_headers(mark: RequestMark) -> bytes:
    if mark.traceparent is None:
        return f"x-request-id: {mark.request_id}\r\n".encode()
    return f"x-request-id: {mark.request_id}\r\ntraceparent: {mark.traceparent}\r\n".encode()


def reply_header_list(mark: RequestMark) -> list[tuple[bytes, bytes]]:
    headers = [(REQUEST_ID, mark.request_id.encode())]
    if mark.traceparent is not None:
        headers.append((TRACEPARENT, mark.traceparent.encode()))
    return headers


def with_mark(send: Send, mark: RequestMark) -> Send:
    """`send` for a reply that carries the mark in its headers."""

    async def marked_send(message: Message) -> None:
        if message["type"] == "http.response.start":
            message = {**message, "headers": [*message.get("headers", ()), *reply_header_list(mark)]}
        await send(message)

    return marked_send


def _request_id(value: bytes) -> str:
    # The id is logged as it is, so it must not be a token that a client has sent by mistake.
    if _REQUEST_ID_FORM(value) and b"klamm_" not in value and b"eyJ" not in value:
        return value.decode("ascii")
    return f"{_PREFIX}-{_next_number():x}"


def _traceparent(value: bytes) -> str | None:
    """A valid header as version 00 (W3C Trace Context, 3.2); of a later version, the part that is known."""
    found = _TRACEPARENT_FORM(value)
    if found is None:
        return None
    version, trace_id, parent_id, flags, more = (
        None if each is None else each.decode("latin-1") for each in found.groups()
    )
    if version == "00":
        return None if more is not None else f"00-{trace_id}-{parent_id}-{flags}"
    # Of later versions' flags only this one is known.
    return f"00-{trace_id}-{parent_id}-{int(flags or '0', 16) & _SAMPLED:02x}"
