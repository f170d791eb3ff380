"""The session that every job works with."""

import os
from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql import SparkSession


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
