"""ACLs as JSON: a binding a line (JSON Lines), or the bindings of one createAcls body.

The fields are those of createAcls' bindings, as strictly as there: no unknown field, no key twice, only texts.
"""

import json
import re
from collections.abc import Iterator
from typing import IO

import msgspec
from msgspec import UNSET, UnsetType

from app.core.bindings import AclBinding
from app.ops.acl_entries import MAX_SHOWN, Entry, binding_of

MAX_LINE_BYTES = 1024 * 1024
"""The longest binding that can be kept fits, even with all of its characters escaped."""

MAX_BODY_BYTES = 64 * 1024 * 1024
"""A body is held in memory as a whole; JSON Lines of any length are not."""

_REQUIRED = ("resource_type", "resource_name", "principal", "operation", "permission_type")
_FIELDS = (*_REQUIRED, "pattern_type", "host")
_BODY_FIELDS = ("context", "bindings", "timeout_ms")
_BODY_BEGINS = re.compile(rb'\s*\{\s*"(?:context|bindings|timeout_ms)"')
_SPACE = re.compile(r"[ \t\r\n]*")


class JsonBinding(msgspec.Struct, forbid_unknown_fields=True, gc=False, kw_only=True):
    """A binding as it stands in JSON, in files and in bodies of createAcls alike; what did not come is UNSET."""

    resource_type: str
    resource_name: str
    pattern_type: str | UnsetType = UNSET
    principal: str
    host: str | UnsetType = UNSET
    operation: str
    permission_type: str


class _Pairs(list[tuple[str, object]]):
    """An object of JSON with every key that came, in order."""


_decode = msgspec.json.Decoder(JsonBinding).decode
_read_value = json.JSONDecoder(object_pairs_hook=_Pairs).raw_decode


def read_json_lines(stream: IO[bytes]) -> Iterator[Entry]:
    """A binding a line; blank lines are passed over."""
    number = 0
    while line := stream.readline(MAX_LINE_BYTES):
        number += 1
        if len(line) == MAX_LINE_BYTES and not line.endswith(b"\n"):
            yield number, [f"the line is longer than {MAX_LINE_BYTES} bytes; write one binding a line"]
            while line and not line.endswith(b"\n"):
                line = stream.readline(MAX_LINE_BYTES)
        elif not line.isspace():
            yield number, parse_binding(line)


def is_create_acls_body(head: bytes) -> bool:
    """Whether a file that begins so is a createAcls body."""
    return _BODY_BEGINS.match(head) is not None


def read_create_acls_body(stream: IO[bytes]) -> Iterator[Entry]:
    """The bindings of a createAcls body. Its `context` is passed over: the actor is who imports, whatever it says."""
    raw = stream.read(MAX_BODY_BYTES + 1)
    if len(raw) > MAX_BODY_BYTES:
        yield 1, [f"a createAcls body of more than {MAX_BODY_BYTES} bytes; write one binding a line instead"]
        return
    try:
        yield from _Body(raw.decode()).entries()
    except UnicodeDecodeError as fault:
        yield raw.count(b"\n", 0, fault.start) + 1, ["not UTF-8; encode it as UTF-8"]
    except json.JSONDecodeError as fault:
        yield fault.lineno, [_not_json(fault)]
    except (ValueError, RecursionError):
        yield 1, ["not a createAcls body: a number is too long, or it nests too deep"]


def parse_binding(text: bytes) -> AclBinding | list[str]:
    """The binding in this JSON, or all that is wrong with it."""
    try:
        fields = _decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as fault:
        return _problems(text) or [str(fault)]
    pattern_type, host = fields.pattern_type, fields.host
    keys = len(_REQUIRED) + (pattern_type is not UNSET) + (host is not UNSET)
    # msgspec keeps the last of equal keys in silence. But each key that came has two quotes and its text two more, so
    # there are more of them than four a key that is kept; or there are escaped ones, which are worth a closer look.
    if text.count(b'"') != 4 * keys and (problems := _problems(text)):
        return problems
    return binding_of(
        resource_type=fields.resource_type,
        resource_name=fields.resource_name,
        pattern_type="LITERAL" if pattern_type is UNSET else pattern_type,
        principal=fields.principal,
        host="*" if host is UNSET else host,
        operation=fields.operation,
        permission_type=fields.permission_type,
    )


def _problems(text: bytes) -> list[str]:
    """What is wrong with the form of a binding, found slowly and told field by field."""
    try:
        pairs = json.loads(text.rstrip().decode(), object_pairs_hook=_Pairs)
    except UnicodeDecodeError:
        return ["not UTF-8; encode it as UTF-8"]
    except json.JSONDecodeError as fault:
        return [_not_json(fault)]
    except (ValueError, RecursionError):
        return ["not a binding: a number is too long, or it nests too deep"]
    if not isinstance(pairs, _Pairs):
        return ["not an object; write one with the fields of a binding"]
    names = [name for name, _ in pairs]
    problems = [f"`{name}`: the field is missing" for name in _REQUIRED if name not in names]
    for name, value in pairs:
        if name not in _FIELDS:
            problems.append(f"`{name[:MAX_SHOWN]}`: there is no such field; remove it")
        elif not isinstance(value, str):
            problems.append(f"`{name}`: the value is not text; write a string")
    return problems + [f"`{name}`: the key comes more than once; write it once" for name in _repeated(names)]


def _repeated(names: list[str]) -> list[str]:
    return [name for name in _FIELDS if names.count(name) > 1]


def _not_json(fault: json.JSONDecodeError) -> str:
    return f"not JSON: {fault.msg} (column {fault.colno})"


class _Body:
    """A createAcls body, walked through once: no binding is kept, and each is known by its line."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._line = 1
        self._counted_to = 0

    def entries(self) -> Iterator[Entry]:
        """Raises JSONDecodeError where it is not JSON."""
        seen: set[str] = set()
        for _ in self._items("{", "}"):
            line, name = self._line_here(), self._value()
            self._expect(":")
            if name in seen:
                yield line, [f"`{name}`: the key comes more than once; write it once"]
            seen.add(str(name))
            if name == "bindings":
                yield from self._bindings()
                continue
            if name not in _BODY_FIELDS:
                yield line, [f"`{str(name)[:MAX_SHOWN]}`: there is no such field; remove it"]
            self._value()
        if self._next():
            raise json.JSONDecodeError("Extra data", self._text, self._at)
        if "bindings" not in seen:
            yield 1, ["`bindings`: the field is missing"]

    def _bindings(self) -> Iterator[Entry]:
        for _ in self._items("[", "]"):
            line, start = self._line_here(), self._at
            self._value()
            yield line, parse_binding(self._text[start : self._at].encode("utf-8", "surrogatepass"))

    def _items(self, opening: str, closing: str) -> Iterator[None]:
        """Stops before each item between these brackets; whoever asks reads it."""
        self._expect(opening)
        if self._next() != closing:
            yield
            while self._next() == ",":
                self._at += 1
                self._next()
                yield
        self._expect(closing)

    def _value(self) -> object:
        self._next()
        try:
            value, self._at = _read_value(self._text, self._at)
        except StopIteration:
            raise json.JSONDecodeError("Expecting value", self._text, self._at) from None
        return value

    def _expect(self, character: str) -> None:
        if self._next() != character:
            raise json.JSONDecodeError(f"Expecting '{character}'", self._text, self._at)
        self._at += 1

    def _next(self) -> str:
        """The character after white space, which stays to be read; empty at the end."""
        space = _SPACE.match(self._text, self._at)
        self._at = space.end() if space is not None else self._at
        return self._text[self._at : self._at + 1]

    def _line_here(self) -> int:
        self._line += self._text.count("\n", self._counted_to, self._at)
        self._counted_to = self._at
        return self._line
