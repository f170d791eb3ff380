"""Text in the cells of a terminal: how wide it is there, and how it is folded into a few lines of a width."""

import unicodedata
from collections.abc import Iterator
from typing import NamedTuple

ELLIPSIS = "…"


class Folded(NamedTuple):
    lines: list[str]
    is_cut: bool


def cells(text: str) -> int:
    """How many columns of a terminal a printable text takes."""
    return len(text) if text.isascii() else sum(map(_cells, text))


def folded(text: str, width: int, most_lines: int) -> Folded:
    """The text in at most so many lines, broken between words where that is possible.

    Of a longer text the beginning and the end are kept: names of one kind begin alike.
    """
    lines = list(_wrapped(text, width))
    if len(lines) <= most_lines:
        return Folded(lines, is_cut=False)
    # A wide character that has no room at a line's end leaves a cell empty.
    room = most_lines * (width - 1 if cells(text) > len(text) else width) - 1
    tail = room // 2
    kept = f"{_head(text, room - tail)}{ELLIPSIS}{_head(text[::-1], tail)[::-1]}"
    return Folded(list(_split(kept, width)), is_cut=True)


def _cells(character: str) -> int:
    if unicodedata.category(character) in {"Mn", "Me"}:
        return 0
    return 2 if unicodedata.east_asian_width(character) in {"W", "F"} else 1


def _wrapped(text: str, width: int) -> Iterator[str]:
    line = ""
    for word in text.split(" "):
        if line and cells(line) + 1 + cells(word) <= width:
            line = f"{line} {word}"
            continue
        if line:
            yield line
        *full, line = _split(word, width)
        yield from full
    yield line


def _split(text: str, width: int) -> Iterator[str]:
    """Parts of at most this width, none of them empty but that of an empty text."""
    rest = text
    while cells(rest) > width:
        part = _head(rest, width) or rest[:1]
        yield part
        rest = rest[len(part) :]
    yield rest


def _head(text: str, room: int) -> str:
    taken = 0
    for at, character in enumerate(text):
        taken += _cells(character)
        if taken > room:
            return text[:at]
    return text
