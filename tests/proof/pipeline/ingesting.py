"""A folder of log files and a home, and runs of `ingest` on them."""

import argparse
import gzip
import io
import json
from collections.abc import Iterable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from app.pipeline.context import JobContext
from app.pipeline.history.decision_log import read_decisions
from app.pipeline.jobs import ingest
from app.pipeline.spark.progress import Console
from app.pipeline.spark.run_metrics import RunMetrics
from app.pipeline.spark.storage import Home
from tests.proof.pipeline.logs import loaded, logged, random_questions
from tests.proof.pipeline.random_stores import random_acls


class Place:
    """A folder of log files and a home, and runs of the job on them."""

    def __init__(self, spark: SparkSession, path: Path) -> None:
        self.spark = spark
        self.log = path / "log"
        self.log.mkdir()
        self.home = Home(str(path / "home"))
        self.said = io.StringIO()
        self.metrics = RunMetrics("ingest")

    def write(self, name: str, lines: Iterable[bytes]) -> None:
        data = b"".join(lines)
        (self.log / name).write_bytes(gzip.compress(data) if name.endswith(".gz") else data)

    def run(self, *options: str, folders: Sequence[Path] = ()) -> int:
        parser = argparse.ArgumentParser()
        ingest.add_arguments(parser)
        self.metrics = RunMetrics("ingest")
        console = Console("ingest", quiet=True, results=self.said)
        context = JobContext(self.spark, self.home, console, self.metrics)
        return ingest.run(context, parser.parse_args(["--decisions", *map(str, folders or (self.log,)), *options]))

    def offsets(self) -> list[int]:
        return sorted(row["offset"] for row in read_decisions(self.spark, self.home).select("offset").collect())

    def quarantine(self) -> list[Any]:
        return self.spark.read.parquet(self.home.room("decisions", "quarantine")).collect()


def decisions(first: int, count: int, **changes: object) -> list[dict[str, Any]]:
    rows = logged(loaded(random_acls(1, 10), allow_everyone=False), random_questions(first, count))
    return [{**row, "offset": first + number, **changes} for number, row in enumerate(rows)]


def line_of(row: dict[str, Any]) -> bytes:
    stamp = row["time"].strftime("%Y-%m-%dT%H:%M:%S.%fZ") if isinstance(row["time"], datetime) else row["time"]
    return json.dumps({**row, "time": stamp}, ensure_ascii=row["offset"] % 2 == 0).encode() + b"\n"
