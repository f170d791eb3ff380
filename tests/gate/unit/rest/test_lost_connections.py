"""A lost connection leaves nothing to the garbage collector, which would free thousands of them in one step."""

import gc
import weakref
from collections.abc import Iterator

import pytest

from app.rest.http.connections import Connections
from app.rest.http.protocol import KlammProtocol
from tests.wires import HEAD, connected, turns, unconnected


@pytest.fixture
def uncollected() -> Iterator[None]:
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


@pytest.mark.usefixtures("uncollected")
@pytest.mark.parametrize("sent", [b"", HEAD[:20], HEAD + b"plain", HEAD + b"slow!", HEAD + b"slow!" + HEAD + b"sl"])
@pytest.mark.parametrize("fault", [None, ConnectionResetError()])
async def test_nothing_of_it_is_left(sent: bytes, fault: Exception | None) -> None:
    shared = Connections()
    connection, wire = connected(shared=shared)
    if sent:
        connection.data_received(sent)
        await turns()
    wire.gone = True
    connection.connection_lost(fault)
    await turns()
    left = weakref.ref(connection), weakref.ref(connection.writer)
    del connection
    assert [each() for each in left] == [None, None]


class _Handshake:
    """As the acceptor's task: it holds the protocol."""

    def __init__(self, protocol: KlammProtocol) -> None:
        self.protocol = protocol

    def cancel(self) -> None:
        pass


@pytest.mark.usefixtures("uncollected")
async def test_nothing_is_left_of_a_failed_handshake() -> None:
    connection = unconnected()
    connection.handshake_began(_Handshake(connection).cancel)
    connection.handshake_failed()
    left = weakref.ref(connection)
    del connection
    assert left() is None
