"""Where messages begin and end in what comes, so that the parser gets each request line only after it was looked at.

The parser forgives a request line much that other servers read otherwise, and tells nobody. So what comes is cut at
the end of each message, and the line that a message begins with must have its exact form (RFC 9112, 3). All else is
the parser's to judge. Should it find a message's beginning where there was no cut, the message is refused.
"""

import re
from enum import Enum, auto

_is_request_line = re.compile(rb"[!-~]+ [!-~]+ HTTP/1\.[01]\r\n").fullmatch
_EMPTY_LINES = re.compile(rb"(?:\r\n)*+")
_CHUNK = re.compile(rb"([0-9A-Fa-f]{1,16})(?:;[^\r\n]*+)?\r\n")
_SMALL_CHUNKS = re.compile(
    rb"(?:0*+(?:%b))++"
    % b"|".join(rb"(?:%x|%X)(?:;[^\r\n]*+)?\r\n(?s:.{%d})\r\n" % (size, size, size) for size in range(1, 16))
)
"""Thousands may come in one segment: a step of Python for each would take the event loop tens of milliseconds."""
_EMPTY_LINE = b"\r\n"
_END = b"\r\n\r\n"


class BadLineError(Exception):
    """What should be a request line is none."""


class _Stands(Enum):
    BEFORE_MESSAGE = auto()
    IN_LINE = auto()
    IN_HEAD = auto()
    IN_BODY = auto()
    IN_CHUNKS = auto()
    IN_TRAILERS = auto()


class Pieces:
    """Cuts what comes on one connection."""

    def __init__(self) -> None:
        self.carry = b""
        """A CR before a message, whose LF has not come yet."""
        self.line = bytearray()
        """The request line, as far as it has come."""
        self._stands = _Stands.BEFORE_MESSAGE
        self._may_begin = False
        self._tail = b""
        """The end of the head so far."""
        self._left = 0
        """Bytes of the body, or of the chunk with its end of line, that have not come yet."""
        self._part = bytearray()
        """A line between chunks or among trailers, as far as it has come."""

    # what the parser finds

    def begins(self) -> bool:
        """Whether the message that the parser sees beginning does so where one may."""
        may, self._may_begin = self._may_begin, False
        return may

    def begin_again(self) -> None:
        """Know that the same message will be read once more."""
        self._may_begin = True

    def end_head(self, length: int | None) -> None:
        """Know how long the body is; None if it comes in chunks."""
        self._stands = _Stands.IN_CHUNKS if length is None else _Stands.IN_BODY
        self._left = length or 0

    def end_message(self) -> None:
        """Know that the message is complete."""
        self._stands = _Stands.BEFORE_MESSAGE

    # cuts

    def skip(self, data: bytes, at: int) -> int:
        """Where, from there on, a message begins or goes on: empty lines before it are ignored (RFC 9112, 2.2)."""
        if self._stands is not _Stands.BEFORE_MESSAGE:
            return at
        if self.carry:
            self.carry = b""
            if data[at : at + 1] != b"\n":
                raise BadLineError
            at += 1
        at = _EMPTY_LINES.match(data, at).end()  # type: ignore[union-attr]  # it matches nothing, too
        if at == len(data) - 1 and data.endswith(b"\r"):
            self.carry = b"\r"
            return len(data)
        if at < len(data):
            self._stands, self._may_begin = _Stands.IN_LINE, True
            self._tail, self.line = b"", bytearray()
        return at

    def end(self, data: bytes, at: int) -> int:
        """Where the piece ends that begins there, in or before a message's end. Raises BadLineError."""
        if self._stands is _Stands.IN_LINE:
            self._read_line(data, at)
        if self._stands in (_Stands.IN_LINE, _Stands.IN_HEAD):
            return self._end_of_head(data, at)
        if self._stands is _Stands.IN_BODY:
            return self._through(data, at)
        return self._end_of_chunks(data, at)

    def _read_line(self, data: bytes, at: int) -> None:
        end = data.find(b"\n", at) + 1
        self.line += data[at : end or len(data)]
        if end:
            if not _is_request_line(self.line):
                raise BadLineError
            self._stands = _Stands.IN_HEAD

    def _end_of_head(self, data: bytes, at: int) -> int:
        before = self._tail
        found = (before + data[at : at + 3]).find(_END)
        if found >= 0:
            return at + found + len(_END) - len(before)
        found = data.find(_END, at)
        if found >= 0:
            return found + len(_END)
        self._tail = (before + data[max(at, len(data) - 3) :])[-3:]
        return len(data)

    def _through(self, data: bytes, at: int) -> int:
        step = min(self._left, len(data) - at) or len(data) - at
        self._left -= min(self._left, step)
        return at + step

    def _end_of_chunks(self, data: bytes, at: int) -> int:
        while at < len(data):
            if self._left:
                at = self._through(data, at)
            elif self._part or self._stands is _Stands.IN_TRAILERS:
                end = data.find(b"\n", at) + 1
                self._part += data[at : end or len(data)]
                at = end or len(data)
                if end and self._ends_message():
                    break
            elif small := _SMALL_CHUNKS.match(data, at):
                at = small.end()
            elif chunk := _CHUNK.match(data, at):
                at = chunk.end()
                self._begin_chunk(chunk[1])
            else:
                self._part += data[at : at + 1]
                at += 1
        return at

    def _ends_message(self) -> bool:
        line, self._part = self._part, bytearray()
        if self._stands is _Stands.IN_TRAILERS:
            return line == _EMPTY_LINE
        chunk = _CHUNK.match(line)
        # If it is none, the parser refuses it.
        self._begin_chunk(chunk[1] if chunk else b"0")
        return False

    def _begin_chunk(self, size: bytes) -> None:
        length = int(size, 16)
        self._left = length + len(_EMPTY_LINE) if length else 0
        if not length:
            self._stands = _Stands.IN_TRAILERS
