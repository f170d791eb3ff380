"""What a job is, and what it is given to work with."""

import argparse
from dataclasses import dataclass, field, replace
from typing import Protocol

from pyspark.sql import SparkSession

from app.pipeline.spark.progress import Console
from app.pipeline.spark.run_metrics import RunMetrics
from app.pipeline.spark.storage import Home


@dataclass(frozen=True, slots=True)
class JobContext:
    """The session and the home of one run, and where it says and counts what it does."""

    spark: SparkSession
    home: Home
    console: Console
    metrics: RunMetrics
    runs: list[RunMetrics] = field(default_factory=list)
    """All that count in this run, the job itself first."""

    def of(self, job: str) -> "JobContext":
        """The same for another job of this run, which counts for itself."""
        metrics = RunMetrics(job)
        self.runs.append(metrics)
        return replace(self, console=self.console.of(job), metrics=metrics)


class Job(Protocol):
    """What each module in the folder `jobs` is."""

    NAME: str
    HELP: str

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare the job's own options.

        What needs more than one of them to be judged is checked by a function that it sets as the default of `check`:
        it is called with the arguments before Spark is started. So is `check_home`, with the arguments and the
        `local_home.LocalHome`, where the home is a folder of this machine: what the job reads must be there.
        """

    def run(self, context: JobContext, arguments: argparse.Namespace) -> int:
        """Do the work; the exit code: 0, or 1 if it found something."""
