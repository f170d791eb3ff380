"""The lines that only a state file has: its header, and its seals, each over every byte before it (docs/feed.md).

So a file that is written to its end at any time, or cut anywhere, says how far it is whole; and with a key nobody else
can have written it.
"""

import hmac
from collections.abc import Callable
from hashlib import sha256
from typing import IO, Protocol

import msgspec

from app.formats.feed_events import MAX_LINE_BYTES, NoEventError, encode

MIN_KEY_BYTES, MAX_KEY_BYTES = 32, 4096
VERSION = 2
"""Of the files that are written. Those of version 1 have no header."""

_HEADER = b'{"type":"state",'
_SEAL = b'{"type":"seal",'


class StateHeader(msgspec.Struct, tag_field="type", tag="state"):
    """The first line. `origin` holds a digest for each address of the source; any one of them tells the source."""

    version: int
    origin: list[str]


_decode_header: Callable[[bytes], StateHeader] = msgspec.json.Decoder(StateHeader).decode


def header_line(origin: frozenset[str]) -> bytes:
    return encode(StateHeader(VERSION, sorted(origin)))


def header_in(line: bytes) -> StateHeader | None:
    """None for a line of another type. Raises NoEventError."""
    if not line.startswith(_HEADER):
        return None
    try:
        return _decode_header(line)
    except (msgspec.DecodeError, UnicodeDecodeError) as fault:
        raise NoEventError(f"its first line is not a header: {fault}") from None


class _Sum(Protocol):
    def update(self, data: bytes, /) -> None: ...
    def hexdigest(self) -> str: ...


class Seals:
    """Of one file, from its first byte on: HMAC-SHA-256 with a key, else SHA-256."""

    def __init__(self, key: bytes | None) -> None:
        self._name = "sha256" if key is None else "hmac_sha256"
        self._sum: _Sum = sha256() if key is None else hmac.new(key, digestmod=sha256)

    def cover(self, lines: bytes) -> None:
        self._sum.update(lines)

    def next(self) -> bytes:
        """The line that seals what is covered; it is covered by those that follow."""
        line = b'%b"%b":"%b"}\n' % (_SEAL, self._name.encode(), self._sum.hexdigest().encode())
        self._sum.update(line)
        return line

    def check(self, line: bytes) -> None:
        """Whether a seal is the one that comes next. Raises NoEventError."""
        expected = self.next()
        if hmac.compare_digest(line, expected):
            return
        if line.partition(b":")[2].partition(b":")[0] == expected.partition(b":")[2].partition(b":")[0]:
            raise NoEventError("a seal is not valid: something before it was changed, or it was made with another key")
        raise NoEventError("it is sealed with a key though none is set, or without a key though one is set")


class SealedLines:
    """The lines of a file, read once, in order.

    INVARIANT: what a seal proves are the bytes that were handed out before it, not what the file holds by then: who
    may write the file can change it at any time.
    """

    def __init__(self, stream: IO[bytes], key: bytes | None) -> None:
        self._stream = stream
        self._seals = Seals(key)
        self._is_over = False

    def read(self, at_least: int) -> list[bytes | None]:
        """Lines of so many bytes or a few more, none once the file is over. None stands for a seal that holds.

        What no seal follows is not whole. Raises NoEventError at the first seal that doesn't hold.
        """
        lines: list[bytes | None] = []
        size = 0
        while size < at_least and not self._is_over:
            line = self._stream.readline(MAX_LINE_BYTES)
            if not line.endswith(b"\n"):
                # Its rest may be written by the next call, but then this is no line any more.
                self._is_over = True
                break
            size += len(line)
            if line.startswith(_SEAL):
                self._seals.check(line)
                lines.append(None)
            else:
                self._seals.cover(line)
                lines.append(line)
        return lines
