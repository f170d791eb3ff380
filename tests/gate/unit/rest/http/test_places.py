"""Who may stay when too many connect."""

import asyncio
import resource

from starlette.types import Receive, Scope, Send

from app.metrics.declared import Metrics
from app.rest.http.connections import Connections
from tests.wires import (
    HEAD,
    PROBE,
    Clock,
    connected,
    later,
    request,
    statuses,
    turns,
    unread,
)


def test_there_are_descriptors_to_spare(metrics: Metrics) -> None:
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[0] - 256
    assert Connections(metrics, 10**9).maximum == most
    assert Connections(metrics, 7).maximum == 7


async def test_a_connection_too_many_may_ask_how_the_service_is_and_nothing_else(
    clock: Clock, metrics: Metrics
) -> None:
    shared = Connections(metrics, 1)
    kept, kept_wire = connected(unread, shared)
    kept.data_received(request(b"plain"))
    surplus = [connected(unread, shared) for _ in range(4)]
    assert metrics.connections_refused == 4
    messages = [PROBE, request(b"plain"), request(b"slow"), b"GET /v1/acls/count HTTP/1.1\r\nHost: k\r\n\r\n"]
    for (connection, _), message in zip(surplus, messages, strict=True):
        connection.data_received(message)
    await turns()
    assert [statuses(wire) for _, wire in surplus] == [[200], [429], [429], [429]]
    assert all(b"\r\nconnection: close\r\n" in wire.written for _, wire in surplus)
    assert all(b"\r\nretry-after: 1\r\n" in wire.written for _, wire in surplus[1:])
    assert all(wire.closed for _, wire in surplus)
    _, silent = connected(unread, shared)
    later(clock, shared, 1.1)
    assert silent.closed
    kept.data_received(request(b"plain"))
    assert statuses(kept_wire) == [200, 200]


async def test_strangers_make_room_for_whoever_comes(metrics: Metrics) -> None:
    shared = Connections(metrics, 3)
    known, half, idle = (connected(unread, shared) for _ in range(3))
    known[0].data_received(request(b"plain"))
    half[0].data_received(HEAD[:20])
    idle[0].data_received(PROBE)
    await turns()
    for oldest in (half, idle):
        new, new_wire = connected(unread, shared)
        assert oldest[1].aborted
        new.data_received(request(b"plain"))
        assert statuses(new_wire) == [200]
        assert not new_wire.closed
    assert not known[1].closed
    last, last_wire = connected(unread, shared)
    last.data_received(request(b"plain"))
    assert statuses(last_wire) == [429], "all are known"
    assert metrics.connections_refused == 3
    known[0].connection_lost(None)
    again, again_wire = connected(unread, shared)
    again.data_received(request(b"plain"))
    assert statuses(again_wire) == [200]


async def test_who_is_being_answered_makes_no_room(metrics: Metrics) -> None:
    async def waits(scope: Scope, receive: Receive, send: Send) -> None:
        await go_on.wait()
        await unread(scope, receive, send)

    go_on = asyncio.Event()
    shared = Connections(metrics, 2)
    busy, busy_wire = connected(waits, shared)
    busy.data_received(HEAD + b"slow!")
    await turns()
    wires = [connected(waits, shared)[1] for _ in range(4)]
    assert [wire.aborted for wire in wires] == [True, True, True, False]
    go_on.set()
    await turns()
    assert statuses(busy_wire) == [404]
    # A client that doesn't read its replies isn't waited for.
    busy.data_received(HEAD + b"slow!")
    busy.pause_writing()
    for _ in range(2):
        connected(waits, shared)
    aborted = busy_wire.aborted
    busy.connection_lost(None)
    assert aborted


async def test_far_too_many_connections_make_room_for_probes(metrics: Metrics) -> None:
    shared = Connections(metrics, 1)
    known, known_wire = connected(unread, shared)
    known.data_received(request(b"plain"))
    wires = [connected(unread, shared)[1] for _ in range(140)]
    assert [wire.aborted for wire in wires] == [True] * 12 + [False] * 128
    probe, probe_wire = connected(unread, shared)
    probe.data_received(PROBE)
    await turns()
    assert statuses(probe_wire) == [200]
    assert not known_wire.closed


async def test_nobody_else_is_cut_off_if_all_connections_too_many_are_being_answered(metrics: Metrics) -> None:
    async def waits(scope: Scope, receive: Receive, send: Send) -> None:
        await go_on.wait()
        await unread(scope, receive, send)

    go_on = asyncio.Event()
    shared = Connections(metrics, 1)
    connected(unread, shared)[0].data_received(request(b"plain"))
    made = [connected(waits, shared) for _ in range(128)]
    for connection, _ in made:
        connection.data_received(PROBE)
    await turns()
    _, last = connected(waits, shared)
    assert last.aborted
    go_on.set()
    await turns()
    assert [statuses(wire) for _, wire in made] == [[200]] * 128
