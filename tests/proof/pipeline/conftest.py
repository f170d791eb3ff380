"""One Spark session for all tests of a process; they need Java."""

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from tests import quick_spark
from tests.spark_session import session_of_tests


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    with session_of_tests(quick_spark.java_options(), quick_spark.SETTINGS) as session:
        yield session
