"""Readers of watch: a process with so many streams open, which notes when each change has come to the last of them."""

import multiprocessing
import resource
import select
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from multiprocessing.connection import Connection
from time import monotonic
from typing import NamedTuple

from tests.bench.load import connect

_WATCH = "GET /v1/watch?after=%s&bookmark_ms=5000 HTTP/1.1\r\nHost: localhost\r\nKlamm-Epochs: 1\r\n\r\n"
_LAST_OFFSET = b'"last_offset":'
_CONNECT_S = 60.0
_TICK_S = 0.05


class Seen(NamedTuple):
    """What all the streams have brought."""

    arrivals: Mapping[int, float]
    """By offset: when the last reader had it, on the clock of `time.monotonic`."""
    readers: Mapping[int, int]
    """By offset: how many have had it."""
    ended: int
    """Streams that the service has ended."""
    received_bytes: int


class Readers:
    """`end` tells what they have seen, and closes their streams."""

    def __init__(self, pipe: Connection) -> None:
        self._pipe = pipe

    def end(self, through: int, within_s: float) -> Seen:
        """Once all that are still there have had this offset, or the time is over."""
        self._pipe.send((through, within_s))
        seen = self._pipe.recv()
        assert isinstance(seen, Seen)
        return seen


@contextmanager
def readers(port: int, count: int, token: str) -> Iterator[Readers]:
    """So many, each behind this token, once all streams are open."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_read, args=(port, count, token, theirs), daemon=True)
    process.start()
    try:
        if not ours.poll(_CONNECT_S):
            raise TimeoutError(f"{count} streams are not open within {_CONNECT_S:g} s")
        ours.recv()
        yield Readers(ours)
    finally:
        process.terminate()
        process.join()


def _read(port: int, count: int, token: str, pipe: Connection) -> None:
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 65_536) if hard > 0 else 65_536, hard))
    at = int(token.rpartition(":")[2])
    streams: dict[int, socket.socket] = {}
    with select.epoll() as ready:
        for _ in range(count):
            stream = connect(port)
            stream.sendall((_WATCH % token).encode())
            streams[stream.fileno()] = stream
        for stream in streams.values():
            # Its head, and perhaps the first bookmark.
            if not stream.recv(65_536).startswith(b"HTTP/1.1 200"):
                raise ConnectionError("a stream is refused")
            stream.settimeout(0)
            ready.register(stream.fileno(), select.EPOLLIN)
        pipe.send("all are open")
        pipe.send(_Reading(streams, ready, at).until_told(pipe))


class _Reading:
    def __init__(self, streams: dict[int, socket.socket], ready: select.epoll, at: int) -> None:
        self._streams = streams
        self._ready = ready
        self._at = dict.fromkeys(streams, at)
        self._arrivals: dict[int, float] = {}
        self._readers: dict[int, int] = {}
        self._ended = self._bytes = 0
        self._buffer = bytearray(1 << 20)

    def until_told(self, pipe: Connection) -> Seen:
        ends_at, through = None, 0
        while ends_at is None or (monotonic() < ends_at and min(self._at.values(), default=through) < through):
            for file, _ in self._ready.poll(_TICK_S):
                self._take(file)
            if ends_at is None and pipe.poll():
                through, within_s = pipe.recv()
                ends_at = monotonic() + within_s
        return Seen(self._arrivals, self._readers, self._ended, self._bytes)

    def _take(self, file: int) -> None:
        size = self._streams[file].recv_into(self._buffer)
        if not size:
            self._ready.unregister(file)
            self._streams.pop(file).close()
            del self._at[file]
            self._ended += 1
            return
        self._bytes += size
        found = self._buffer.rfind(_LAST_OFFSET, 0, size)
        digits = self._buffer[found + len(_LAST_OFFSET) : min(size, found + 32)].partition(b",")
        if found < 0 or not digits[1]:
            return
        now, last = monotonic(), int(digits[0])
        for offset in range(self._at[file] + 1, last + 1):
            self._arrivals[offset] = now
            self._readers[offset] = self._readers.get(offset, 0) + 1
        self._at[file] = last
