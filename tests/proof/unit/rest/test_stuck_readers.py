"""Readers of watch that take nothing, over real sockets: no turn of the event loop grows with their number."""

import asyncio
import fcntl
import socket
import sys
import termios
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager

import pytest

from app.core.token import Token
from app.rest.http.connections import Connections
from tests.klamm import InProcess, acl, in_process, until
from tests.loop_steps import measured_turns
from tests.updates import create, topic
from tests.wires import unconnected

ACLS = 10_000
FEWER = 20
MOST = 4.0
"""Before a turn was cut into slices it took 0.17 to 2 s for all readers, at least 9 times as long as for the fewer."""
TRIES = 5
STREAMS = b"HTTP/1.1 200"


@asynccontextmanager
async def listening(service: InProcess) -> AsyncIterator[int]:
    """The port."""
    shared = Connections()
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: unconnected(service.app, shared), "127.0.0.1", 0, backlog=1024)
    async with server:
        yield server.sockets[0].getsockname()[1]


@asynccontextmanager
async def connected(port: int, query: str, count: int) -> AsyncIterator[list[socket.socket]]:
    """Readers that take the status of their stream, and nothing else."""
    with ExitStack() as opened:
        readers = [await _stream_begun(port, query) for _ in range(count)]
        for reader in readers:
            opened.enter_context(reader)
        yield readers


async def _stream_begun(port: int, query: str) -> socket.socket:
    """Asked for again after refusals: a slow machine may find so many requests too much."""
    loop = asyncio.get_running_loop()
    while True:
        reader = socket.socket()
        reader.settimeout(0)
        reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        await loop.sock_connect(reader, ("127.0.0.1", port))
        await loop.sock_sendall(reader, f"GET /v1/watch?{query} HTTP/1.1\r\nhost: localhost\r\n\r\n".encode())
        if await loop.sock_recv(reader, len(STREAMS)) == STREAMS:
            return reader
        reader.close()
        await asyncio.sleep(0.1)


def waiting_bytes(reader: socket.socket) -> int:
    return int.from_bytes(fcntl.ioctl(reader.fileno(), termios.FIONREAD, bytes(4)), sys.byteorder)


async def longest_turn(query: str, count: int) -> float:
    """While two changes of ACLS reach so many readers that take nothing, and are applied and encoded."""
    async with in_process() as service, listening(service) as port:
        await service.create(acl("first"))
        token = Token(service.store.epoch, service.store.tables.last_offset)
        async with connected(port, f"after={token}{query}", count) as readers:
            await until(lambda: service.metrics.watch_readers == count)
            await until(lambda: all(map(waiting_bytes, readers)))
            before = {reader: waiting_bytes(reader) for reader in readers}
            turns = []
            for change in range(2):
                # Another replica writes them: what that takes is no turn of this service.
                service.store.commit([create(*(topic(f"topic-{change}-{number}") for number in range(ACLS)))])
                with measured_turns() as measured:
                    await service.caught_up()
                    await until(lambda: all(waiting_bytes(reader) > had for reader, had in before.items()))
                    await asyncio.sleep(0.5)
                turns.append(measured.longest_s)
        # They have left.
        await until(lambda: service.metrics.watch_readers == 0)
        return max(turns)


async def test_a_turn_does_not_grow_with_the_number_of_stuck_readers(subtests: pytest.Subtests) -> None:
    for query, count in [("", 400), ("&principal=User:alice", 20), ("&resource_name=first", 400)]:
        with subtests.test(query=query):
            many = few = float("inf")
            # The least of several: whatever else the machine does adds to some, and takes nothing from any.
            for _ in range(TRIES):
                many = min(many, await longest_turn(query, count))
                few = min(few, await longest_turn(query, count // FEWER))
                if many < MOST * few:
                    break
            assert many < MOST * few, (many, few)
