"""The content of one file of ACLs: unpacked, parsed once, and its outline, by which its format is recognised."""

import gzip
import io
import json
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import chain
from typing import IO

from app.formats.json_walk import JsonWalk, Pairs
from app.formats.lines import MAX_LINE_BYTES, TextFault, whole_text
from app.formats.yaml_documents import Fields, Items, Scalar, Value, is_null, read_documents

MAX_JSON_BYTES = 64 * 1024 * 1024
"""A body is held in memory as a whole; JSON Lines are not."""

_BUFFER_BYTES = 256 * 1024
_HEAD_BYTES = 64 * 1024
_GZIP_MAGIC = b"\x1f\x8b"
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_LOOKS_LIKE_YAML = re.compile(r"(?:---|- |[\"']?[\w./-]+[\"']?:(?:\s|\Z))", re.ASCII)


@dataclass(frozen=True, slots=True)
class Outline:
    """What a file is made of, as far as it tells the format: the fields at its top, or those of a list's first item.

    `fields` says for each of them `{` for a mapping, `[` for a list, `"` for anything else, in the order of the file.
    `texts` are those that are short texts. `is_list` is a list at the top; `is_lines` are JSON Lines, or what may be
    one of them.
    """

    fields: Mapping[str, str] = field(default_factory=dict)
    texts: Mapping[str, str] = field(default_factory=dict)
    is_list: bool = False
    is_lines: bool = False

    def has(self, *names: str, kind: str = "") -> bool:
        """Whether one of these fields is there, with a value of this kind."""
        return any(name in self.fields and kind in ("", self.fields[name]) for name in names)


class Source:
    """`raw` can be sought in. Raises OSError, EOFError or zlib.error, also later, if it can't be read or unpacked."""

    def __init__(self, raw: IO[bytes]) -> None:
        raw.seek(0)
        packed = raw.read(len(_GZIP_MAGIC)) == _GZIP_MAGIC
        raw.seek(0)
        self._stream: IO[bytes] = io.BufferedReader(gzip.GzipFile(fileobj=raw), _BUFFER_BYTES) if packed else raw
        head = self._stream.read(_HEAD_BYTES)
        self._start = len(_BYTE_ORDER_MARK) if head.startswith(_BYTE_ORDER_MARK) else 0
        self.head = head[self._start :]
        self._documents: Iterator[Value] | None = None

    @property
    def stream(self) -> IO[bytes]:
        """The content from its beginning, after any byte order mark."""
        self._stream.seek(self._start)
        return self._stream

    @cached_property
    def is_json(self) -> bool:
        return self.head.lstrip()[:1] in (b"{", b"[")

    @cached_property
    def _text(self) -> str:
        too_long = f"JSON of more than {MAX_JSON_BYTES} bytes; write one binding per line instead"
        return whole_text(self.stream, MAX_JSON_BYTES, too_long)

    def json(self) -> JsonWalk:
        """The whole text, from its beginning. Raises TextFault if it is too long, or no UTF-8."""
        return JsonWalk(self._text)

    def documents(self) -> Iterator[Value]:
        """Those of YAML, or the one of JSON. Raises TextFault and JSONDecodeError, also while they are read."""
        if self._documents is not None:
            documents, self._documents = self._documents, None
            return documents
        return self._parsed()

    def _parsed(self) -> Iterator[Value]:
        if not self.is_json:
            yield from read_documents(self.stream)
            return
        root, walk = self._root
        yield root
        walk.end()

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing in it but white space, comments of YAML, and null. Raises as `outline` does."""
        return not self.is_json and self.outline == Outline()

    @cached_property
    def _root(self) -> tuple[Value, JsonWalk]:
        """What JSON begins with, and what follows it. INVARIANT: it is parsed once, to be recognised and to be read."""
        walk = self.json()
        return walk.tree(), walk

    @cached_property
    def outline(self) -> Outline | None:
        """None if the content is neither JSON nor YAML. Raises TextFault and JSONDecodeError where it is broken."""
        if self.is_json:
            return self._of_json()
        first_line = next((each for each in self.head.decode(errors="replace").split("\n") if each.strip()), "")
        return self._of_yaml(first_line)

    def _of_json(self) -> Outline:
        line, following = (each.strip() for each in _two_lines(self.stream))
        first = _whole(line)
        if isinstance(first, Pairs):
            return Outline(*_of_pairs(first), is_lines=bool(first) or bool(following))
        has_lines = line.startswith("{") and isinstance(_whole(following), Pairs)
        try:
            root, walk = self._root
        except json.JSONDecodeError as fault:
            if has_lines and _is_one_line(fault.doc[: fault.pos]):
                return Outline(is_lines=True)
            return _of_beginning(self.json(), fault)
        except (TextFault, RecursionError) as fault:
            # JSON Lines may be longer than other JSON.
            return Outline(is_lines=True) if has_lines else _of_beginning(self.json(), fault)
        if has_lines and _is_one_line(self._text[: walk.at]):
            return Outline(is_lines=True)
        return _of_document(root) or Outline()

    def _of_yaml(self, first_line: str) -> Outline | None:
        documents, seen = read_documents(self.stream), list[Value]()
        try:
            for document in documents:
                seen.append(document)
                outline = _of_document(document)
                if outline is not None:
                    # INVARIANT: what was parsed to recognise the format is what is read; nothing is parsed twice.
                    self._documents = chain(seen, documents)
                    return outline
                if not is_null(document):
                    return None
        except TextFault:
            if _LOOKS_LIKE_YAML.match(first_line) is not None or first_line.startswith("#"):
                raise
            return None
        return Outline()


def _two_lines(stream: IO[bytes]) -> tuple[str, str]:
    """The first two that are not blank; the second is empty if there is none."""
    lines = (line.decode(errors="replace") for line in iter(partial(stream.readline, MAX_LINE_BYTES), b""))
    some = (each for each in lines if each.strip())
    return next(some, ""), next(some, "")


_decode = json.JSONDecoder(object_pairs_hook=Pairs).raw_decode


def _whole(line: str) -> object:
    """The value that the line is; None if it is none, or not a whole one."""
    try:
        value, end = _decode(line)
    except (ValueError, RecursionError):
        return None
    return value if end == len(line) else None


def _of_pairs(pairs: Pairs) -> tuple[dict[str, str], dict[str, str]]:
    kinds = {name: "{" if isinstance(each, Pairs) else "[" if isinstance(each, list) else '"' for name, each in pairs}
    return kinds, {name: each for name, each in pairs if isinstance(each, str)}


def _is_one_line(text: str) -> bool:
    return "\n" not in text.strip()


def _of_beginning(walk: JsonWalk, fault: Exception) -> Outline:
    """Of JSON that is broken, or has a key twice: as far as it goes, so that its reader says what is wrong."""
    is_list = walk.next() == "["
    kinds: dict[str, str] = {}
    with suppress(json.JSONDecodeError, TextFault, RecursionError):
        if is_list:
            walk.expect("[")
        for _, name in walk.members():
            opening = walk.next()
            kinds[name] = opening if opening in ("{", "[") else '"'
            walk.value()
    if not kinds:
        raise fault
    return Outline(kinds, is_list=is_list)


def _of_document(document: Value) -> Outline | None:
    if isinstance(document, Items):
        first = document.value[0] if document.value else None
        kinds, texts = _of_fields(first) if isinstance(first, Fields) else ({}, {})
        return Outline(kinds, texts, is_list=True)
    if isinstance(document, Fields):
        return Outline(*_of_fields(document))
    return None


def _of_fields(mapping: Fields) -> tuple[dict[str, str], dict[str, str]]:
    kinds = {
        name.value: "{" if isinstance(each, Fields) else "[" if isinstance(each, Items) else '"'
        for name, each in mapping.value
    }
    return kinds, {name.value: each.value for name, each in mapping.value if isinstance(each, Scalar)}
