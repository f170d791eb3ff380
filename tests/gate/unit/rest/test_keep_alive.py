"""Every reply says how long its connection is kept, and that is how long it is."""

import asyncio
import re
import socket

import pytest
from starlette.types import Receive, Scope, Send

from app.metrics.declared import Metrics
from app.rest.http.connections import Connections
from tests.wires import CHUNKED, HEAD, LINE, PROBE, Clock, Wire, connected, later, request, turns, unread


def said(wire: Wire) -> list[int]:
    """How long each reply says that the connection is kept; 0 where it is the last."""
    found = []
    for head in re.findall(rb"HTTP/1\.1 [2-5](?:.|\r\n)*?\r\n\r\n", wire.written):
        lines = dict(line.split(b": ", 1) for line in head.split(b"\r\n")[1:-2])
        names = [line.partition(b": ")[0] for line in head.split(b"\r\n")[1:-2]]
        assert len(set(names)) == len(names), head
        if lines[b"connection"] == b"close":
            assert b"keep-alive" not in lines
            found.append(0)
        else:
            assert lines[b"connection"] == b"keep-alive"
            found.append(int(lines[b"keep-alive"].removeprefix(b"timeout=")))
    return found


@pytest.mark.parametrize(
    ("message", "kept_s"), [(request(b"plain"), 75), (request(b"slow"), 75), (PROBE, 75), (HEAD, 75)]
)
async def test_who_is_known_is_told_the_time_of_the_known(
    clock: Clock, shared: Connections, message: bytes, kept_s: int
) -> None:
    connection, wire = connected(shared=shared)
    connection.data_received(message + (b"other" if message is HEAD else b""))
    await turns()
    assert said(wire) == [kept_s]
    later(clock, shared, kept_s - 0.1)
    assert not wire.closed
    later(clock, shared, 0.2)
    assert wire.closed


@pytest.mark.parametrize("message", [request(b"slow"), PROBE])
async def test_a_stranger_is_told_the_time_of_strangers(clock: Clock, shared: Connections, message: bytes) -> None:
    connection, wire = connected(unread, shared)
    connection.data_received(message)
    await turns()
    assert said(wire) == [2]
    later(clock, shared, 1.9)
    assert not wire.closed
    later(clock, shared, 0.2)
    assert wire.closed


async def test_a_stranger_who_becomes_known_is_told_at_once(shared: Connections) -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        scope["klamm.known"] = scope["path"] != "/readyz"
        await unread(scope, receive, send)

    connection, wire = connected(app, shared)
    connection.data_received(PROBE)
    await turns()
    connection.data_received(request(b"slow") + PROBE)
    await turns()
    connection.data_received(PROBE)
    await turns()
    assert said(wire) == [2, 75, 75, 75]


async def test_who_is_refused_in_overload_is_told_as_well(clock: Clock, shared: Connections) -> None:
    made = [connected(shared=shared) for _ in range(3)]
    made[1][0].data_received(request(b"plain"))
    await turns()
    for connection, wire in made:
        wire.written = b""
        connection.data_received(request(b"plain"))
        clock.now += 1.0
    assert [said(wire) for _, wire in made] == [[75], [75], [2]]
    assert [int(connection.deadline - connection.shared.began) for connection, _ in made] == [75, 75, 2]


async def test_the_last_reply_says_nothing_of_keeping(subtests: pytest.Subtests, shared: Connections) -> None:
    for message in [
        request(b"slow", b"Connection: close"),
        request(b"plain", b"Connection: close"),
        request(b"plain", line=LINE.replace(b"1.1", b"1.0")),
        CHUNKED + b"2\r\nab\r\n",
        HEAD + b"garbage",
        b"garbage\r\n\r\n",
    ]:
        with subtests.test(message=message):
            connection, wire = connected(unread, shared)
            connection.data_received(message)
            await turns()
            assert said(wire)[-1:] == [0]
            assert b"keep-alive" not in wire.written.rpartition(b"HTTP/1.1")[2]
            assert wire.closed


@pytest.mark.parametrize("message", [request(b"plain"), request(b"slow"), PROBE])
async def test_in_a_drain_every_reply_is_the_last(shared: Connections, message: bytes) -> None:
    connection, wire = connected(shared=shared)
    connection.data_received(message)
    await turns()
    shared.drain()
    connection.data_received(message)
    await turns()
    assert said(wire) == [75, 0]


async def test_one_too_many_is_told_that_it_is_not_kept(metrics: Metrics) -> None:
    shared = Connections(metrics, 1)
    kept, _ = connected(shared=shared)
    kept.data_received(request(b"plain"))
    connection, wire = connected(unread, shared)
    connection.data_received(PROBE)
    await turns()
    assert said(wire) == [0]


@pytest.mark.parametrize("expect", [b"X: y", b"Expect: 100-continue"])
async def test_in_a_pipeline_each_reply_says_it_once(shared: Connections, expect: bytes) -> None:
    go_on = asyncio.Event()

    async def app(_: Scope, receive: Receive, send: Send) -> None:
        await go_on.wait()
        await receive()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for more in (True, True, False):
            await send({"type": "http.response.body", "body": b"part", "more_body": more})

    connection, wire = connected(app, shared)
    connection.data_received(request(b"slow", expect) * 3)
    await turns()
    go_on.set()
    for _ in range(3):
        await turns()
    assert said(wire) == [2, 2, 2]
    assert wire.written.count(b"keep-alive: ") == 3


async def test_a_request_that_nobody_has_read_yet_keeps_its_connection(clock: Clock, shared: Connections) -> None:
    """A process that stood still, or was busy, looks at its deadlines before it reads."""
    client, server = socket.socketpair()
    with client, server:
        connection, wire = connected(shared=shared, wire=Wire(server))
        connection.data_received(request(b"plain"))
        client.sendall(request(b"other"))
        later(clock, shared, 76)
        assert not wire.closed
        connection.data_received(server.recv(65_536))
        assert said(wire) == [75, 75]
        later(clock, shared, 76)
        assert wire.closed


async def test_bytes_that_nobody_reads_keep_no_connection_for_good(clock: Clock, shared: Connections) -> None:
    client, server = socket.socketpair()
    with client, server:
        connection, wire = connected(shared=shared, wire=Wire(server))
        connection.data_received(request(b"plain"))
        client.sendall(b"half of a TLS record")
        later(clock, shared, 75 + 9)
        assert not wire.closed
        later(clock, shared, 2)
        assert wire.closed
