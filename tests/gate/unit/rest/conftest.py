"""The REST application on a real authorizer whose store is in memory."""

from collections.abc import AsyncIterator

import pytest

from app.metrics.declared import Metrics
from app.rest.http import connection, connections, heads, protocol, unauthenticated
from app.rest.http.connections import Connections
from tests.klamm import InProcess, in_process
from tests.wires import Clock


@pytest.fixture
async def service() -> AsyncIterator[InProcess]:
    """Loaded and ready, without ACLs; User:admin is a super user."""
    async with in_process() as ready:
        yield ready


@pytest.fixture
async def unloaded() -> AsyncIterator[InProcess]:
    """The store can't be reached, so nothing is loaded."""
    async with in_process(reachable=False) as loading:
        yield loading


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """No client has to wait because the machine is slow; `clock` can still make one wait."""
    monkeypatch.setattr(unauthenticated, "thread_time", lambda: 0.0)


@pytest.fixture
def clock(patience: None, monkeypatch: pytest.MonkeyPatch) -> Clock:  # noqa: ARG001 - it comes first
    clock = Clock()
    for module in (connection, connections, protocol):
        monkeypatch.setattr(module, "monotonic", clock)
    for module in (connections, unauthenticated):
        monkeypatch.setattr(module, "thread_time", clock.on_core)
    heads.plain_head.cache_clear()
    heads.unauthenticated_plain_head.cache_clear()
    return clock


@pytest.fixture
def metrics() -> Metrics:
    return Metrics()


@pytest.fixture
def shared(metrics: Metrics) -> Connections:
    return Connections(metrics)
