"""Where messages begin and end in the received bytes, and how much of them is not body.

The parser accepts request lines that other servers read otherwise, and doesn't say so. So the bytes are cut at the end
of each head and each message, and each request line must have its exact form (RFC 9112, 3). The parser judges
everything else. If it finds the beginning of a message where there was no cut, the message is refused.
"""

import re
from enum import Enum, auto

from app.rest.http.bounds import MAX_CHUNK_OVERHEAD, MAX_HEAD_BYTES

is_request_line = re.compile(rb"[!-~]+ [!-~]+ HTTP/1\.[01]\r\n").fullmatch
_EMPTY_LINES = re.compile(rb"(?:\r\n)*+")
_CHUNK = re.compile(rb"([0-9A-Fa-f]{1,16})(?:;[^\r\n]*+)?\r\n")
_SMALL_CHUNKS = re.compile(
    rb"(?:0*+(?:%b))++"
    % b"|".join(rb"(?:%x|%X)(?:;[^\r\n]*+)?\r\n(?s:.{%d})\r\n" % (size, size, size) for size in range(1, 16))
)
"""Thousands may come in one segment: a Python step for each would take the event loop tens of milliseconds."""
_EMPTY_LINE = b"\r\n"
_END = b"\r\n\r\n"


class BadLineError(Exception):
    """Something else is where a request line should be."""


class HeadTooLargeError(Exception):
    """More than MAX_HEAD_BYTES of a message are head or trailers."""


class _State(Enum):
    BEFORE_MESSAGE = auto()
    IN_LINE = auto()
    IN_HEAD = auto()
    IN_BODY = auto()
    IN_CHUNKS = auto()
    IN_TRAILERS = auto()


class Framing:
    """Follows the messages of one connection."""

    def __init__(self) -> None:
        self.carry = b""
        """A CR before a message, whose LF has not come yet."""
        self.line = bytearray()
        """The request line, as far as it has arrived."""
        self._state = _State.BEFORE_MESSAGE
        self._may_begin = False
        self._tail = b""
        """The last three bytes of the head so far."""
        self._left = 0
        """How many bytes of the body, or of the chunk with its line end, have not come yet."""
        self._part = bytearray()
        """A line between chunks or among trailers, as far as it has come."""
        self._head_bytes = 0
        """The bytes of head and trailers so far."""
        self._chunked_bytes = 0
        """The bytes of chunks so far, with everything around them."""
        self._body_bytes = 0

    # what the parser finds

    def begin_message(self) -> bool:
        may, self._may_begin = self._may_begin, False
        return may

    def repeat_head(self) -> None:
        """The parser will be given the head of this message once more."""
        self._may_begin = True

    def end_head(self, length: int | None) -> None:
        """`length` is the length of the body; None if it comes in chunks."""
        self._state = _State.IN_CHUNKS if length is None else _State.IN_BODY
        self._left = length or 0
        self._chunked_bytes = self._body_bytes = 0

    def add_body(self, size: int) -> None:
        self._body_bytes += size

    def end_message(self) -> None:
        self._state = _State.BEFORE_MESSAGE

    def has_large_chunks(self) -> bool:
        """Whether there is too much around the chunks of a message that is not complete."""
        if self._state not in (_State.IN_CHUNKS, _State.IN_TRAILERS):
            return False
        return self._chunked_bytes - self._body_bytes > MAX_HEAD_BYTES + MAX_CHUNK_OVERHEAD * self._body_bytes

    # cuts

    def skip(self, data: bytes, at: int) -> int:
        """Where a message begins or goes on, from `at` on: empty lines before it are ignored (RFC 9112, 2.2)."""
        if self._state is not _State.BEFORE_MESSAGE:
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
            self._state, self._may_begin = _State.IN_LINE, True
            self._tail, self.line, self._head_bytes = b"", bytearray(), 0
        return at

    def end(self, data: bytes, at: int) -> int:
        """Where the piece that begins at `at` ends: at the end of a head, of a message or of the data.

        Raises BadLineError, HeadTooLargeError.
        """
        if self._state is _State.IN_LINE:
            self._read_line(data, at)
        if self._state in (_State.IN_LINE, _State.IN_HEAD):
            end = self._end_of_head(data, at)
            self._count_head(end - at)
        elif self._state is _State.IN_BODY:
            end = self._through(data, at)
        else:
            end = self._end_of_chunks(data, at)
            self._chunked_bytes += end - at
        return end

    def _count_head(self, size: int) -> None:
        self._head_bytes += size
        if self._head_bytes > MAX_HEAD_BYTES:
            raise HeadTooLargeError

    def _read_line(self, data: bytes, at: int) -> None:
        end = data.find(b"\n", at) + 1
        self.line += data[at : end or len(data)]
        if end:
            if not is_request_line(self.line):
                raise BadLineError
            self._state = _State.IN_HEAD

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
            elif self._part or self._state is _State.IN_TRAILERS:
                end = data.find(b"\n", at) + 1 or len(data)
                self._part += data[at:end]
                if self._state is _State.IN_TRAILERS:
                    self._count_head(end - at)
                at = end
                if self._part.endswith(b"\n") and self._ends_message():
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
        if self._state is _State.IN_TRAILERS:
            return line == _EMPTY_LINE
        chunk = _CHUNK.match(line)
        # If it is not a chunk's line, the parser refuses it.
        self._begin_chunk(chunk[1] if chunk else b"0")
        return False

    def _begin_chunk(self, size: bytes) -> None:
        length = int(size, 16)
        self._left = length + len(_EMPTY_LINE) if length else 0
        if not length:
            self._state = _State.IN_TRAILERS
