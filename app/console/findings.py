"""What the pipeline's last run of hygiene found, as it lies in the pipeline's home."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TypeVar
from uuid import UUID

import msgspec

_JOB = "hygiene"
_MAX_BYTES = 4 * 1024 * 1024
"""Of one document. The pipeline lists less."""
_MAX_OFFSETS = 1_000

Words = tuple[str, str, str, str, str, str, str]
"""The fields of an ACL in the order of AclBinding."""


class Manifest(msgspec.Struct, frozen=True):
    offset: int
    as_of: datetime
    complete: bool
    counts: Mapping[str, int] = {}


class Finding(msgspec.Struct, frozen=True):
    kind: str
    acl_id: UUID
    acl: Words
    why: str
    is_mended: bool
    """Whether its removal is proposed."""
    narrower: Sequence[Words] = ()
    """What takes its place then."""


class Listed(msgspec.Struct, frozen=True):
    findings: Sequence[Finding]


_Kind = TypeVar("_Kind", Manifest, Listed)


@dataclass(frozen=True, slots=True)
class Found:
    manifest: Manifest
    findings: Sequence[Finding]

    @property
    def total(self) -> int:
        return sum(self.manifest.counts.values())


class FindingsError(Exception):
    """They are there, and can't be read; the text says why."""


def last_found(home: str) -> Found | None:
    """What the newest whole run found; None if there is none. Blocks while it reads. Raises FindingsError."""
    room = Path(home) / _JOB
    try:
        offsets = sorted((each for each in room.iterdir() if each.name.startswith("offset=")), reverse=True)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise FindingsError(f"`{room}` can't be read ({error.strerror})") from None
    for each in offsets[:_MAX_OFFSETS]:
        manifest = _document(each / "manifest", Manifest)
        # INVARIANT: a run that is under way, or was killed, is not shown.
        if manifest is not None and manifest.complete:
            listed = _document(each / "listed", Listed)
            if listed is None:
                raise FindingsError(
                    f"`{each}` holds no list of its findings: it is of an older release; run `klamm pipeline nightly`"
                )
            return Found(manifest, listed.findings)
    return None


def _document(folder: Path, kind: type[_Kind]) -> _Kind | None:
    """The one document in this folder, as Spark leaves it; None if it is not there."""
    try:
        parts = [each for each in folder.iterdir() if each.name.startswith("part-") and each.is_file()]
        if len(parts) != 1:
            return None
        with parts[0].open("rb") as file:
            content = file.read(_MAX_BYTES + 1)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise FindingsError(f"`{folder}` can't be read ({error.strerror})") from None
    if len(content) > _MAX_BYTES:
        raise FindingsError(
            f"`{parts[0]}` has more than {_MAX_BYTES:,} bytes, so no run of the pipeline has written it"
        )
    try:
        return msgspec.json.decode(content, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        raise FindingsError(f"`{parts[0]}` is damaged; run `klamm pipeline nightly` again") from None
