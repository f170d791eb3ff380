"""Text files: read line by line, with only one line in memory, or whole up to a bound; and lines written whole."""

import os
from collections.abc import Iterator
from contextlib import suppress
from typing import IO

from app.formats.acl_entries import Problem

MAX_LINE_BYTES = 1024 * 1024
"""The longest binding that can be kept fits, even with all of its characters escaped."""

NOT_UTF_8 = "not UTF-8; encode it as UTF-8"


class TextFault(Exception):
    """Why a text can't be read from this line on, and the way out."""

    def __init__(self, line: int, text: str) -> None:
        super().__init__(text)
        self.line = line


def whole_text(stream: IO[bytes], most: int, too_long: str) -> str:
    """All of a text of at most so many bytes. Raises TextFault."""
    raw = stream.read(most + 1)
    if len(raw) > most:
        raise TextFault(1, too_long)
    try:
        return raw.decode()
    except UnicodeDecodeError as fault:
        raise TextFault(raw.count(b"\n", 0, fault.start) + 1, NOT_UTF_8) from None


def raw_lines(stream: IO[bytes], *, way_out: str) -> Iterator[tuple[int, bytes | list[Problem]]]:
    """Each line with its number and its end, or what is wrong with it: too long, for which there is a `way_out`."""
    number = 0
    while line := stream.readline(MAX_LINE_BYTES):
        number += 1
        if len(line) == MAX_LINE_BYTES and not line.endswith(b"\n"):
            yield number, [Problem(f"the line is longer than {MAX_LINE_BYTES} bytes; {way_out}")]
            while line and not line.endswith(b"\n"):
                line = stream.readline(MAX_LINE_BYTES)
        else:
            yield number, line


def text_lines(stream: IO[bytes], *, way_out: str) -> Iterator[tuple[int, str | list[Problem]]]:
    """The same as text. Only a line feed ends a line; other characters that Python takes for ends may be in names."""
    for number, line in raw_lines(stream, way_out=way_out):
        if isinstance(line, list):
            yield number, line
            continue
        try:
            yield number, line.decode()
        except UnicodeDecodeError:
            yield number, [Problem(NOT_UTF_8)]


def append_whole(descriptor: int, lines: bytes, size: int) -> None:
    """Appends all of the lines to a file of this size or, as far as the disk lets it, nothing. Raises OSError."""
    rest = memoryview(lines)
    try:
        while rest:
            rest = rest[os.write(descriptor, rest) :]
    except OSError:
        with suppress(OSError):
            os.ftruncate(descriptor, size)
        raise
