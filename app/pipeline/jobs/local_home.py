"""What a home in this machine's file system holds, looked at before Spark is started: nobody waits to learn of a gap.

Only whether something was written is seen here. Whether it is whole, and what is elsewhere, Spark finds out.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from app.pipeline.access.effective_tables import not_yet_at
from app.pipeline.history.decision_log import nothing_in
from app.pipeline.history.export import nothing_exported
from app.pipeline.history.snapshot import wanted_snapshot
from app.pipeline.spark.errors import PipelineError

_OFFSET = "offset="


@dataclass(frozen=True, slots=True)
class LocalHome:
    """The folder."""

    root: Path

    def snapshot(self, offset: int | None) -> int:
        """The offset of the snapshot that will be read. Raises PipelineError if there is none."""
        return wanted_snapshot(str(self.root), self._offsets("snapshots"), offset)

    def decisions(self) -> None:
        """Raise NoDecisionsError if nothing was ingested."""
        if next(self._documents("decisions/manifests", "batch="), None) is None:
            raise nothing_in(str(self.root))

    def effective(self, offset: int) -> None:
        """Raise NotYetError if `effective` was never run at this offset."""
        if offset not in self._offsets("effective"):
            raise not_yet_at(offset)

    def export(self) -> None:
        """Raise PipelineError if nothing was exported."""
        begun = chain(self._documents("export/manifests", "batch="), self._documents("export", "base", "manifest"))
        if next(begun, None) is None:
            raise nothing_exported(str(self.root))

    def _offsets(self, room: str) -> set[int]:
        names = (name.removeprefix(_OFFSET) for name in self._documents(room, _OFFSET, "manifest"))
        return {int(name) for name in names if name.isascii() and name.isdigit()}

    def _documents(self, room: str, beginning: str, inside: str = "") -> Iterator[str]:
        """The folders in a room, by how their names begin, that hold a document as `write_document` leaves it."""
        for name in self._names(self.root / room):
            if name.startswith(beginning):
                there = self._names(self.root / room / name / inside)
                if any(each.startswith("part-") for each in there):
                    yield name

    def _names(self, folder: Path) -> list[str]:
        try:
            return os.listdir(folder)  # noqa: PTH208 - of all there is, only names are looked at
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as error:
            raise PipelineError(f"--home: `{folder}`: {error.strerror}; let this user read it") from None
