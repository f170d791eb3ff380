"""The generated clients, made once for the whole run, and the services that they are tried on."""

import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from deploy.clients.generate import client
from deploy.clients.tools import ToolMissingError
from tests.klamm import Process, replica
from tests.postgres import Postgres
from tests.proof.clients.newer_service import newer_service

ClientOf = Callable[[str], Path]


@pytest.fixture(scope="session")
def client_of() -> ClientOf:
    """The folder of a language's client. Skips the test where a tool is missing, and says how to get it."""

    def made(language: str) -> Path:
        try:
            return client(language)
        except ToolMissingError as missing:
            pytest.skip(f"no {language} client: {missing}")

    return made


@pytest.fixture(scope="session")
def service(postgres: Postgres) -> Iterator[Process]:
    """A service that is ready, and does not wait long for a state that it hasn't reached."""
    with replica(postgres.new_store(), KLAMM_REQUEST_TIMEOUT_MS="3000") as running:
        yield running.ready()


@pytest.fixture(scope="session")
def without_store() -> Iterator[Process]:
    """A service that serves, but whose database nobody has started."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with replica(f"postgresql://klamm:planted-nowhere@127.0.0.1:{port}/klamm") as running:
        yield running


@pytest.fixture(scope="session")
def future() -> Iterator[str]:
    """The address of a service that is newer than its clients."""
    with newer_service() as url:
        yield url
