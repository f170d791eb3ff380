"""When ACLs and principals were last used, by the decision log that the pipeline's last hygiene run has read."""

import os
from bisect import bisect_left
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from hashlib import sha256

from app.console.findings import FindingsError, Manifest, in_time, last_run, part_of
from app.console.visits import Json, Visit

_KEY = 20
_LINE = _KEY + len("67e0a1b2\n")


@dataclass(frozen=True, slots=True)
class Uses:
    """`times` are by ACL id or principal, without those that the log does not name. `why` there are none."""

    manifest: Manifest | None = None
    times: Mapping[str, datetime] | None = None
    why: str | None = None


async def last_uses(visit: Visit, home: str | None, acls: Iterable[Json], *principals: str) -> Uses:
    """Marks each ACL with its `last_used`, None if it isn't known to be used."""
    if visit.at is not None:
        return Uses()
    if home is None or "://" in home:
        return Uses(why="set `pipeline.home` to the local folder where the pipeline keeps its results")
    marked = list(acls)
    names = {*principals, *(each["id"] for each in marked)}
    try:
        found = await in_time(home, partial(read_uses, home, names))
    except FindingsError as fault:
        return Uses(why=str(fault))
    if found.times is not None:
        for each in marked:
            each["last_used"] = found.times.get(each["id"])
    return found


def read_uses(home: str, names: Iterable[str]) -> Uses:
    """Blocks while it reads. Raises FindingsError."""
    newest = last_run(home)
    if newest is None:
        return Uses(why="run `klamm pipeline nightly` with `--decisions` every night")
    folder, manifest = newest
    if manifest.covered_hours is None:
        return Uses(why="the last nightly run had no decision log; run `klamm pipeline nightly` with `--decisions`")
    try:
        part = part_of(folder / "last-used")
        if part is None:
            return Uses(why=f"`{folder}` has no record of it; run `klamm pipeline nightly` again")
        with part.open("rb") as file:
            lines = _Lines(file.fileno())
            found = {each: lines.time_of(each) for each in names}
    except FileNotFoundError:
        return Uses(why=f"an older release wrote `{folder}` without it; run `klamm pipeline nightly` again")
    except OSError as error:
        raise FindingsError(f"`{folder}` can't be read ({error.strerror})") from None
    except (ValueError, OverflowError):
        raise FindingsError(f"`{part}` is damaged; run `klamm pipeline nightly` again") from None
    return Uses(manifest, {name: time for name, time in found.items() if time is not None})


class _Lines:
    """The file as the pipeline writes it, in order, so that a bisection reads only a few of its lines."""

    def __init__(self, descriptor: int) -> None:
        """Raises ValueError."""
        self._descriptor = descriptor
        self._count, rest = divmod(os.fstat(descriptor).st_size, _LINE)
        if rest:
            raise ValueError(rest)

    def time_of(self, name: str) -> datetime | None:
        """Raises ValueError."""
        key = sha256(name.encode(errors="replace")).hexdigest()[:_KEY].encode()
        at = bisect_left(range(self._count), key, key=lambda at: self._line(at)[:_KEY])
        line = self._line(at) if at < self._count else b""
        return datetime.fromtimestamp(int(line[_KEY:], 16), UTC) if line.startswith(key) else None

    def _line(self, at: int) -> bytes:
        line = os.pread(self._descriptor, _LINE, at * _LINE)
        if not line.endswith(b"\n"):
            raise ValueError(at)
        return line
