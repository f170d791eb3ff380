"""What a job is, and what it works with."""

import argparse
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from pyspark.sql import SparkSession

from app.pipeline.access.effective import not_effective_at
from app.pipeline.history.decision_log import nothing_ingested
from app.pipeline.history.export import nothing_exported
from app.pipeline.history.snapshot import wanted_snapshot
from app.pipeline.spark.home_lock import CheckLock, unlocked
from app.pipeline.spark.progress import Console
from app.pipeline.spark.run_metrics import RunMetrics
from app.pipeline.spark.storage import Home


@dataclass(frozen=True, slots=True)
class JobContext:
    spark: SparkSession
    home: Home
    console: Console
    metrics: RunMetrics
    runs: list[RunMetrics] = field(default_factory=list)
    """Those of all jobs of this run, of the job itself first."""
    check_lock: CheckLock = unlocked

    def of(self, job: str) -> "JobContext":
        metrics = RunMetrics(job)
        self.runs.append(metrics)
        return replace(self, console=self.console.of(job), metrics=metrics)


@dataclass(frozen=True, slots=True)
class LocalHome:
    """A home in this machine's file system, where inputs are checked before Spark starts."""

    root: Path

    def snapshot(self, offset: int | None) -> int:
        return wanted_snapshot(str(self.root), self._offsets("snapshots"), offset)

    def decisions(self) -> None:
        if not self._documents("decisions/manifests/batch=*"):
            raise nothing_ingested(str(self.root))

    def effective(self, offset: int) -> None:
        if offset not in self._offsets("effective"):
            raise not_effective_at(offset)

    def export(self) -> None:
        if not (self._documents("export/manifests/batch=*") or self._documents("export/base/manifest")):
            raise nothing_exported(str(self.root))

    def _offsets(self, room: str) -> set[int]:
        names = (each.parent.name.removeprefix("offset=") for each in self._documents(f"{room}/offset=*/manifest"))
        return {int(name) for name in names if name.isascii() and name.isdigit()}

    def _documents(self, pattern: str) -> set[Path]:
        """The folders that hold a document as `write_document` leaves it."""
        return {part.parent for part in self.root.glob(f"{pattern}/part-*")}


@dataclass(frozen=True, slots=True)
class Job:
    name: str
    help: str
    add_arguments: Callable[[argparse.ArgumentParser], None]
    run: Callable[[JobContext, argparse.Namespace], int]
    """The exit code: 0, or 1 if it found something."""
    check: Callable[[argparse.Namespace], object] = lambda _: None
    """Called before Spark starts; raises PipelineError for options that do not go together."""
    check_home: Callable[[argparse.Namespace, LocalHome], object] = lambda _, __: None
    """The same, for a home on this machine; raises PipelineError if something is missing."""
    database: Literal["never", "perhaps", "always"] = "never"
    """Whether it reads PostgreSQL: perhaps means that its options decide."""
    writes_home: bool = True
    room: Callable[[argparse.Namespace], str] = lambda _: ""
    """The folder of the home that nobody else may write into meanwhile; the home itself if it is empty."""
