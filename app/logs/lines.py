"""Logs whose lines a separate thread makes and writes: the event loop pays for one append and waits for no disk."""

import random
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterable
from functools import lru_cache
from queue import Empty, SimpleQueue
from threading import Event, Thread
from typing import ClassVar, Generic, TypeVar

from app.core.backoff import Backoff

REPEATED_BYTES = 1024
"""What a request's lines have in common is repeated in each only if it takes no more bytes than this."""

MAX_LINES = 100

_MAX_BYTES = 64 * 1024
"""Once this much is to be written at once, no further request is added to it."""

# If the thread kept the interpreter, the event loop would wait 5 ms for it each time.
_BREATH_S = 0.0002
_FIRST_RETRY_S, _LAST_RETRY_S = 0.5, 30.0
_TOLD_EVERY_S = 60.0

Request = TypeVar("Request")


class OncePerMinute:
    def __init__(self) -> None:
        self._next = float("-inf")

    def is_due(self, now: float) -> bool:
        """`now` is in seconds, on a clock that never goes back."""
        if now < self._next:
            return False
        self._next = now + _TOLD_EVERY_S
        return True


class LineLog(ABC, Generic[Request]):
    """Takes requests, each of which becomes some lines, on the event loop; writes them from a daemon thread.

    At most `capacity` bytes wait. A request that finds no room is dropped whole, and so is one that comes after the
    close. A subclass says how lines read, where they go, and what is counted.
    """

    retries: ClassVar[bool]
    """Whether lines that can't be written wait for the next attempt; else they are lost."""

    def __init__(self, name: str, *, capacity: int, linger_s: float) -> None:
        self._capacity = capacity
        self._linger_s = linger_s
        self._queue: SimpleQueue[tuple[float, Request, int, int] | None] = SimpleQueue()
        """Time, request, its number of lines, and the bytes that they take at most; None wakes the thread."""
        self._pending: deque[tuple[float, Request, int, int]] = deque()
        self._lines_through = 0
        """How many lines of the first pending request are already written."""
        self._closing = Event()
        self._backoff = Backoff(_FIRST_RETRY_S, _LAST_RETRY_S, random.uniform)
        self._failing = self._failure_told = False
        self._may_tell = OncePerMinute()
        self._thread = Thread(target=self._run, name=name, daemon=True)
        # INVARIANT: each counter has one writer (event loop, thread), so the difference needs no lock.
        self._size_in = 0
        self._size_out = 0

    def start(self) -> None:
        self._thread.start()

    def close(self, timeout_s: float = 5.0) -> bool:
        """Writes what waits, and stops. Returns whether that was done in time. It blocks: not for the event loop."""
        self._closing.set()
        self._queue.put(None)
        if self._thread.is_alive():
            self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _put(self, request: Request, lines: int, size: int) -> None:
        if self._closing.is_set() or self._size_in - self._size_out + size > self._capacity:
            self._count_dropped(lines)
            return
        self._size_in += size
        self._queue.put((time.time(), request, lines, size))

    @abstractmethod
    def _lines_of(self, time_s: float, request: Request, part: slice) -> Iterable[str]: ...

    @abstractmethod
    def _write(self, text: str) -> None: ...

    def _tidy(self) -> None:
        """Called when lines are written, and whenever `_tidy_s` has passed."""

    def _tidy_s(self) -> float | None:
        """Seconds until there is something to tidy; None means not before the next line."""
        return None

    def _finish(self) -> None: ...

    @abstractmethod
    def _count_written(self, lines: int) -> None: ...

    @abstractmethod
    def _count_dropped(self, lines: int) -> None:
        """Lines found no room; the event loop calls this."""

    @abstractmethod
    def _count_lost(self, lines: int) -> None: ...

    @abstractmethod
    def _on_failure(self, fault: Exception, *, is_news: bool) -> None:
        """An attempt to write or tidy has failed; `is_news` is true once for each outage, and once a minute."""

    @abstractmethod
    def _on_recovery(self) -> None: ...

    def _run(self) -> None:
        while not self._closing.is_set():
            self._flush()
            self._gather()
        self._collect()
        self._flush(last=True)
        while self._pending and not self.retries:
            self._flush(last=True)
        lost = sum(lines for _, _, lines, _ in self._pending) - self._lines_through
        if lost:
            self._count_lost(lost)

    def _gather(self) -> None:
        if not self._pending:
            try:
                item = self._queue.get(timeout=self._tidy_s())
            except Empty:
                return
            if item is None:
                return
            self._pending.append(item)
            # Under load, lines that come within the linger share one wake-up.
            self._closing.wait(self._linger_s)
        self._collect()

    def _collect(self) -> None:
        while True:
            try:
                item = self._queue.get_nowait()
            except Empty:
                return
            if item is not None:
                self._pending.append(item)

    def _flush(self, *, last: bool = False) -> None:
        # Losing lines is no attempt to write: only other lines can show that it works again.
        shows_recovery = self.retries or bool(self._pending)
        try:
            while self._pending:
                self._write_some()
                self._tidy()
                time.sleep(_BREATH_S)
            if last:
                self._finish()
            self._tidy()
        except Exception as fault:  # noqa: BLE001 - whatever the disk raises, the thread has to live on
            self._failed(fault)
        else:
            if shows_recovery:
                self._recovered()

    def _write_some(self) -> None:
        texts: list[str] = []
        room, at, through, freed = MAX_LINES, self._lines_through, 0, 0
        try:
            for time_s, request, lines, size in self._pending:
                part = slice(at, min(lines, at + room))
                room -= part.stop - at
                if part.stop < lines:
                    at = part.stop
                else:
                    at, through, freed = 0, through + 1, freed + size
                texts.extend(self._lines_of(time_s, request, part))
                if at or not room or freed >= _MAX_BYTES:
                    break
            if texts:
                self._write("".join(texts))
        except Exception:
            if not self.retries:
                self._count_lost(MAX_LINES - room)
                self._let_go(through, freed, at)
            raise
        self._count_written(MAX_LINES - room)
        self._let_go(through, freed, at)

    def _let_go(self, requests: int, size: int, lines_through: int) -> None:
        for _ in range(requests):
            self._pending.popleft()
        self._size_out += size
        self._lines_through = lines_through

    def _failed(self, fault: Exception) -> None:
        self._failing = True
        is_news = self._may_tell.is_due(time.monotonic())
        self._failure_told |= is_news
        self._on_failure(fault, is_news=is_news)
        if self.retries:
            self._closing.wait(self._backoff.next_s())

    def _recovered(self) -> None:
        if not self._failing:
            return
        if self._failure_told:
            self._on_recovery()
        self._failing = self._failure_told = False
        self._backoff.reset()


@lru_cache(maxsize=4)
def json_stamp(seconds: int) -> str:
    return time.strftime('{"time":"%Y-%m-%dT%H:%M:%S.', time.gmtime(seconds))
