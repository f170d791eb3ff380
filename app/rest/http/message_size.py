"""How much of a message is not its body: its head, its trailers, and what stands between the chunks of its body."""

from typing import NamedTuple

MAX_HEAD_BYTES = 16 * 1024
MAX_HEAD_LINES = 100
_MAX_CHUNK_OVERHEAD = 8
"""Bytes that say how long a chunk is, for each byte in it: a chunk of one byte has five."""


class Mark(NamedTuple):
    """Where the parser stood."""

    message: int
    in_head: bool
    between: bool


class MessageSize:
    """What has come of the message that the parser stands in.

    The parser tells of whole headers only and not where in a segment it found them; so the segments are counted, too.
    """

    def __init__(self) -> None:
        self._message = 0
        self._said = 0
        """Of the head and the trailers, as far as the parser has told of them."""
        self._sent = 0
        """Of the head as far as it has come; later, of chunks with all that stands between them."""
        self._body = 0

    def begin(self) -> None:
        """A message begins."""
        self._message += 1
        self._said = 0

    def end_head(self) -> None:
        """Its head is complete."""
        self._sent = self._body = 0

    def add_body(self, size: int) -> None:
        """So much of its body has come."""
        self._body += size

    def may_say(self, size: int) -> bool:
        """Whether the parser may tell of so many bytes more."""
        self._said += size
        return self._said <= MAX_HEAD_BYTES

    def mark(self, *, in_head: bool, between: bool) -> Mark:
        """Where the parser stands before it gets a segment."""
        return Mark(self._message, in_head, between)

    def is_exceeded(self, before: Mark, segment: int, *, in_head: bool) -> bool:
        """Whether too much has come with this segment, after which the parser stands within a message."""
        if self._message == before.message:
            self._sent += segment if in_head == before.in_head else 0
        else:
            # How much of it belongs to the head of the last of several messages is not known.
            only = before.between and in_head and self._message == before.message + 1
            self._sent = segment if only else 0
        if in_head:
            return self._sent > MAX_HEAD_BYTES
        return self._sent - self._body > MAX_HEAD_BYTES + _MAX_CHUNK_OVERHEAD * self._body
