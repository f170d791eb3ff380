"""A JSON text read once, item by item, each with its line."""

import json
import re
from collections.abc import Iterator

from app.formats.acl_entries import MAX_SHOWN
from app.formats.lines import TextFault
from app.formats.yaml_documents import Value, fields, items, scalar

MAX_JSON_DEPTH = 64
_SPACE = re.compile(r"[ \t\r\n]*")


class Pairs(list[tuple[str, object]]):
    """A JSON object with all its keys in order, equal ones included."""


_read_value = json.JSONDecoder(object_pairs_hook=Pairs).raw_decode


def not_json(fault: json.JSONDecodeError) -> str:
    return f"not JSON: {fault.msg} (column {fault.colno})"


class JsonWalk:
    """A position in a text. Raises JSONDecodeError where it is not JSON."""

    def __init__(self, text: str) -> None:
        self._text = text
        self.at = 0
        self._line = 1
        self._counted_to = 0

    def items(self, opening: str, closing: str) -> Iterator[None]:
        """Stops before each item between these brackets; the caller reads it."""
        self.expect(opening)
        if self.next() != closing:
            yield
            while self.next() == ",":
                self.at += 1
                self.next()
                yield
        self.expect(closing)

    def members(self) -> Iterator[tuple[int, str]]:
        """Each key of an object with its line; the caller reads its value. Raises TextFault if a key comes twice."""
        seen: set[str] = set()
        for _ in self.items("{", "}"):
            line, name = self.line_here(), self.value()
            if not isinstance(name, str):
                raise json.JSONDecodeError("Expecting property name enclosed in double quotes", self._text, self.at)
            if name in seen:
                raise TextFault(line, f"`{name[:MAX_SHOWN]}`: the key comes more than once; write it once")
            seen.add(name)
            self.expect(":")
            yield line, name

    def raw_items(self) -> Iterator[tuple[int, bytes]]:
        for _ in self.items("[", "]"):
            line, start = self.line_here(), self.at
            self.value()
            yield line, self.since(start)

    def since(self, start: int) -> bytes:
        return self._text[start : self.at].encode("utf-8", "surrogatepass")

    def value(self) -> object:
        """The value that begins here; an object comes as Pairs."""
        self.next()
        try:
            value, self.at = _read_value(self._text, self.at)
        except StopIteration:
            raise json.JSONDecodeError("Expecting value", self._text, self.at) from None
        return value

    def skim(self) -> object:
        """The value that begins here if it is none with parts; of those, each item of a list is forgotten at once."""
        opening = self.next()
        if opening == "[":
            for _ in self.items("[", "]"):
                self.value()
            return None
        value = self.value()
        return None if opening == "{" else value

    def tree(self, depth: int = 0) -> Value:
        """The value that begins here, with the line of each part. Raises TextFault if a key comes twice."""
        opening = self.next()
        line = self.line_here()
        if depth > MAX_JSON_DEPTH:
            raise TextFault(line, f"it is nested deeper than {MAX_JSON_DEPTH} levels")
        if opening == "{":
            return fields([(scalar(name, at), self.tree(depth + 1)) for at, name in self.members()], line)
        if opening == "[":
            return items([self.tree(depth + 1) for _ in self.items("[", "]")], line)
        return scalar(self.value(), line)

    def expect(self, character: str) -> None:
        if self.next() != character:
            raise json.JSONDecodeError(f"Expecting '{character}'", self._text, self.at)
        self.at += 1

    def next(self) -> str:
        """The character after white space, which stays to be read; empty at the end."""
        space = _SPACE.match(self._text, self.at)
        self.at = space.end() if space is not None else self.at
        return self._text[self.at : self.at + 1]

    def end(self) -> None:
        if self.next():
            raise json.JSONDecodeError("Extra data", self._text, self.at)

    def line_here(self) -> int:
        self._line += self._text.count("\n", self._counted_to, self.at)
        self._counted_to = self.at
        return self._line
