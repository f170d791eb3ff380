"""One Spark session for all tests of a process; they need Java."""

import os
from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from app.pipeline.spark.errors import PipelineError
from app.pipeline.spark.java import find_java
from app.pipeline.spark.jdbc_driver import find_driver
from app.pipeline.spark.session import SessionOptions, spark_session
from tests import quick_spark


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    try:
        java = find_java(os.environ)
    except PipelineError as fault:
        pytest.skip(str(fault))
    options = SessionOptions(
        app_name="klamm-tests",
        master="local[2]",
        driver_memory="1g",
        shuffle_partitions=2,
        java=java,
        driver=find_driver(None, os.environ),
        settings=quick_spark.SETTINGS,
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JDK_JAVA_OPTIONS", quick_spark.java_options())
        session = spark_session(options)
    yield session
    session.stop()
