"""A first image from the state file, while the source is away.

Two passes over the file: the first proves by its seals how far it is whole and finds out how old it is, the second
builds the image, which checks digest and chain as if it came from the source.
"""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from threading import Thread
from typing import IO

import msgspec

from app.core.image import AuthorizerImage
from app.core.kafka.bindings import AclSlice
from app.core.kafka.configs import AuthorizerConfig
from app.core.kafka.errors import ApiException, PoisonedRecordException
from app.core.records import FeedHead, Record
from app.core.token import Token
from app.formats.feed_events import Acls, Bookmark, Configs, Event, NoEventError, Snapshot, Synced, Transaction, decode
from app.formats.feed_seals import sealed_lines
from app.formats.feed_values import chained_records, digest_of, slice_of
from app.metrics.declared import Metrics
from app.runtime.applying import apply_in_steps
from app.runtime.deadlines import bounded
from app.runtime.options import StateOptions
from app.runtime.pace import Pace, each_paced, run_through
from app.runtime.snapshot import load_image
from app.runtime.state.files import NotOursError, StateFolder

_PART_S, _SURVEY_S = 10.0, 60.0
_AT_ONCE_BYTES = 512 * 1024

_Part = AclSlice | Synced | Bookmark | list[Record]
_NO_DISK = "the disk does not answer"

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Restored:
    image: AuthorizerImage
    age_s: float
    """How long ago it was last known to equal the source's head."""


class _UnfitError(Exception):
    """The file may be intact, but can't be used here and now."""


@dataclass(frozen=True, slots=True)
class _Found:
    """What the first pass has found."""

    head: FeedHead
    configs: dict[str, str]
    end: int
    """Where the last seal ends."""
    at: datetime
    """When it says that it was last written, by the wall clock."""
    age_s: float
    """How long before that it was last known to be the source's state."""


async def restore(state: StateOptions, startup: AuthorizerConfig, metrics: Metrics) -> Restored | None:
    """None if there is no file that can be used, which the log says. A file that is damaged is set aside."""
    folder = StateFolder(state.path)
    try:
        stream = await bounded(asyncio.to_thread(folder.open_image, has_key=state.key is not None), _PART_S)
    except FileNotFoundError:
        _log.info("state_file_missing", extra={"file": folder.image})
        return None
    except (NotOursError, OSError) as fault:
        _refused(folder, metrics, str(fault) or _NO_DISK)
        return None
    try:
        restored = await _restored(stream, state, startup, metrics)
    except TimeoutError:
        # Closing it may wait for the disk as well.
        Thread(target=stream.close, daemon=True).start()
        _refused(folder, metrics, _NO_DISK)
        return None
    except (_UnfitError, OSError) as fault:
        _refused(folder, metrics, str(fault))
        restored = None
    except (NoEventError, PoisonedRecordException, ApiException) as fault:
        is_aside = await asyncio.to_thread(_set_aside, folder, stream)
        _refused(folder, metrics, str(fault), aside=is_aside)
        restored = None
    stream.close()
    return restored


def _refused(folder: StateFolder, metrics: Metrics, why: str, *, aside: bool = False) -> None:
    metrics.state_file_refusals += 1
    extra = {"file": folder.image, "why": why, "set_aside_as": folder.refused if aside else None}
    _log.warning("state_file_refused", extra=extra)


def _set_aside(folder: StateFolder, stream: IO[bytes]) -> bool:
    try:
        return folder.set_aside(stream)
    except OSError:
        return False
    finally:
        folder.unlock_writer()


async def _restored(stream: IO[bytes], state: StateOptions, startup: AuthorizerConfig, metrics: Metrics) -> Restored:
    found = await bounded(asyncio.to_thread(_survey, stream, state.key), _SURVEY_S)
    age_s = _checked_age(found, state)
    if state.cluster_id not in (None, found.head.cluster_id):
        raise _UnfitError(
            f"it belongs to the cluster `{found.head.cluster_id}`, but cluster.id is `{state.cluster_id}`"
        )
    stream.seek(0)
    file = _StateFile(stream, found)
    image = await load_image(file, startup, _PART_S, metrics)
    try:
        return Restored(await file.followed(image), age_s)
    except BaseException:
        await run_through(image.index.dismantle())
        raise


def _checked_age(found: _Found, state: StateOptions) -> float:
    age_s, at = state.wall_clock() - found.at.timestamp() + found.age_s, found.at.isoformat(timespec="seconds")
    if age_s < -state.clocks_differ_s:
        raise _UnfitError(f"it says that it was written at {at}, which is in the future by this machine's clock")
    if age_s > state.max_age_s:
        raise _UnfitError(f"it was written at {at}, which is longer ago than state.max.age.ms allows")
    return max(0.0, age_s)


def _survey(stream: IO[bytes], key: bytes | None) -> _Found:
    """Raises NoEventError, ApiException."""
    first: bytes | None = None
    configs: bytes | None = None
    bookmark: bytes | None = None
    sealed: tuple[int, bytes, bytes, bytes] | None = None
    for end, line in sealed_lines(stream, key):
        if line is None:
            if first is not None and configs is not None and bookmark is not None:
                sealed = end, first, configs, bookmark
            continue
        first = first or line
        if line.startswith(b'{"type":"bookmark"'):
            bookmark = line
        elif line.startswith(b'{"type":"configs"'):
            configs = line
    if sealed is None:
        raise NoEventError("no seal in it covers a whole image")
    return _found(sealed[0], *map(decode, sealed[1:]))


def _found(end: int, first: Event | None, configs: Event | None, bookmark: Event | None) -> _Found:
    if not (isinstance(first, Snapshot) and isinstance(configs, Configs) and isinstance(bookmark, Bookmark)):
        raise NoEventError("it does not begin with a snapshot, or holds no properties or bookmarks")
    if isinstance(bookmark.at, msgspec.UnsetType) or first.cluster_id is None or first.digest is None:
        raise NoEventError("it does not say when it was written, of which cluster it is, or its digest")
    token = Token.parse(first.token, "token")
    head = FeedHead(
        first.cluster_id, token.epoch, token.offset, _bytes(first.hash), 1, int.from_bytes(_bytes(first.digest))
    )
    return _Found(head, configs.configs, end, bookmark.at, bookmark.age_ms / 1000)


def _bytes(digits: str) -> bytes:
    try:
        return bytes.fromhex(digits)
    except ValueError:
        raise NoEventError(f"`{digits[:100]}` is not a hash") from None


class _StateFile:
    """The second pass: a snapshot for `load_image`, then what follows it."""

    def __init__(self, stream: IO[bytes], found: _Found) -> None:
        self.head = found.head
        self.configs = found.configs
        self._stream = stream
        self._end = found.end
        self._at = 0
        self._hash = found.head.hash
        self._parts = self._read()

    @asynccontextmanager
    async def snapshot(self) -> AsyncIterator["_StateFile"]:
        yield self

    async def slices(self) -> AsyncIterator[AclSlice]:
        async for part in self._parts:
            if isinstance(part, Synced):
                if (part.token, part.hash) != (
                    str(Token(self.head.epoch, self.head.last_offset)),
                    self.head.hash.hex(),
                ):
                    raise NoEventError("its snapshot ends with another token or hash than it began with")
                return
            if isinstance(part, AclSlice):
                yield part
        raise NoEventError("its snapshot does not end")

    async def followed(self, image: AuthorizerImage) -> AuthorizerImage:
        """The image after all transactions of the file. Raises NoEventError, PoisonedRecordException."""
        pace = Pace()
        async for part in self._parts:
            if isinstance(part, Bookmark):
                said = part.token, part.hash, part.digest
                if said != (str(image.token), image.hash.hex(), digest_of(image.digest)):
                    raise NoEventError(f"the state at {image.token} does not match its bookmark")
            elif isinstance(part, list):
                image = await apply_in_steps(image, part)
            await pace.breathe()
        return image

    async def _read(self) -> AsyncIterator[_Part]:
        while lines := await bounded(asyncio.to_thread(self._stream.readlines, _AT_ONCE_BYTES), _PART_S):
            for line in lines:
                self._at += len(line)
                if self._at > self._end:
                    return
                # Here and not in a thread, for which the loop would have to wait far longer.
                match decode(line):
                    case Acls() as event:
                        yield slice_of(event)
                    case Transaction() as event:
                        yield await self._records(event)
                    case Synced() | Bookmark() as event:
                        yield event

    async def _records(self, event: Transaction) -> list[Record]:
        if event.token != str(Token(self.head.epoch, event.last_offset)):
            raise NoEventError(f"the token {event.token} does not match its transaction")
        records = await each_paced(chained_records(event, self._hash), lambda record: record)
        self._hash = records[-1].hash
        return records
