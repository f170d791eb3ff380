"""One cluster for all tests here, and one store; started by the first test that asks for them."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.pipeline.spark.errors import PipelineError
from tests import quick_spark
from tests.postgres import Postgres, new_store
from tests.proof.cluster.nights import (
    BUSY_PATIENCE_S,
    WELL,
    Company,
    Undisturbed,
    all_in_turn,
    ended,
    new_company,
    started,
)
from tests.proof.cluster.standalone import Cluster, driver_environment, found_java_home


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.nodeid.startswith("tests/proof/cluster/"):
            item.add_marker(pytest.mark.timeout(2 * BUSY_PATIENCE_S))


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    try:
        java_home = found_java_home()
    except PipelineError as fault:
        pytest.skip(str(fault))
    with Cluster(tmp_path_factory.mktemp("cluster"), java_home) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def undisturbed(cluster: Cluster, company: Company) -> Undisturbed:
    home = cluster.shared / "here"
    where = ["--master", "local[2]", "--driver-memory", "512m"]
    return Undisturbed(home, all_in_turn(company, home, where, driver_environment(cluster)))


@pytest.fixture(scope="session")
def unharmed(cluster: Cluster, company: Company) -> Path:
    """The home of a local run of all jobs that write, with settings for small queries."""
    home, jobs = cluster.shared / "unharmed", [*company.writing().values(), company.reconcile]
    where = ["--master", "local[2]", "--driver-memory", "512m", *quick_spark.ARGUMENTS]
    said = ended(started(company, home, jobs, where, driver_environment(cluster)))
    assert {each["job"]: each["status"] for each in said[1:]} == WELL
    return home


@pytest.fixture(scope="session")
def company(cluster: Cluster, postgres: Postgres) -> Company:
    loop = asyncio.new_event_loop()
    try:
        dsn = loop.run_until_complete(new_store(postgres.dsn, "company"))
        return loop.run_until_complete(new_company(dsn, cluster.shared, cluster.driver_only))
    finally:
        loop.close()
