"""Keeps the replica's image in a file: a recording of its own watch stream, so no decision waits for a disk.

A snapshot goes into a new file, which replaces the old one once it is whole and the source was seen since. The
transactions follow in it. When there are many, or the image was replaced, a new file begins.
"""

import asyncio
import logging
from collections.abc import Sequence
from contextlib import aclosing
from datetime import UTC, datetime

from app.core.backoff import Backoff
from app.core.kafka.errors import ApiException
from app.formats.feed_events import Bookmark, End, decode, encode
from app.formats.feed_seals import Seals, header_line
from app.metrics.declared import Metrics
from app.runtime.deadlines import stop
from app.runtime.options import RuntimeOptions, StateOptions
from app.runtime.state.files import NewImage, StateFolder
from app.runtime.watch.lines import Line
from app.runtime.watch.reader import WatchRequest, watch
from app.runtime.watch.watchers import Watchers

_LOOK_S = 1.0
_FIRST_BACKOFF_S, _LONGEST_BACKOFF_S = 1.0, 60.0
_AT_ONCE_BYTES = 1024 * 1024
_LONGEST_TRANSACTION = 1024 * 1024
"""In bytes. Reading a longer one would hold up the loop, so a new snapshot brings it."""
_SEEN_AGAIN_S = 0.01

_log = logging.getLogger(__name__)


class StateKeeper:
    def __init__(self, watchers: Watchers, state: StateOptions, metrics: Metrics) -> None:
        self._watchers = watchers
        self._state = state
        self._folder = StateFolder(state.path)
        self._metrics = metrics
        self._clock = watchers.options.clock.monotonic
        self._backoff = Backoff(_FIRST_BACKOFF_S, _LONGEST_BACKOFF_S, watchers.options.clock.jitter)
        self._is_in_trouble = False
        self._task: asyncio.Task[None] | None = None

    def open(self) -> None:
        self._task = asyncio.create_task(self._run(), name="klamm-state")

    async def close(self) -> None:
        if self._task is not None:
            await stop(self._task)
        self._folder.unlock_writer()

    async def _run(self) -> None:
        while not self._watchers.draining:
            try:
                rest_s = await self._keep() if self._may_begin() else _LOOK_S
            except ApiException:
                # Too many others are being sent snapshots, or the image has just been dropped.
                rest_s = self._backoff.next_s()
            except OSError as fault:
                rest_s = self._fault(fault)
            except Exception as fault:  # noqa: BLE001 - logged with its cause; the task lives on
                if not self._is_in_trouble:
                    _log.exception("state_keeper_failed")
                rest_s = self._fault(fault)
            await asyncio.sleep(rest_s)

    def _may_begin(self) -> bool:
        """True once the source has been seen, in one process of the service. Raises OSError."""
        if self._watchers.image is None or self._watchers.readiness.is_from_state_file:
            return False
        return self._folder.lock_writer()

    async def _keep(self) -> float:
        """Writes one file, from its snapshot to the last transaction in it. Returns the rest that is due, in seconds.

        Raises OSError, ApiException.
        """
        began_at, next_at = self._clock(), 0.0
        request = WatchRequest(
            after=None,
            acl_filter=None,
            bookmark_s=self._state.bookmark_s,
            may_watch=_anybody_may,
            with_epochs=True,
            is_own=True,
        )
        recording = _Recording(await asyncio.to_thread(self._folder.begin), self._state, self._watchers.options)
        try:
            async with aclosing(watch(self._watchers, request)) as batches:
                async for lines in batches:
                    goes_on = await recording.take(lines)
                    if recording.is_shown:
                        self._metrics.state_file_bytes = recording.size
                        self._metrics.state_file_timestamp_seconds = recording.equal_at
                        if not next_at:
                            next_at = self._next_at(began_at)
                            self._shown(recording)
                    if not goes_on or (recording.is_long and next_at and self._clock() >= next_at):
                        break
        finally:
            await asyncio.to_thread(recording.close)
        if recording.is_replaced:
            # What the file holds may be a history that the source has lost.
            return self._state.rest_s
        return max(0.0, (next_at or self._next_at(began_at)) - self._clock())

    def _next_at(self, began_at: float) -> float:
        """When the next snapshot may begin, at the end of one: each takes time that decisions could have."""
        took_s = self._clock() - began_at
        return self._clock() + max(self._state.rest_s, self._state.rest_for_each * took_s)

    def _shown(self, recording: "_Recording") -> None:
        self._is_in_trouble = False
        self._backoff.reset()
        _log.info("state_file_written", extra={"file": self._folder.image, "bytes": recording.size})

    def _fault(self, fault: Exception) -> float:
        self._metrics.state_file_faults += 1
        if not self._is_in_trouble:
            extra = {"file": self._folder.image, "why": str(fault)}
            _log.warning("state_file_not_written", extra=extra)
        self._is_in_trouble = True
        return self._backoff.next_s()


class _Recording:
    """What the stream sends, in one file; a seal follows whatever is written behind the snapshot."""

    def __init__(self, file: NewImage, state: StateOptions, options: RuntimeOptions) -> None:
        self.is_shown = False
        self.is_replaced = False
        """Whether it ended because the replica has loaded another image."""
        self.equal_at = 0.0
        """When the file's state was last known to be the source's, by the wall clock."""
        self._file = file
        self._state = state
        self._clock = options.clock
        self._seals = Seals(state.key)
        self._lines: list[bytes] = []
        self._bytes = 0
        self._is_synced = False
        self._seen_at = float("-inf")
        self._snapshot_bytes = 0
        self._put(header_line(state.origin))

    @property
    def size(self) -> int:
        return self._file.size

    @property
    def is_long(self) -> bool:
        tail = self._file.size - self._snapshot_bytes
        return self.is_shown and tail > max(self._state.least_tail_bytes, self._snapshot_bytes // 8)

    async def take(self, lines: Sequence[Line]) -> bool:
        """Whether the recording goes on. Raises OSError."""
        goes_on, is_seen = True, False
        for line in lines:
            goes_on = line.event != "end" and (line.event != "transaction" or len(line.json) <= _LONGEST_TRANSACTION)
            if not goes_on:
                event = decode(line.json) if line.event == "end" else None
                self.is_replaced = isinstance(event, End) and event.reason == "reload"
                break
            if line.event == "bookmark":
                is_seen = self._take_bookmark(line.json) or is_seen
            else:
                self._is_synced = self._is_synced or line.event == "synced"
                self._put(line.json)
        if not self._is_synced and self._bytes >= _AT_ONCE_BYTES:
            await asyncio.to_thread(self._write, is_sealed=False, is_seen=False)
        elif is_seen or (self.is_shown and self._lines):
            await asyncio.to_thread(self._write, is_sealed=True, is_seen=is_seen)
            if not self.is_shown:
                self.is_shown, self._snapshot_bytes = True, self._file.size
        return goes_on

    def close(self) -> None:
        self._file.close()

    def _put(self, line: bytes) -> None:
        self._lines += (line, b"\n")
        self._bytes += len(line) + 1

    def _take_bookmark(self, line: bytes) -> bool:
        """Whether the bookmark says that the source was seen since the last one; else it is left out."""
        event = decode(line)
        if not isinstance(event, Bookmark):
            return False
        seen_at, now = self._clock.monotonic() - event.age_ms / 1000, self._clock.wall()
        if seen_at < self._seen_at + _SEEN_AGAIN_S:
            return False
        self._seen_at, self.equal_at = seen_at, now - event.age_ms / 1000
        event.at = datetime.fromtimestamp(now, UTC)
        self._put(encode(event))
        return True

    def _write(self, *, is_sealed: bool, is_seen: bool) -> None:
        lines = b"".join(self._lines)
        self._lines, self._bytes = [], 0
        self._seals.cover(lines)
        self._file.append(lines + self._seals.next() if is_sealed else lines)
        if not is_seen:
            return
        # A power failure costs what came since the last bookmark.
        if self.is_shown:
            self._file.sync()
        else:
            self._file.show()


async def _anybody_may() -> None: ...
