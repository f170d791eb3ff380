"""What a home in this machine's file system holds, looked at before Spark is started: nobody waits to learn of a gap.

Only whether something was written is seen here. Whether it is whole, and what is elsewhere, Spark finds out.
"""

from dataclasses import dataclass
from pathlib import Path

from app.pipeline.decision_log import nothing_in
from app.pipeline.effective_tables import not_yet_at
from app.pipeline.errors import PipelineError
from app.pipeline.export import nothing_exported
from app.pipeline.snapshot import wanted_snapshot

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
        if not self._documents("decisions", "manifests", "batch=*"):
            raise nothing_in(str(self.root))

    def effective(self, offset: int) -> None:
        """Raise NotYetError if `effective` was never run at this offset."""
        if offset not in self._offsets("effective"):
            raise not_yet_at(offset)

    def export(self) -> None:
        """Raise PipelineError if nothing was exported."""
        if not self._documents("export", "manifests", "batch=*") and not self._documents("export", "base", "manifest"):
            raise nothing_exported(str(self.root))

    def _offsets(self, room: str) -> set[int]:
        names = (each.parent.name.removeprefix(_OFFSET) for each in self._documents(room, f"{_OFFSET}*", "manifest"))
        return {int(name) for name in names if name.isascii() and name.isdigit()}

    def _documents(self, *names: str) -> list[Path]:
        """The folders with a document in them, as `storage.write_document` leaves it."""
        try:
            found = list(self.root.glob("/".join(names)))
            return [each for each in found if next(each.glob("part-*"), None) is not None]
        except OSError as error:
            raise PipelineError(f"--home: `{self.root}`: {error.strerror}; let this user read it") from None
