"""Tests of a real Kafka broker need Java, and Kafka's jars."""

from collections.abc import Generator
from pathlib import Path

import pytest

from tests.proof.kafka.authorizer import Authorizer, build
from tests.proof.kafka.jars import Kafka, NotToBeHadError, find_kafka


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Whatever is skipped here is skipped for one reason: one line of the summary is enough for it."""
    report = yield
    if report.skipped and isinstance(report.longrepr, tuple):
        report.longrepr = (str(Path(__file__).parent), 0, report.longrepr[2])
    return report


@pytest.fixture(scope="session")
def kafka() -> Kafka:
    try:
        return find_kafka()
    except NotToBeHadError as why:
        pytest.skip(str(why))


@pytest.fixture(scope="session")
def authorizer(kafka: Kafka, tmp_path_factory: pytest.TempPathFactory) -> Authorizer:
    try:
        return build(kafka, tmp_path_factory.mktemp("plugin"))
    except NotToBeHadError as why:
        pytest.skip(str(why))
