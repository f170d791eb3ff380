"""A service that many tests of bad input share, and that must survive each of them."""

from collections.abc import Iterator

import pytest

from tests.e2e.bodies import BODIES
from tests.e2e.service import Service


@pytest.fixture(scope="module")
def enduring(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """One service for a module's tests, on an embedded PostgreSQL of its own."""
    with Service(["--data-dir", str(tmp_path_factory.mktemp("enduring") / "data")]) as service:
        yield service.ready()


@pytest.fixture
def patient(enduring: Service) -> Iterator[Service]:
    """The same; after the test it must still answer every route, and must not have logged a fault."""
    lines_before = len(enduring.lines)
    yield enduring
    for path, body in BODIES.items():
        enduring.post(path, body)
    assert [line for line in enduring.lines[lines_before:] if " ERROR " in line or "Traceback" in line] == []
