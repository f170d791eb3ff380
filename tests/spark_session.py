"""A Spark session for the tests of one process; it needs Java."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@contextmanager
def session_of_tests(java_options: str, settings: dict[str, str]) -> Iterator["SparkSession"]:
    """A session that has these options of its JVM and these settings. Skips the test where there is no Java."""
    from app.pipeline.spark.errors import PipelineError
    from app.pipeline.spark.java import find_java
    from app.pipeline.spark.jdbc_driver import find_driver
    from app.pipeline.spark.session import SessionOptions, spark_session

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
        settings=settings,
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JDK_JAVA_OPTIONS", java_options)
        session = spark_session(options)
    try:
        yield session
    finally:
        session.stop()
