"""Services and stores that several tests of a module share."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import klamm
from tests.bodies import BODIES
from tests.klamm import Process, replica
from tests.postgres import Postgres, Store, processes_in


@pytest.fixture(scope="module")
def service(postgres: Postgres) -> Iterator[Process]:
    """One service for a module's tests, on a store of its own."""
    with replica(postgres.new_store()) as running:
        yield running.ready()


@pytest.fixture(scope="module")
def patient(service: Process) -> Iterator[Process]:
    """The same; after the module's tests it must still answer every route, and must not have logged a fault."""
    yield service
    for path, body in BODIES.items():
        service.post(path, body)
    assert [line for line in service.lines if " ERROR " in line or "Traceback" in line] == []


@pytest.fixture(scope="module")
def own_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Postgres]:
    """A server for a module's tests, which may stop it; whoever needs it starts it first."""
    with klamm.postgres(tmp_path_factory.mktemp("postgres") / "data") as server:
        yield server


@pytest.fixture
def store(own_server: Postgres) -> Store:
    """A newborn store on a server that runs."""
    own_server.start()
    return Store(own_server, own_server.new_store())


@pytest.fixture
def closed(store: Store) -> Store:
    """The same, but nobody listens on its port."""
    store.server.stop()
    return store


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A data folder; whatever a failed test leaves running in it is ended."""
    yield tmp_path / "data"
    for process in processes_in(tmp_path / "data"):
        os.kill(process, signal.SIGKILL)
