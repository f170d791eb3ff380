"""A JSON text read once, part by part, each with its line."""

import json
import re
from array import array
from collections.abc import Callable, Iterator, Sequence
from json.scanner import make_scanner
from typing import overload

from app.formats.acl_entries import MAX_SHOWN
from app.formats.lines import TextFault
from app.formats.yaml_documents import Value, fields, items, scalar

MAX_JSON_DEPTH = 64
_SPACE = re.compile(r"[ \t\r\n]*")
_COMMA = re.compile(rf"{_SPACE.pattern},{_SPACE.pattern}")
_COLON = re.compile(rf"{_SPACE.pattern}:{_SPACE.pattern}")
_LAZY_DEPTH = 1
"""Lists at the top, and those of an object at the top, are parsed item by item."""


class Pairs(list[tuple[str, object]]):
    """A JSON object with all its keys in order, equal ones included."""


_scan = make_scanner(json.JSONDecoder(object_pairs_hook=Pairs))  # type: ignore[arg-type]  # as the decoder calls it
_skim = make_scanner(json.JSONDecoder())  # type: ignore[arg-type]  # as above
"""Faster, for values that are only passed."""


def not_json(fault: json.JSONDecodeError) -> str:
    return f"not JSON: {fault.msg} (column {fault.colno})"


class JsonItems(Sequence[Value]):
    """The items of a list, each parsed when it is asked for: of many, only one is in memory."""

    def __init__(self, text: str, depth: int) -> None:
        self._text = text
        self._depth = depth
        self._starts, self._ends, self._lines = (array("q") for _ in range(3))

    def add(self, start: int, end: int, line: int) -> None:
        self._starts.append(start)
        self._ends.append(end)
        self._lines.append(line)

    def __len__(self) -> int:
        return len(self._starts)

    @overload
    def __getitem__(self, index: int) -> Value: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Value]: ...
    def __getitem__(self, index: int | slice) -> Value | Sequence[Value]:
        if isinstance(index, slice):
            return [self[each] for each in range(*index.indices(len(self)))]
        return JsonWalk(self._text, self._starts[index], self._lines[index]).tree(self._depth)

    def texts(self) -> Iterator[tuple[int, bytes]]:
        """Each item as it stands in the file, with its line."""
        for start, end, line in zip(self._starts, self._ends, self._lines, strict=True):
            yield line, self._text[start:end].encode("utf-8", "surrogatepass")


class JsonWalk:
    """A position in a text. Raises JSONDecodeError where it is not JSON."""

    def __init__(self, text: str, at: int = 0, line: int = 1) -> None:
        self._text = text
        self.at = at
        self._line = line
        self._counted_to = at

    def items(self, opening: str, closing: str) -> Iterator[None]:
        """Stops before each item between these brackets; the caller reads it."""
        self.expect(opening)
        if self.next() != closing:
            yield
            while self._has_passed(_COMMA):
                yield
        self.expect(closing)

    def members(self) -> Iterator[tuple[int, str]]:
        """Each key of an object with its line; the caller reads its value. Raises TextFault if a key comes twice."""
        seen: set[str] = set()
        for _ in self.items("{", "}"):
            line = self.line_of(self.at)
            if self._text[self.at : self.at + 1] != '"':
                raise json.JSONDecodeError("Expecting property name enclosed in double quotes", self._text, self.at)
            name = str(self._value(_scan))
            if name in seen:
                raise TextFault(line, f"`{name[:MAX_SHOWN]}`: the key comes more than once; write it once")
            seen.add(name)
            if not self._has_passed(_COLON):
                self.expect(":")
            yield line, name

    def value(self) -> object:
        """The value that begins here; an object comes as Pairs."""
        self.next()
        return self._value(_scan)

    def _value(self, scan: Callable[[str, int], tuple[object, int]]) -> object:
        try:
            value, self.at = scan(self._text, self.at)
        except StopIteration:
            raise json.JSONDecodeError("Expecting value", self._text, self.at) from None
        return value

    def tree(self, depth: int = 0) -> Value:
        """The value that begins here, with the line of each part. Raises TextFault if a key comes twice."""
        opening = self.next()
        line = self.line_of(self.at)
        if opening not in ("{", "["):
            return scalar(self._value(_scan), line)
        if depth > MAX_JSON_DEPTH:
            raise TextFault(line, f"it is nested deeper than {MAX_JSON_DEPTH} levels")
        if opening == "{":
            return fields([(scalar(name, at), self.tree(depth + 1)) for at, name in self.members()], line)
        if depth <= _LAZY_DEPTH:
            return items(self._lazy_items(depth + 1), line)
        return items([self.tree(depth + 1) for _ in self.items("[", "]")], line)

    def _lazy_items(self, depth: int) -> JsonItems:
        found = JsonItems(self._text, depth)
        for _ in self.items("[", "]"):
            start = self.at
            self._value(_skim)
            found.add(start, self.at, self.line_of(start))
        return found

    def _has_passed(self, sign: re.Pattern[str]) -> bool:
        found = sign.match(self._text, self.at)
        if found is None:
            return False
        self.at = found.end()
        return True

    def expect(self, character: str) -> None:
        if self.next() != character:
            raise json.JSONDecodeError(f"Expecting '{character}'", self._text, self.at)
        self.at += 1

    def next(self) -> str:
        """The character after white space, which stays to be read; empty at the end."""
        found = self._text[self.at : self.at + 1]
        if found > " " or not found:
            return found
        space = _SPACE.match(self._text, self.at)
        self.at = space.end() if space is not None else self.at
        return self._text[self.at : self.at + 1]

    def end(self) -> None:
        if self.next():
            raise json.JSONDecodeError("Extra data", self._text, self.at)

    def line_of(self, at: int) -> int:
        """Of a position that is not before the last one that was asked for."""
        self._line += self._text.count("\n", self._counted_to, at)
        self._counted_to = at
        return self._line
