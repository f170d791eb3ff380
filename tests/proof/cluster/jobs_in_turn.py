"""Runs jobs as `klamm pipeline` does, one after the other in one Spark session: a line of JSON for each.

`jobs_in_turn.py FOLDER [[WORD, ...], ...]`. The first line tells what an executor has before Klamm is sent to it.
"""

import contextlib
import io
import json
import sys
from collections.abc import Iterator
from functools import partial
from unittest.mock import patch

import pyarrow as pa
from pyspark.sql import SparkSession

from app.pipeline import job
from app.pipeline.spark.session import SessionOptions, spark_session

_begun: list[SparkSession] = []


def main(folder: str, jobs: list[list[str]]) -> None:
    with patch.object(job, "spark_session", partial(_session, folder)):
        for words in jobs:
            with contextlib.redirect_stdout(io.StringIO()) as said:
                status = job.main(words)
            _tell({"job": words[0], "status": status, "said": said.getvalue()})
    for each in _begun:
        SparkSession.stop(each)


def _session(folder: str, options: SessionOptions) -> SparkSession:
    if not _begun:
        spark = spark_session(options)
        rows = spark.range(1).mapInArrow(partial(_surroundings, folder), "has string").collect()
        sys.__stdout__.write(f"{rows[0]['has']}\n")  # type: ignore[union-attr]  # there is one
        spark.stop = lambda: None  # type: ignore[method-assign]  # the next job goes on with it
        _begun.append(spark)
    return _begun[0]


def _surroundings(folder: str, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    # Pickled whole, since it is of `__main__`: it needs nothing of ours.
    import importlib.util  # noqa: PLC0415 - in the worker
    import os  # noqa: PLC0415 - the same

    for _ in batches:
        has = {"klamm": importlib.util.find_spec("app") is not None, "driver_only": os.access(folder, os.R_OK)}
        yield pa.RecordBatch.from_pydict({"has": [json.dumps(has)]})


def _tell(what: dict[str, object]) -> None:
    sys.stdout.write(f"{json.dumps(what)}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1], json.loads(sys.argv[2]))
