"""Bodies that nobody should send, and odd ways of sending them; each with what a route that takes a body answers."""

import gzip
import json
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache

MIB = 1024 * 1024
HUGE = 50 * MIB

Make = Callable[[str], bytes]
"""Bytes of a route's valid body; of `{}` for routes that take none."""

JSON = {"Content-Type": "application/json"}


@dataclass(frozen=True, slots=True)
class Odd:
    """One way to ask."""

    make: Make
    status: int = 400
    headers: Mapping[str, str] = field(default_factory=lambda: JSON)
    chunk: int | None = None
    """The size of chunks; None sends a Content-Length."""
    length: Callable[[int], int] = lambda size: size
    """What the Content-Length says."""


def _with(value: str) -> Make:
    """One field more."""
    return lambda text: f'{text[:-1]}{"," if len(text) > 2 else ""}"n":{value}}}'.encode()


def _in_a_text(raw: bytes) -> Make:
    """Within the first text that is a value, if there is one."""
    return lambda text: text.encode().replace(b'": "', b'": "' + raw, 1) if '": "' in text else b'{"":"' + raw + b'"}'


def _is(body: bytes) -> Make:
    return lambda _: body


def _first_value(value: str) -> Make:
    """In the place of the first text that is a value."""

    def make(text: str) -> bytes:
        before, found, rest = text.partition('": "')
        return f'{before}": {value}{rest.partition(chr(34))[2]}'.encode() if found else _with(value)(text)

    return make


def _spelled(text: str) -> str:
    """The first key, in escapes."""
    escapes = "".join(f"\\u{ord(each):04x}" for each in text.split('"')[1]) if '"' in text else "n"
    return f'"{escapes}"'


# 16 levels are fine.
_NESTED = {
    "17 lists": "[" * 16 + "]" * 16,
    "17 objects": '{"a":' * 16 + "1" + "}" * 16,
    "900 lists": "[" * 900 + "]" * 900,
    "900 objects": '{"a":' * 900 + "1" + "}" * 900,
    "900 of both": '[{"a":' * 450 + "1" + "}]" * 450,
    "900 lists with brackets in texts": '["[[{{",' * 900 + "1" + "]" * 900,
    "900 lists behind a quote that is escaped": '["\\\\\\"",' * 900 + "1" + "]" * 900,
    "100,000 lists": "[" * 100_000 + "]" * 100_000,
    "100,000 objects": '{"a":' * 100_000 + "1" + "}" * 100_000,
    "100,000 of both": '[{"a":' * 50_000 + "1" + "}]" * 50_000,
}

TEXTS: dict[str, Make] = {
    "nothing": _is(b""),
    "white space": _is(b" \r\n\t "),
    "a megabyte of white space": _is(b" " * 1_000_000),
    "a NUL": _is(b"\x00"),
    "a byte order mark": lambda text: text.encode("utf-8-sig"),
    "a byte order mark at the end": lambda text: text.encode() + b"\xef\xbb\xbf",
    "only a byte order mark": _is(b"\xef\xbb\xbf"),
    "UTF-16": lambda text: text.encode("utf-16"),
    "UTF-16, big end first": lambda text: text.encode("utf-16-be"),
    "UTF-16, big end first, with a mark": lambda text: b"\xfe\xff" + text.encode("utf-16-be"),
    "UTF-16, little end first": lambda text: text.encode("utf-16-le"),
    "UTF-32": lambda text: text.encode("utf-32"),
    "UTF-32, little end first": lambda text: text.encode("utf-32-le"),
    "UTF-7": _is(b"+AHsAfQ-"),
    "latin 1 in a text": lambda text: text.replace(":", ': "\xe4", "', 1).encode("latin-1"),
    "an overlong NUL in a text": _in_a_text(b"\xc0\x80"),
    "an overlong slash in a text": _in_a_text(b"\xe0\x80\xaf"),
    "an overlong quote at the end of a text": _in_a_text(b'\xc0\xa2"'),
    "an encoded surrogate in a text": _in_a_text(b"\xed\xa0\x80"),
    "an encoded pair of surrogates in a text": _in_a_text(b"\xed\xa0\xbd\xed\xb8\x80"),
    "beyond Unicode in a text": _in_a_text(b"\xf5\x80\x80\x80"),
    "a raw NUL in a text": _in_a_text(b"\x00"),
    "a raw line feed in a text": _in_a_text(b"\n"),
    "an escaped NUL in a text": _in_a_text(b"\\u0000"),
    "an escaped high surrogate in a text": _in_a_text(b"\\ud800"),
    "an escaped low surrogate in a text": _in_a_text(b"\\uDFFF"),
    "escaped surrogates the wrong way round": _in_a_text(b"\\udc00\\ud800"),
    "an escaped surrogate in a key": lambda text: text.replace('{"', '{"\\ud800', 1).encode(),
    "an escape that is none": _in_a_text(b"\\x41"),
    "an escape without its end": _in_a_text(b"\\u12"),
    "a cut character at the end": lambda text: text.encode() + b"\xe2\x82",
    "the first half": lambda text: text[: len(text) // 2].encode(),
    "all but the last brace": lambda text: text[:-1].encode(),
    "one brace too many": lambda text: f"{text}}}".encode(),
    "two bodies": lambda text: f"{text}{text}".encode(),
    "two bodies on two lines": lambda text: f"{text}\n{text}".encode(),
    "a body in a list": lambda text: f"[{text}]".encode(),
    "a body in a text": lambda text: json.dumps(text).encode(),
    "a comma too many": lambda text: f"{text[:-1]},}}".encode(),
    "a comment": lambda text: f"{text}//".encode(),
    "a form": _is(b"context=1&actions=2"),
    "a part of a multipart": _is(b'--x\r\nContent-Disposition: form-data; name="context"\r\n\r\n{}\r\n--x--\r\n'),
    "null": _is(b"null"),
    "a number": _is(b"17"),
    "a text": _is(b'"text"'),
    "a list": _is(b"[]"),
    "an empty object": _is(b"{}"),
    "every key twice": lambda text: f"{text[:-1]},{text[1:]}".encode(),
    "a key twice, spelled differently": lambda text: f"{{{_spelled(text)}:0,{text[1:]}".encode(),
    "a key twice, deeper": _with('[{"a":0,"a":0}]'),
    "one key 60,000 times": lambda text: (text[:-1] + ',"k":0' * 60_000 + "}").encode(),
    "100,000 keys": lambda text: (text[:-1] + "".join(f',"{n}":0' for n in range(90_000)) + "}").encode(),
    "NaN": _is(b"NaN"),
    **{f"{value} as a value": _first_value(value) for value in ("NaN", "Infinity", "-Infinity", "1e999", "-1e999")},
    **{f"{value} in a field": _with(value) for value in ("NaN", "-Infinity", "1e999", "-1e999", "[1e999]")},
    "a number of 100,000 digits": _with("9" * 100_000),
    "a number of 100,000 digits as a value": _first_value("9" * 100_000),
    "a fraction of 100,000 digits": _with("1." + "9" * 100_000),
    "an exponent of 100,000 digits": _with("1e" + "9" * 100_000),
    **{f"{what} in a field": _with(value) for what, value in _NESTED.items()},
    "100,000 lists and nothing else": _is(b"[" * 100_000 + b"]" * 100_000),
    "100,000 lists that don't end": _is(b"[" * 100_000),
    "100,000 objects that don't end": _is(b'{"a":' * 100_000),
    "100,000 objects and nothing else": _is(b'{"a":' * 100_000 + b"1" + b"}" * 100_000),
    "100,000 brackets that don't match": _is(b"[{" * 50_000),
    "closing brackets": _is(b"]" * 100_000),
    "half a million commas": _is(b'{"a":[' + b"," * 500_000 + b"]}"),
    "half a million zeros": _is(b'{"a":[' + b"0," * 450_000 + b"0]}"),
    "a megabyte of quotes": _is(b'"' * 900_000),
    "a megabyte of backslashes": _is(b'{"a":"' + b"\\" * 900_000),
}
"""Sent as JSON with a true Content-Length, all of these are 400."""


@cache
def _bomb() -> bytes:
    """A body of 200 MiB in 200 KiB."""
    return zlib.compress(b'{"a":"' + b"x" * (200 * MIB) + b'"}', 9)


@cache
def _gzip_bomb() -> bytes:
    return gzip.compress(b'{"a":"' + b"x" * (200 * MIB) + b'"}', 6)


def _valid(text: str) -> bytes:
    return text.encode()


@cache
def _huge() -> bytes:
    return b'{"a":"' + b"x" * HUGE + b'"}'


def _typed(value: str) -> dict[str, str]:
    return {"Content-Type": value}


def _coded(value: str) -> dict[str, str]:
    return {**JSON, "Content-Encoding": value}


_TYPES = (
    *("text/plain", "text/json", "application/xml", "application/x-www-form-urlencoded", "application/octet-stream"),
    *("multipart/form-data; boundary=x", "application/json; charset=utf-16", "application/json, text/html", "", "json"),
)

WAYS: dict[str, Odd] = {
    "50 MB": Odd(lambda _: _huge(), 413),
    "50 MB in chunks": Odd(lambda _: _huge(), 413, chunk=65_536),
    "a megabyte in chunks of 100 bytes": Odd(_is(b" " * 1_000_000), chunk=100),
    "half a body in chunks": Odd(lambda text: text[: len(text) // 2].encode(), chunk=7),
    "nothing in chunks": Odd(_is(b""), chunk=7),
    "UTF-16 in chunks": Odd(lambda text: text.encode("utf-16"), chunk=1),
    "a gzip bomb that doesn't say so": Odd(lambda _: _gzip_bomb()),
    "a gzip body that doesn't say so": Odd(lambda text: gzip.compress(text.encode())),
    **{f"a bomb, {coding}": Odd(lambda _: _gzip_bomb(), 415, _coded(coding)) for coding in ("gzip", "x-gzip", "br")},
    **{f"a bomb, {coding}": Odd(lambda _: _bomb(), 415, _coded(coding)) for coding in ("deflate", "zstd", "compress")},
    "a bomb in chunks, gzip": Odd(lambda _: _gzip_bomb(), 415, _coded("gzip"), chunk=4_096),
    "a bomb, gzip twice": Odd(lambda _: gzip.compress(_gzip_bomb()), 415, _coded("gzip, gzip")),
    "plain, but gzip by its word": Odd(_valid, 415, _coded("gzip")),
    **{f"as {value!r}": Odd(_valid, 415, _typed(value)) for value in _TYPES},
    "without a type": Odd(_valid, 415, {}),
    "with a length too short": Odd(_valid, length=lambda size: size // 2),
    "with a length of zero": Odd(_valid, length=lambda _: 0),
    "announced, and no JSON": Odd(_is(b"{nonsense"), headers={**JSON, "Expect": "100-continue"}),
    "announced, and too large": Odd(lambda _: _huge(), 413, headers={**JSON, "Expect": "100-continue"}),
    "announced, and of no type": Odd(_valid, 415, headers={"Expect": "100-continue"}),
}
"""Other ways to send them."""

CORPUS: dict[str, Odd] = {**{what: Odd(make) for what, make in TEXTS.items()}, **WAYS}
