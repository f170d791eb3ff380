"""Services that the tests of this folder share: one of each kind for a worker, on a database of its own.

Whoever writes to them takes a `name` that no other test knows, and changes no property.
"""

import ssl
from collections.abc import Callable, Iterable, Iterator
from itertools import count
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.bodies import BODIES
from tests.callers import Corp, write_configuration
from tests.certificates import Authority
from tests.klamm import Process, over_socket, replica
from tests.postgres import Postgres
from tests.process_guard import may_start_processes

SPIFFE = "URI:spiffe://cluster.example/ns/orders/sa/api"
PLATFORM = "DNS:platform.example"

_TLS = """
tls.certificate = "server.crt"
tls.key = "server.key"
tls.client.ca = "authority.pem"
"""
_SHOW_CERTIFICATES = f"""
[callers.workload]
role = "decide"
principals = ["User:orders*"]
certificate = "{SPIFFE}"

[callers.operator]
role = "admin"
principal = "User:admin"
certificate = "{PLATFORM}"
"""
_numbers = count(1)


class Guarded(NamedTuple):
    """A service with TLS that knows callers: each one's token, an issuer of theirs, and who signs certificates."""

    service: Process
    tokens: dict[str, str]
    corp: Corp
    authority: Authority
    folder: Path


def _is_fault(line: str) -> bool:
    """In either form of the log."""
    return " ERROR " in line or '"level":"ERROR"' in line or "Traceback" in line


class Services:
    """What has been started for this worker, by its name."""

    def __init__(self) -> None:
        self._told = set[str]()
        self._running: dict[str, Process] = {}
        self._all: list[tuple[str, Process]] = []

    def get(self, name: str, start: Callable[[], Process]) -> Process:
        """The one of this name, which is started if there is none, or if it has died."""
        running = self._running.get(name)
        if running is None or running.process.poll() is not None:
            with may_start_processes():
                running = start()
            self._running[name] = running
            self._all.append((name, running))
            running.ready()
        return running

    def faults(self) -> list[str]:
        """What has not been told yet: errors in the logs, and processes that have ended unasked."""
        ended = [f"{name}: it has ended" for name, process in self._all if process.process.poll() is not None]
        return self._untold([*self._errors(), *ended])

    def stop(self) -> list[str]:
        """End them all, after they have answered once more; the faults until then come back."""
        try:
            for path, body in BODIES.items() if "service" in self._running else ():
                self._running["service"].post(path, body)
        finally:
            for each in reversed(self._running.values()):
                each.stop()
        return self._untold(self._errors())

    def _errors(self) -> list[str]:
        return [f"{name}: {line}" for name, process in self._all for line in [*process.lines] if _is_fault(line)]

    def _untold(self, faults: Iterable[str]) -> list[str]:
        new = [fault for fault in faults if fault not in self._told]
        self._told.update(new)
        return new


@pytest.fixture(scope="session")
def services(postgres: Postgres) -> Iterator[Services]:  # noqa: ARG001 - which ends after them
    """The worker's last test ends with them, and fails if they have logged a fault after it."""
    started = Services()
    yield started
    assert started.stop() == []


@pytest.fixture(autouse=True)
def _no_fault_is_logged(services: Services) -> Iterator[None]:
    yield
    assert services.faults() == []


@pytest.fixture
def name() -> str:
    """Of a topic, or the beginning of one, that no other test knows."""
    return f"of-test-{next(_numbers)}-"


@pytest.fixture
def service(services: Services, postgres: Postgres) -> Process:
    """Without callers; User:admin is a super user."""
    return services.get("service", lambda: replica(postgres.new_store()))


@pytest.fixture(scope="session")
def _configured(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str], Corp, Authority]:
    """What the guarded service reads."""
    folder = tmp_path_factory.mktemp("guarded")
    corp, authority = Corp(), Authority(folder)
    tokens = write_configuration(folder, corp)
    authority.certify("server")
    written = folder / "klamm.toml"
    written.write_text(_TLS + written.read_text() + _SHOW_CERTIFICATES)
    return folder, dict(tokens), corp, authority


@pytest.fixture
def guarded(
    services: Services, postgres: Postgres, _configured: tuple[Path, dict[str, str], Corp, Authority]
) -> Guarded:
    """It keeps a decision log in its folder, logs in JSON, has a console, and knows an ACL: alice may read `orders`."""
    folder, tokens, corp, authority = _configured

    def start() -> Process:
        settings = {
            "KLAMM_DATABASE_URL": postgres.new_store(),
            "KLAMM_LOG_FORMAT": "JSON",
            "KLAMM_CONSOLE_ENABLED": "true",
            "KLAMM_DECISION_LOG_PATH": str(folder / "decisions"),
        }
        trusted = ssl.create_default_context(cafile=authority.file)
        return over_socket(settings=settings, folder=folder, trusted=trusted)

    return Guarded(services.get("guarded", start), tokens, corp, authority, folder)


@pytest.fixture
def follower(services: Services, service: Process, tmp_path_factory: pytest.TempPathFactory) -> Process:
    """It follows the shared service, and listens on a Unix socket."""

    def start() -> Process:
        path = tmp_path_factory.mktemp("follower") / "klamm.sock"
        return over_socket("--uds", str(path), settings={"KLAMM_UPSTREAM_URLS": service.url})

    return services.get(f"follower of {service.url}", start)


@pytest.fixture
def own(postgres: Postgres) -> Iterator[Process]:
    """A service that its test may end."""
    with may_start_processes():
        starting = replica(postgres.new_store())
    with starting:
        yield starting.ready()
