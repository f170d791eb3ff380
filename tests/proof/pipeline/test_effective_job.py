"""`effective` as a job: what it counts, on its line and in its manifest, is what is in its tables."""

import argparse
import io
from datetime import UTC, datetime
from pathlib import Path
from uuid import UUID

from pyspark.sql import SparkSession

from app.core.epochs import Epochs
from app.core.kafka.bindings import AclBinding
from app.pipeline.access.effective import load_effective
from app.pipeline.context import JobContext
from app.pipeline.history.snapshot import SavedResults, Snapshot, save_snapshot
from app.pipeline.jobs import effective
from app.pipeline.spark.progress import Console
from app.pipeline.spark.run_metrics import RunMetrics
from app.pipeline.spark.storage import Home
from tests.images import numbered
from tests.proof.pipeline.random_stores import acl_frame

_ACLS = (
    ("TOPIC", "orders", "LITERAL", "User:alice", "*", "READ", "ALLOW"),
    ("TOPIC", "orders", "LITERAL", "User:bob", "10.0.0.0/8", "WRITE", "ALLOW"),
    ("TOPIC", "ord", "PREFIXED", "User:*", "*", "DESCRIBE", "ALLOW"),
    ("TOPIC", "*", "LITERAL", "User:eve", "*", "ALL", "DENY"),
    ("TOPIC", "a:b", "LITERAL", "User:alice", "*", "WRITE", "ALLOW"),
)


def test_expanded_counts_what_it_has_written(spark: SparkSession, tmp_path: Path) -> None:
    home, listed = Home(str(tmp_path / "home")), tmp_path / "topics.txt"
    listed.write_text("orders\norder-lines\npayments\n")
    acls = acl_frame(spark, numbered([AclBinding.from_words(words) for words in _ACLS]))
    as_of = datetime(2026, 11, 22, tzinfo=UTC)
    save_snapshot(spark, home, Snapshot(acls, {}, "c", Epochs.only(UUID(int=1)), 7, as_of, "00"))
    parser, results = argparse.ArgumentParser(), io.StringIO()
    effective.JOB.add_arguments(parser)
    console = Console("effective", steps=io.StringIO(), results=results)
    context = JobContext(spark, home, console, RunMetrics("effective"))
    arguments = parser.parse_args(["--resources", str(listed), "--expanded"])
    assert effective.JOB.run(context, arguments) == 0
    line = "effective access at offset 7: 3 resources, 5 masks, 6 nodes, 9 expanded"
    assert results.getvalue().splitlines() == [line]
    tables = load_effective(spark, home)
    assert tables is not None
    frames = {"resources": tables.resources, "masks": tables.masks, "nodes": tables.nodes}
    counts = {name: frame.count() for name, frame in frames.items()} | {
        "expanded": spark.read.parquet(SavedResults(spark, home, "effective").room(7, "expanded")).count()
    }
    assert tables.manifest["counts"] == counts == {"resources": 3, "masks": 5, "nodes": 6, "expanded": 9}
