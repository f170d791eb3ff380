"""One Spark session for all tests of a process; they need Java."""

import os
from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from app.pipeline.errors import PipelineError
from app.pipeline.jdbc_driver import find_driver
from app.pipeline.session import SessionOptions, spark_session


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    try:
        options = SessionOptions(
            app_name="klamm-tests",
            master="local[2]",
            driver_memory="1g",
            shuffle_partitions=2,
            driver=find_driver(None, os.environ),
        )
        session = spark_session(options)
    except PipelineError as fault:
        pytest.skip(str(fault))
    yield session
    session.stop()
