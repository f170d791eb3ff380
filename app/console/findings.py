"""What the pipeline's last hygiene run found, read from the pipeline's home."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from threading import Semaphore
from typing import TypeVar
from uuid import UUID

import msgspec

_JOB = "hygiene"
_RUN = "offset="
_MAX_BYTES = 4 * 1024 * 1024
"""The most that is read of one document; the pipeline's are shorter."""
_MAX_OFFSETS = 1_000
_THREADS = 2
_PATIENCE_S = 5.0
_ASK_AGAIN_S = 0.05

Words = tuple[str, str, str, str, str, str, str]
"""The fields of an ACL in the order of AclBinding."""


class Manifest(msgspec.Struct, frozen=True):
    offset: int
    as_of: datetime
    complete: bool
    counts: Mapping[str, int] = {}
    covered_hours: float | None = None
    """Hours of the decision log; None: none was read."""


class Finding(msgspec.Struct, frozen=True):
    kind: str
    acl_id: UUID
    acl: Words
    why: str
    is_mended: bool
    """Whether its removal is proposed."""
    narrower: Sequence[Words] = ()
    """The ACLs that then replace it."""


class Listed(msgspec.Struct, frozen=True):
    findings: Sequence[Finding]


_Kind = TypeVar("_Kind", Manifest, Listed)
_Found = TypeVar("_Found")

_threads = ThreadPoolExecutor(_THREADS, "klamm-console-home")
_free = Semaphore(_THREADS)


@dataclass(frozen=True, slots=True)
class Found:
    manifest: Manifest
    findings: Sequence[Finding]
    is_last: bool = True
    """Whether no newer run is complete."""

    @property
    def total(self) -> int:
        return sum(self.manifest.counts.values())


class FindingsError(Exception):
    """There are findings, but they can't be read; the text says why."""


async def in_time(home: str, read: Callable[[], _Found]) -> _Found:
    """What `read` reads below `home`, in a thread. Raises FindingsError, also for a disk that does not answer."""
    # INVARIANT: a folder that hangs holds up no thread that reads tokens, keys or certificates.
    try:
        async with asyncio.timeout(_PATIENCE_S):
            while not _free.acquire(blocking=False):  # noqa: ASYNC110 - a thread without a loop frees it
                await asyncio.sleep(_ASK_AGAIN_S)
            reading = _threads.submit(read)
            reading.add_done_callback(lambda _: _free.release())
            return await asyncio.wrap_future(reading)
    except TimeoutError:
        raise FindingsError(
            f"`{home}` could not be read within {_PATIENCE_S:g} s; check that its disk is reachable"
        ) from None


def last_found(home: str) -> Found | None:
    """What the newest complete run found; None if there is none. Blocks while it reads. Raises FindingsError."""
    newest = last_run(home)
    if newest is None:
        return None
    return _found(*newest)


def found_by(home: str, run: int) -> Found | None:
    """What the run with this offset found; None if it is not there, or not complete. Blocks while it reads.

    Raises FindingsError.
    """
    folder = Path(home) / _JOB / f"{_RUN}{run:020}"
    manifest, newest = _whole(folder), last_run(home)
    if manifest is None or newest is None:
        return None
    return _found(folder, manifest, is_last=folder == newest[0])


def _found(folder: Path, manifest: Manifest, *, is_last: bool = True) -> Found:
    listed = _document(folder / "listed", Listed)
    if listed is None:
        raise FindingsError(
            f"`{folder}` has no list of findings, because an older release wrote it; run `klamm pipeline nightly`"
        )
    return Found(manifest, listed.findings, is_last)


def last_run(home: str) -> tuple[Path, Manifest] | None:
    """The folder of the newest complete run. Blocks while it reads. Raises FindingsError."""
    room = Path(home) / _JOB
    try:
        offsets = sorted((each for each in room.iterdir() if each.name.startswith(_RUN)), reverse=True)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise FindingsError(f"`{room}` can't be read ({error.strerror})") from None
    for each in offsets[:_MAX_OFFSETS]:
        manifest = _whole(each)
        if manifest is not None:
            return each, manifest
    return None


def _whole(folder: Path) -> Manifest | None:
    """INVARIANT: a run that is under way, or was killed, is not shown."""
    manifest = _document(folder / "manifest", Manifest)
    return manifest if manifest is not None and manifest.complete else None


def _document(folder: Path, kind: type[_Kind]) -> _Kind | None:
    """The one document in this folder, as Spark leaves it; None if it is not there."""
    try:
        part = part_of(folder)
        if part is None:
            return None
        with part.open("rb") as file:
            content = file.read(_MAX_BYTES + 1)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise FindingsError(f"`{folder}` can't be read ({error.strerror})") from None
    if len(content) > _MAX_BYTES:
        raise FindingsError(f"`{part}` is larger than {_MAX_BYTES:,} bytes, so the pipeline did not write it")
    try:
        return msgspec.json.decode(content, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        raise FindingsError(f"`{part}` is damaged; run `klamm pipeline nightly` again") from None


def part_of(folder: Path) -> Path | None:
    """The one file of a table that Spark has left in this folder. Raises OSError."""
    parts = [each for each in folder.iterdir() if each.name.startswith("part-") and each.is_file()]
    return parts[0] if len(parts) == 1 else None
