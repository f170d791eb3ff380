"""Seals in a file of the feed's events: each covers every byte before it (docs/feed.md).

So a file that is written to its end at any time, or cut anywhere, says how far it is whole; and with a key nobody else
can have written it.
"""

import hmac
from collections.abc import Iterator
from hashlib import sha256
from typing import IO, Protocol

from app.formats.feed_events import MAX_LINE_BYTES, NoEventError

MIN_KEY_BYTES, MAX_KEY_BYTES = 32, 4096

_SEAL = b'{"type":"seal",'


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


def sealed_lines(stream: IO[bytes], key: bytes | None) -> Iterator[tuple[int, bytes | None]]:
    """The lines of a file, each with the offset of its end in bytes; None stands for a seal that holds.

    What no seal follows is not whole. Raises NoEventError at the first seal that doesn't hold.
    """
    seals, end = Seals(key), 0
    while (line := stream.readline(MAX_LINE_BYTES)).endswith(b"\n"):
        end += len(line)
        if line.startswith(_SEAL):
            seals.check(line)
            yield end, None
        else:
            seals.cover(line)
            yield end, line
