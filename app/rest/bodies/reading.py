"""Bodies read into structs, with proof that nothing in them came twice, and words for what is wrong with them.

msgspec takes the last of duplicate keys in silence. Without a backslash in the body (so without an escaped quote)
every `:` in it follows a key or stands in a text, and each key that came is either kept or was overwritten. What was
kept, written as JSON again, has a colon for each kept key and those of the kept texts: if these are as many as came,
nothing was overwritten. A body that does not add up, or that holds a backslash, is read once more by
`app.rest.bodies.strict_json`, which is exact.
"""

import asyncio
import re
from collections.abc import Callable, Iterable
from typing import TypeVar

import msgspec
from starlette.requests import ClientDisconnect
from starlette.types import Receive

from app.core.kafka.errors import InvalidRequestException, RequestTooLargeException
from app.rest.bodies.fields import read_sent
from app.rest.bodies.strict_json import MAX_CONTAINERS, check_counts, parse, pointer_token
from app.rest.errors import BodyTimedOutException, UnsupportedMediaTypeException, invalid_field

T = TypeVar("T")
S = TypeVar("S", bound=msgspec.Struct)

MAX_BODY_BYTES = 1024 * 1024
MAX_ACLS_BODY_BYTES = 8 * 1024 * 1024
"""Where ACLs are created or deleted: 10,000 bindings with long names fit."""
BODY_TIMEOUT_S = 10.0
OFF_LOOP_BYTES = 256 * 1024
EXACT_OFF_LOOP_BYTES = 64 * 1024
"""Where `strict_json` reads a body; it takes ten times as long."""
# What is taken is never given back: blanks that several parts may take would be tried in every way.
_JSON_CONTENT_TYPE = re.compile(r'application/json(?:\s*+;\s*+charset="?utf-8"?)?\s*+;?\s*+\Z', re.IGNORECASE)


_as_sent = msgspec.json.Encoder(enc_hook=str).encode
"""A request as JSON again, with times as they were written."""


class UncheckedBodyError(Exception):
    """The body is too long to be read once more at once: `value` counts only if `parse` refuses nothing."""

    def __init__(self, value: object) -> None:
        super().__init__("the body may hold a key twice")
        self.value = value


def strict_decoder(struct: type[S]) -> Callable[[bytes], S]:
    """A decoder that raises InvalidRequestException, UncheckedBodyError, msgspec.DecodeError and UnicodeDecodeError."""
    decode_json = msgspec.json.Decoder(struct, dec_hook=read_sent).decode

    def decode(body: bytes) -> S:
        if len(body) > MAX_CONTAINERS:
            # An empty object has no colon: the proof below would let any number of them pass.
            check_counts(body)
        request = decode_json(body)
        if b"\\" in body or body.count(b":") != _as_sent(request).count(b":"):
            if len(body) > EXACT_OFF_LOOP_BYTES:
                raise UncheckedBodyError(request)
            parse(body)
        return request

    return decode


async def read_struct(decode: Callable[[bytes], T], body: bytes) -> T:
    """Raises InvalidRequestException, which names the first field that is wrong."""
    try:
        return await off_loop(decode, body)
    except UncheckedBodyError as unproven:
        await off_loop(parse, body, EXACT_OFF_LOOP_BYTES)
        value: T = unproven.value  # type: ignore[assignment]  # what `decode` would have returned
        return value
    except (msgspec.DecodeError, UnicodeDecodeError) as fault:
        # It names everything that is wrong with the JSON itself.
        await off_loop(parse, body, EXACT_OFF_LOOP_BYTES)
        raise _refusal_of(str(fault)) from None


def check_headers(headers: Iterable[tuple[bytes, bytes]], max_bytes: int) -> None:
    content_type = b""
    for name, value in headers:
        if name == b"content-type":
            content_type = value
        elif name == b"content-length":
            if value.isdigit() and int(value) > max_bytes:
                raise _too_large(max_bytes)
        elif name == b"content-encoding" and value.lower() != b"identity":
            raise UnsupportedMediaTypeException("the body must not be compressed; send it without Content-Encoding")
    if content_type != b"application/json" and not _JSON_CONTENT_TYPE.match(content_type.decode("latin-1")):
        raise UnsupportedMediaTypeException("send the body as UTF-8 JSON with `Content-Type: application/json`")


async def read_body(receive: Receive, max_bytes: int, timeout_s: float = BODY_TIMEOUT_S) -> bytes:
    """Raises ClientDisconnect if the caller has gone."""
    body = bytearray()
    try:
        async with asyncio.timeout(timeout_s):
            while True:
                message = await receive()
                if message["type"] != "http.request":
                    raise ClientDisconnect
                body += message.get("body", b"")
                if len(body) > max_bytes:
                    raise _too_large(max_bytes)
                if not message.get("more_body", False):
                    return bytes(body)
    except TimeoutError:
        raise BodyTimedOutException(
            f"the body did not arrive within {timeout_s:g} s; send the whole of it at once"
        ) from None


async def off_loop(read: Callable[[bytes], T], body: bytes, on_loop_bytes: int = OFF_LOOP_BYTES) -> T:
    """Reads a body in a thread if it is so large that the event loop would notice."""
    return read(body) if len(body) <= on_loop_bytes else await asyncio.to_thread(read, body)


def _too_large(max_bytes: int) -> RequestTooLargeException:
    return RequestTooLargeException(f"the body is larger than {max_bytes} bytes; split it over several requests")


_MAX_FAULT = 1_000
_PLACE = re.compile(r"(.*?)(?: - at `\$((?:\.\w+|\[\d+\])*+)`)?\Z", re.DOTALL)
_FIELD = re.compile(r"Object (missing required|contains unknown) field `(.*)`\Z", re.DOTALL)
_BOUND = re.compile(r"Expected `(int|array|str)`(?: of length)? (>=|<=) (-?\d+)\Z")
_KIND = re.compile(r"Expected `(\w+)")

_FIELD_WORDS = {
    "missing required": "the field is missing; send it",
    "contains unknown": "there is no such field; remove it",
}
_BOUND_WORDS = {
    ("int", ">="): "the number is too small; send at least {}",
    ("int", "<="): "the number is too large; send at most {}",
    ("str", ">="): "the text is empty; send at least {} character",
    ("str", "<="): "the text is too long; send at most {} characters",
    ("array", "<="): "there are too many entries; send at most {} and split the rest",
}
_KIND_WORDS = {
    "str": "the value is not text; send a string",
    "int": "the value is not a whole number; send an integer",
    "bool": "the value is not a boolean; send true or false",
    "array": "the value is not a list; send an array",
    "object": "the value is not an object; send a JSON object",
}


def _refusal_of(fault: str) -> InvalidRequestException:
    """Msgspec's message as a refusal; its own words where there are no better ones."""
    if len(fault) > 2 * _MAX_FAULT:
        # It repeats the name of a field, which may be a megabyte; where it stands comes last.
        fault = fault[:_MAX_FAULT] + fault[-_MAX_FAULT:]
    found = _PLACE.match(fault)
    what, place = (fault, None) if found is None else found.groups()
    pointer = (place or "").replace(".", "/").replace("[", "/").replace("]", "")
    if field := _FIELD.match(what):
        return invalid_field(f"{pointer}/{pointer_token(field[2])}", _FIELD_WORDS[field[1]])
    if bound := _BOUND.match(what):
        return invalid_field(pointer, _BOUND_WORDS[bound[1], bound[2]].format(bound[3]))
    if what.endswith("out of range"):
        return invalid_field(pointer, "the number is out of range; send one that fits")
    kind = _KIND.match(what)
    return invalid_field(pointer, _KIND_WORDS.get(kind[1] if kind else "", what))
