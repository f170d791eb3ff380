"""Static bearer tokens, from a file of their hashes that is followed as it changes."""

import asyncio
import hmac
import logging
import time
from collections.abc import Mapping
from pathlib import Path

from app.formats.command_errors import UsageError
from app.metrics.declared import Metrics
from app.rest.callers.roles import Caller
from app.rest.callers.token_file import hash_of, read_tokens

_LOOK_TIMEOUT_S = 2.0
_REST_S = 0.02
_SETTLES_S = 2.0
"""A younger file may change again with the same size and times, which are coarse."""

_log = logging.getLogger(__name__)


class StaticTokens:
    """The tokens of callers. `generation` rises whenever they change.

    Raises UsageError if the file can't be used at the start; later, the last good content stays in force.
    """

    def __init__(self, path: Path, callers: Mapping[str, Caller], metrics: Metrics) -> None:
        self.generation = 0
        self._path = path
        self._callers = callers
        self._metrics = metrics
        self._watched = WatchedFile(path)
        self._watched.changed(time.time())
        self._unread = False
        """Whether the file may have changed since it was last read to its end."""
        self._looking = asyncio.Lock()
        self._looked_at = 0.0
        self._fault = ""
        self._by_hash = self._read()

    async def bearer_of(self, token: bytes) -> Caller | None:
        hashed = hash_of(token)
        caller = self._bearer_of(hashed)
        if caller is None:
            await self.look()
            caller = self._bearer_of(hashed)
        return caller

    async def look(self) -> None:
        """Looks at the file; concurrent calls share one look."""
        asked_at = time.monotonic()
        async with self._looking:
            if self._looked_at >= asked_at:
                return
            self._looked_at = time.monotonic()
            try:
                async with asyncio.timeout(_LOOK_TIMEOUT_S):
                    await self._look()
            except (UsageError, TimeoutError) as error:
                # A broken file must not lock everyone out, and the operator must hear of it.
                self._note(str(error) or f"reading `{self._path}` takes too long")
            # A flood of unknown tokens causes no more looks than this allows.
            await asyncio.sleep(_REST_S)

    def _bearer_of(self, hashed: bytes) -> Caller | None:
        found = None
        for known, caller in self._by_hash.items():
            # All of them, each in constant time.
            if hmac.compare_digest(known, hashed):
                found = caller
        return found

    async def _look(self) -> None:
        # INVARIANT: a change that could not be read is tried again, as it may remove a token.
        was_unread, self._unread = self._unread, True
        if await asyncio.to_thread(self._watched.changed, time.time()) or was_unread:
            await self._take()
        self._unread = False

    async def _take(self) -> None:
        by_hash = await asyncio.to_thread(self._read)
        self._fault = ""
        if by_hash != self._by_hash:
            self._by_hash = by_hash
            self.generation += 1
            _log.info("tokens_file_read", extra={"tokens": len(by_hash)})

    def _read(self) -> dict[bytes, Caller]:
        return {hashed: self._callers[name] for hashed, name in read_tokens(self._path, self._callers).items()}

    def _note(self, fault: str) -> None:
        # The same fault is found at each look.
        if fault != self._fault:
            self._fault = fault
            self._metrics.tokens_file_faults += 1
            _log.error("tokens_file_not_usable", extra={"why": fault})


class WatchedFile:
    """A file that may be overwritten, replaced, or swapped by a symbolic link (Kubernetes)."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._seen: tuple[int, ...] | None = None

    def changed(self, now: float) -> bool:
        """Whether it may have changed since the last call; true for the first one. This blocks.

        `now` is in seconds since 1970, read before.
        """
        try:
            status = self._path.stat()
        except OSError:
            mark: tuple[int, ...] = ()
        else:
            mark = status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns
        if mark == self._seen:
            return False
        settled = not mark or now - mark[-1] / 1e9 > _SETTLES_S
        self._seen = mark if settled else None
        return True
