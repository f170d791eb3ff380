"""The session that every job works with."""

import os
import re
from collections.abc import Iterator

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from app import __version__
from app.pipeline.spark import shipping
from app.pipeline.spark.errors import PipelineError


def _interpreters(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    import sys  # noqa: PLC0415 - in the worker

    from app.core.kafka.operations import ALLOW_MASK  # noqa: PLC0415 - the same

    for batch in batches:
        facts = f"{sys.executable} {len(ALLOW_MASK) > 0} {batch.num_rows <= 10_000}"
        yield pa.RecordBatch.from_pydict({"facts": [facts]})


def test_workers_run_this_python_and_know_klamm(spark: SparkSession) -> None:
    rows = spark.range(30_000).coalesce(1).mapInArrow(_interpreters, "facts string").collect()
    assert {row["facts"] for row in rows} == {f"{os.environ['PYSPARK_PYTHON']} True True"}
    assert len(rows) == 3


def test_it_is_set_up_as_jobs_rely_on(spark: SparkSession) -> None:
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"
    assert spark.conf.get("spark.sql.sources.partitionOverwriteMode") == "dynamic"
    assert spark.conf.get("spark.sql.ansi.enabled") == "true"
    assert spark.conf.get("spark.ui.enabled") == "false"


def test_executors_that_run_other_code_than_the_driver_are_refused(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    shipping.refuse_others(spark)
    monkeypatch.setattr(shipping, "version", lambda: "Klamm 0.0.1 on Python 3.12")
    said = (
        f"executors run Klamm {re.escape(__version__)} on Python 3.*, and this driver runs Klamm 0.0.1 on Python 3.12"
    )
    with pytest.raises(PipelineError, match=said):
        shipping.refuse_others(spark)
