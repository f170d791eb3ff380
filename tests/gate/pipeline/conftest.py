"""The fixture `spark`; it needs Java."""

from collections.abc import Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from tests import quick_spark
from tests.process_guard import may_start_processes
from tests.spark_session import session_of_tests

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def spark() -> Iterator["SparkSession"]:
    """One session for all tests of a process."""
    with ExitStack() as held:
        with may_start_processes():
            session = held.enter_context(
                session_of_tests(quick_spark.java_options(makes_archive=False), quick_spark.SETTINGS)
            )
        yield session
        with may_start_processes():
            held.close()
