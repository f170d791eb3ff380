"""Which resources a job looks at, by a list, the decision log, or both."""

import argparse
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from app.pipeline.context import JobContext
from app.pipeline.jobs.inputs import resources_of
from app.pipeline.spark.errors import NoDecisionsError
from app.pipeline.spark.progress import Console
from app.pipeline.spark.run_metrics import RunMetrics
from app.pipeline.spark.storage import Home


def test_before_the_first_decision_a_list_does_alone(spark: SparkSession, tmp_path: Path) -> None:
    names = tmp_path / "topics.txt"
    names.write_text("orders\n")
    context = JobContext(spark, Home(str(tmp_path / "home")), Console("effective", quiet=True), RunMetrics("effective"))
    both = argparse.Namespace(resources=str(names), seen=True, since=None)
    assert [tuple(row) for row in resources_of(context, both).collect()] == [("TOPIC", "orders")]
    with pytest.raises(NoDecisionsError, match="or list the resources with --resources FILE"):
        resources_of(context, argparse.Namespace(resources=None, seen=True, since=None))
