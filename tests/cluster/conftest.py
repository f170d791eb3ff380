"""One cluster for all tests here, and one store; started by the first test that asks for them."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.pipeline.spark.errors import PipelineError
from app.store.embedded.server import EmbeddedPostgres
from tests.cluster.nights import BUSY_PATIENCE_S, Company, Undisturbed, all_in_turn, new_company
from tests.cluster.standalone import Cluster, driver_environment, found_java_home
from tests.newborn import new_store


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
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
def company(cluster: Cluster, postgres_server: EmbeddedPostgres) -> Company:
    loop = asyncio.new_event_loop()
    try:
        dsn = loop.run_until_complete(new_store(postgres_server.dsn, "company"))
        return loop.run_until_complete(new_company(dsn, cluster.shared, cluster.driver_only))
    finally:
        loop.close()
