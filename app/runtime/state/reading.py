"""A first image from the state file, while the source is away.

The file is read once: a seal proves the very bytes that the image was built of, whatever becomes of the file meanwhile.
So the image is built before it is proved, from the snapshot on, and seen by nobody until the last seal holds; else it
is dropped. Transactions are kept as they stand until a seal follows them, as what none follows is no part of the file.
That needs the memory of one image and of one write, and neither a second copy of the file nor other seals than those
that say how far it is whole. Digest and chain are checked as if it came from the source.
"""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from threading import Thread
from typing import IO
from uuid import UUID

from msgspec import UnsetType

from app.core.image import AuthorizerImage
from app.core.kafka.bindings import AclSlice
from app.core.kafka.configs import AuthorizerConfig
from app.core.kafka.errors import ApiException, PoisonedRecordException
from app.core.records import FeedHead, Record
from app.core.token import Token
from app.formats.feed_events import (
    MAX_LINE_BYTES,
    Acls,
    Bookmark,
    Configs,
    EpochBegan,
    NoEventError,
    Snapshot,
    Synced,
    Transaction,
    decode,
)
from app.formats.feed_seals import VERSION, SealedLines, StateHeader, header_in
from app.formats.feed_values import chained_records, digest_of, epochs_of, slice_of
from app.metrics.declared import Metrics
from app.runtime.applying import apply_in_steps
from app.runtime.deadlines import bounded
from app.runtime.options import RuntimeOptions, StateOptions
from app.runtime.pace import Pace, each_paced, run_through
from app.runtime.snapshot import load_image
from app.runtime.state.files import StateFolder

_PART_S = 10.0
_DISK_S = 60.0
"""How long all reads together may take: meanwhile nobody asks the source."""
_AT_ONCE_BYTES = 512 * 1024
_MOST_UNSEALED_BYTES = 2 * MAX_LINE_BYTES
"""Behind the snapshot; a replica writes a seal behind each part of the stream."""

_NO_DISK = "the disk does not answer"

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Restored:
    image: AuthorizerImage
    age_s: float
    """How long ago it was last known to equal the source's head."""


class _UnfitError(Exception):
    """The file may be intact, but can't be used here and now."""


async def restore(options: RuntimeOptions, startup: AuthorizerConfig, metrics: Metrics) -> Restored | None:
    """None if there is no file that can be used, which the log says. A file that is damaged is set aside."""
    state = options.state
    if state is None:
        return None
    folder = StateFolder(state.path)
    try:
        stream = await bounded(asyncio.to_thread(folder.open_image), _PART_S)
    except FileNotFoundError:
        _log.info("state_file_missing", extra={"file": folder.image})
        return None
    except OSError as fault:
        _refused(folder, metrics, str(fault) or _NO_DISK)
        return None
    try:
        restored = await _restored(stream, state, options, startup, metrics)
    except TimeoutError:
        # Closing it may wait for the disk as well.
        Thread(target=stream.close, daemon=True).start()
        _refused(folder, metrics, _NO_DISK)
        return None
    except (_UnfitError, OSError) as fault:
        _refused(folder, metrics, str(fault))
        restored = None
    except (NoEventError, PoisonedRecordException, ApiException) as fault:
        await _refuse_damaged(folder, stream, metrics, str(fault))
        restored = None
    except Exception:  # noqa: BLE001 - logged with its cause
        # INVARIANT: whatever is in the file, the start goes on as without one.
        _log.exception("state_file_not_read")
        await _refuse_damaged(folder, stream, metrics, "unexpected fault; see the log")
        restored = None
    stream.close()
    return restored


async def _refuse_damaged(folder: StateFolder, stream: IO[bytes], metrics: Metrics, why: str) -> None:
    is_aside = await asyncio.to_thread(_set_aside, folder, stream)
    _refused(folder, metrics, why, aside=is_aside)


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


async def _restored(
    stream: IO[bytes], state: StateOptions, options: RuntimeOptions, startup: AuthorizerConfig, metrics: Metrics
) -> Restored:
    file = await _open_file(stream, state)
    image = await load_image(file, startup, _PART_S, metrics)
    try:
        image = await file.follow(image)
        return Restored(image, _age_of(file.bookmark, state, options.clock.wall()))
    except BaseException:
        await run_through(image.index.dismantle())
        raise


def _age_of(bookmark: Bookmark | None, state: StateOptions, now: float) -> float:
    """Of the state in the file, in seconds. Raises NoEventError, _UnfitError."""
    if bookmark is None:
        raise NoEventError("no seal in it covers a whole image")
    if isinstance(bookmark.at, UnsetType) or bookmark.age_ms < 0:
        raise NoEventError("it does not say when it was written, or how old its state was then")
    since_s, at = now - bookmark.at.timestamp(), bookmark.at.isoformat(timespec="seconds")
    # Not together with the age that it had by then, which would hide that the clocks differ.
    if since_s < -state.clocks_differ_s:
        raise _UnfitError(f"it says that it was written at {at}, which is in the future by this machine's clock")
    age_s = max(0.0, since_s) + bookmark.age_ms / 1000
    if age_s > state.max_age_s:
        raise _UnfitError(
            f"its state was last known to be the source's {age_s:.0f} s ago (it was written at {at}), which is longer "
            "ago than state.max.age.ms allows"
        )
    return age_s


_Lines = AsyncIterator[bytes | None]
"""None stands for a seal that holds."""


async def _lines_in(stream: IO[bytes], key: bytes | None) -> _Lines:
    """Raises TimeoutError, NoEventError."""
    file, clock, left_s = SealedLines(stream, key), asyncio.get_running_loop().time, _DISK_S
    while True:
        began_at = clock()
        lines = await bounded(asyncio.to_thread(file.read, _AT_ONCE_BYTES), min(_PART_S, left_s))
        left_s -= clock() - began_at
        if not lines:
            return
        for line in lines:
            yield line


async def _open_file(stream: IO[bytes], state: StateOptions) -> "_StateFile":
    """Raises NoEventError, _UnfitError."""
    lines = _lines_in(stream, state.key)
    line = await anext(lines, None)
    header = None if line is None else header_in(line)
    if header is not None:
        _check_header(header, state)
        line = await anext(lines, None)
    # Without a header it is of version 1, which does not name its source: an upgrade must not cost the image.
    opening = None if line is None else decode(line)
    if not isinstance(opening, Snapshot):
        raise NoEventError("it does not begin with a snapshot")
    if state.cluster_id not in (None, opening.cluster_id):
        raise _UnfitError(
            f"it belongs to the cluster `{opening.cluster_id}`, but cluster.id is `{state.cluster_id}`; give each "
            "service a folder of its own (state.path)"
        )
    return _StateFile(opening, lines)


def _check_header(header: StateHeader, state: StateOptions) -> None:
    if header.version != VERSION:
        raise _UnfitError(f"it is of version {header.version}, but this version of Klamm reads 1 to {VERSION}")
    if state.origin.isdisjoint(header.origin):
        raise _UnfitError(
            "it is of another source: the service that wrote it had none of the addresses in database.url or "
            "upstream.urls; give each service a folder of its own (state.path)"
        )


class _StateFile:
    """A snapshot for `load_image`, then what follows it."""

    def __init__(self, opening: Snapshot, lines: _Lines) -> None:
        """Raises NoEventError, InvalidRequestException."""
        if opening.cluster_id is None or opening.digest is None:
            raise NoEventError("it does not say of which cluster it is, or its digest")
        token, digest = Token.parse(opening.token, "token"), int.from_bytes(_bytes(opening.digest))
        position, epochs = (token.epoch, token.offset, _bytes(opening.hash)), epochs_of(opening, token.epoch)
        self.head = FeedHead(opening.cluster_id, *position, 1, digest, epochs)
        self.configs: dict[str, str] = {}
        self.bookmark: Bookmark | None = None
        """The last one that a seal covers."""
        self._opening = opening
        self._lines = lines
        self._hash = self.head.hash

    @asynccontextmanager
    async def snapshot(self) -> AsyncIterator["_StateFile"]:
        yield self

    async def slices(self) -> AsyncIterator[AclSlice]:
        """Raises NoEventError."""
        opening, left = self._opening, self._opening.acl_count
        async for line in self._lines:
            # Here and not in a thread, for which the loop would have to wait far longer.
            match None if line is None else decode(line):
                case Acls() as event:
                    left -= len(event.acls)
                    if left < 0:
                        raise NoEventError(f"its snapshot holds more than the {opening.acl_count} ACLs that it names")
                    yield slice_of(event)
                case Configs() as event:
                    self.configs = event.configs
                case Synced() as event:
                    if left or (event.token, event.hash) != (opening.token, opening.hash):
                        raise NoEventError("its snapshot ends with another state than it began with")
                    return
                case None:
                    pass
                case event:
                    raise NoEventError(f"an unexpected `{type(event).__name__.lower()}` is in its snapshot")
        raise NoEventError("its snapshot does not end")

    async def follow(self, image: AuthorizerImage) -> AuthorizerImage:
        """The image after all transactions that a seal covers. Raises NoEventError, PoisonedRecordException."""
        unsealed: list[bytes] = []
        size, pace = 0, Pace()
        async for line in self._lines:
            if line is None:
                for each in unsealed:
                    image = await self._apply(image, each)
                    await pace.breathe()
                unsealed, size = [], 0
                continue
            unsealed.append(line)
            size += len(line)
            if size > _MOST_UNSEALED_BYTES:
                raise NoEventError(f"it holds more than {_MOST_UNSEALED_BYTES} bytes without a seal")
        return image

    async def _apply(self, image: AuthorizerImage, line: bytes) -> AuthorizerImage:
        match decode(line):
            case Transaction() as event:
                return await apply_in_steps(image, await self._records(event, image.epoch))
            case EpochBegan() as event:
                return _begin_epoch(image, event)
            case Bookmark() as event:
                is_here = (event.token, event.hash) == (str(image.token), image.hash.hex())
                if not is_here or event.digest not in (None, digest_of(image.digest)):
                    raise NoEventError(f"the state at {image.token} does not match its bookmark")
                self.bookmark = event
            case None:
                pass
            case event:
                raise NoEventError(f"an unexpected `{type(event).__name__.lower()}` is behind its snapshot")
        return image

    async def _records(self, event: Transaction, epoch: UUID | None) -> list[Record]:
        if event.token != f"{epoch}:{event.last_offset}":
            raise NoEventError(f"the token {event.token} does not match its transaction")
        records = await each_paced(chained_records(event, self._hash), lambda record: record)
        self._hash = records[-1].hash
        return records


def _begin_epoch(image: AuthorizerImage, event: EpochBegan) -> AuthorizerImage:
    """Raises NoEventError."""
    if image.epochs is None or event.first_offset != image.offset:
        raise NoEventError(f"the epoch {event.epoch} begins at offset {event.first_offset}, but follows {image.token}")
    try:
        return image.within(image.epochs.begun(event.epoch, event.first_offset))
    except ValueError as fault:
        raise NoEventError(f"the epoch {event.epoch} is none of this history: {fault}") from None


def _bytes(digits: str) -> bytes:
    try:
        return bytes.fromhex(digits)
    except ValueError:
        raise NoEventError(f"`{digits[:100]}` is not a hash") from None
