"""JSON without the gaps that parsers leave open, for bodies that msgspec alone cannot judge.

It refuses anything but UTF-8 without a byte order mark, duplicate keys, NaN and Infinity, U+0000, lone surrogates and
nesting deeper than 16, and names the fields.
"""

import json
import math
import re
from collections import Counter
from collections.abc import Iterator
from itertools import islice

from app.core.kafka.errors import InvalidRequestException
from app.rest.errors import MAX_FIELD_ERRORS, InvalidFieldsException, ProblemField

MAX_DEPTH = 16
MAX_CONTAINERS = 20_000
MAX_VALUES = 200_000
"""10,000 bindings, the most that any body holds, are 10,000 objects of nine values. json.loads, which lets no other
thread run meanwhile, takes some milliseconds for so many."""
MAX_KEYS = 1_000
"""In one object. No body has more than a dozen, and each wrong one costs an error."""

_PIECE_BYTES = 64 * 1024
_LONGEST_ESCAPE = 6

_NOT_STRUCTURE = bytes(set(range(256)) - set(b"{}[],"))
_ONE_BRACKET = bytes.maketrans(b"[]", b"{}")
_SUSPICIOUS_ESCAPE = re.compile(rb"\\u(?:0000|[dD][89a-fA-F])")
_SURROGATE = re.compile("[\ud800-\udfff]")


class _Repeated(dict[str, object]):
    """An object some of whose keys came twice."""

    repeated: list[str]


_NOT_FINITE = object()
"""Stands for a number that JSON has no word for."""


def parse(body: bytes) -> dict[str, object]:
    """Raises InvalidRequestException, naming the fields where there are any to name."""
    check_bounds(body)
    reader = _Reader()
    try:
        value = json.loads(
            body.decode(),
            object_pairs_hook=reader.object_of,
            parse_constant=reader.constant,
            parse_float=reader.number,
        )
    except UnicodeDecodeError:
        raise InvalidRequestException("the body is not UTF-8; encode it as UTF-8") from None
    except json.JSONDecodeError as fault:
        raise InvalidRequestException(f"the body is not JSON: {fault}") from None
    except ValueError:
        raise InvalidRequestException("the body holds a number with too many digits; shorten it") from None
    if reader.has_faults or _has_suspicious_escape(body):
        errors = list(islice(_faults("", value), MAX_FIELD_ERRORS + 1))
        if errors:
            raise InvalidFieldsException(errors)
    if not isinstance(value, dict):
        raise InvalidRequestException("the body is not an object; send a JSON object")
    return value


class _Reader:
    """Hooks of json.loads: they mark what is wrong, and `_faults` then finds its place."""

    def __init__(self) -> None:
        self.has_faults = False

    def object_of(self, pairs: list[tuple[str, object]]) -> dict[str, object]:
        value = dict(pairs)
        if len(value) > MAX_KEYS:
            raise InvalidRequestException(
                f"an object in the body has {len(value)} keys; send at most {MAX_KEYS}, and known fields only"
            )
        if len(value) == len(pairs):
            return value
        self.has_faults = True
        marked = _Repeated(value)
        counts = Counter(key for key, _ in pairs)
        marked.repeated = [key for key in value if counts[key] > 1]
        return marked

    def constant(self, _: str) -> object:
        self.has_faults = True
        return _NOT_FINITE

    def number(self, text: str) -> object:
        value = float(text)
        return value if math.isfinite(value) else self.constant(text)


def check_bounds(body: bytes) -> None:
    """Refuse a body by what can be seen without parsing it. Raises InvalidRequestException."""
    if not body or body.isspace():
        raise InvalidRequestException("the body is empty; send a JSON object")
    if body.startswith(b"\xef\xbb\xbf"):
        raise InvalidRequestException("the body begins with a byte order mark; send UTF-8 without it")
    containers = check_counts(body)
    if containers > MAX_DEPTH and _is_too_deep(body):
        raise InvalidRequestException(
            f"the body nests deeper than {MAX_DEPTH} levels, or its brackets don't match; flatten it or fix them"
        )


def check_counts(body: bytes) -> int:
    """How many brackets open, those in texts included. Raises InvalidRequestException for too many values."""
    containers = body.count(b"{") + body.count(b"[")
    if containers > MAX_CONTAINERS or body.count(b",") > MAX_VALUES:
        # Those in texts count for nothing, but telling them apart takes longer.
        structure = b"".join(_structure(body))
        if structure.count(b"{") > MAX_CONTAINERS or structure.count(b",") > MAX_VALUES:
            raise InvalidRequestException(
                f"the body holds too many values: {MAX_CONTAINERS} objects and arrays are the most, and {MAX_VALUES} "
                "values; split it over several requests"
            )
    return containers


def _is_too_deep(body: bytes) -> bool:
    brackets = b"".join(_structure(body)).replace(b",", b"")
    for _ in range(MAX_DEPTH):
        # Each round takes off exactly one level: the innermost brackets of every branch.
        brackets = brackets.replace(b"{}", b"")
    return bool(brackets)


def _structure(body: bytes) -> Iterator[bytes]:
    """Brackets and commas outside of texts, all brackets as `{` or `}`."""
    inside = 0
    for piece in _pieces(body):
        parts = piece.split(b'"')
        yield b"".join(parts[inside::2]).translate(_ONE_BRACKET, _NOT_STRUCTURE)
        inside = (inside + len(parts) - 1) % 2


def _pieces(body: bytes) -> Iterator[bytes]:
    """The body without escaped backslashes and quotes. In pieces: one step over megabytes would hold up every other
    thread.
    """
    start = 0
    while start < len(body):
        piece = body[start : start + _PIECE_BYTES]
        if start + len(piece) < len(body) and (len(piece) - len(piece.rstrip(b"\\"))) % 2:
            # An escape is not cut in two.
            piece = body[start : start + len(piece) + 1]
        start += len(piece)
        yield piece.replace(b"\\\\", b"").replace(b'\\"', b"") if b"\\" in piece else piece


def _has_suspicious_escape(body: bytes) -> bool:
    starts = range(0, len(body), _PIECE_BYTES)
    return any(_SUSPICIOUS_ESCAPE.search(body, at, at + _PIECE_BYTES + _LONGEST_ESCAPE) for at in starts)


def _faults(pointer: str, value: object) -> Iterator[ProblemField]:
    if isinstance(value, str):
        yield from _text_faults(pointer, value)
    elif isinstance(value, dict):
        if isinstance(value, _Repeated):
            for key in value.repeated:
                yield ProblemField(f"{pointer}/{pointer_token(key)}", "the key appears more than once; send it once")
        for key, each in value.items():
            below = f"{pointer}/{pointer_token(key)}"
            yield from _text_faults(below, key)
            yield from _faults(below, each)
    elif isinstance(value, list):
        for at, each in enumerate(value):
            yield from _faults(f"{pointer}/{at}", each)
    elif value is _NOT_FINITE:
        yield ProblemField(pointer, "NaN, Infinity and numbers out of range are not JSON; send a finite number")


def _text_faults(pointer: str, text: str) -> Iterator[ProblemField]:
    if "\0" in text:
        yield ProblemField(pointer, "the text holds U+0000, which the store can't keep; remove it")
    if _SURROGATE.search(text):
        yield ProblemField(pointer, "the text holds half of a surrogate pair; send whole characters")


def pointer_token(key: str) -> str:
    """A key as part of a JSON pointer (RFC 6901), fit to be sent back."""
    return key[:100].encode("utf-8", "backslashreplace").decode().replace("~", "~0").replace("/", "~1")
