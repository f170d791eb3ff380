"""What clients may keep a connection waiting for."""

import asyncio

import pytest
from starlette.types import Receive, Scope, Send

from app.metrics.declared import Metrics
from app.rest.http.connections import Connections
from tests.wires import (
    CHUNKED,
    HEAD,
    LINE,
    PROBE,
    Clock,
    connected,
    later,
    request,
    statuses,
    turns,
    unread,
)


async def test_a_client_that_says_nothing_is_hung_up_on(clock: Clock, shared: Connections) -> None:
    _, wire = connected(shared=shared)
    later(clock, shared, 9.9)
    assert not wire.closed
    later(clock, shared, 0.2)
    assert wire.closed
    assert wire.written == b""


async def test_a_head_has_ten_seconds_from_the_beginning_of_the_connection(clock: Clock, shared: Connections) -> None:
    connection, wire = connected(shared=shared)
    clock.now += 5
    connection.data_received(HEAD[:1])
    clock.now += 4
    connection.data_received(HEAD[1:5])
    later(clock, shared, 0.9)
    assert not wire.closed
    later(clock, shared, 0.2)
    assert wire.closed
    assert statuses(wire) == [408]
    assert b"\r\nconnection: close\r\n" in wire.written


async def test_on_a_kept_connection_a_head_has_ten_seconds_from_its_own_beginning(
    clock: Clock, shared: Connections
) -> None:
    connection, wire = connected(shared=shared)
    for body in (b"plain", b"slow!"):
        for _ in range(2):
            connection.data_received(HEAD + body)
            await turns()
            later(clock, shared, 60)
    connection.data_received(HEAD[:9])
    later(clock, shared, 9)
    connection.data_received(HEAD[9:20])
    assert statuses(wire) == [200] * 4
    assert not wire.closed
    later(clock, shared, 1.1)
    assert statuses(wire) == [200] * 4 + [408]
    assert wire.closed


async def test_who_was_answered_by_heads_of_others_only_has_no_longer_for_the_next(
    clock: Clock, shared: Connections
) -> None:
    connected(shared=shared)[0].data_received(HEAD + b"plain")
    connection, wire = connected(shared=shared)
    connection.data_received(HEAD + b"plain")
    later(clock, shared, 60)
    connection.data_received(HEAD[:9])
    later(clock, shared, 9)
    assert statuses(wire) == [200]
    later(clock, shared, 1.1)
    assert statuses(wire) == [200, 408]
    assert wire.closed


@pytest.mark.parametrize("body", [b"plain", b"slow!"])
async def test_an_idle_connection_is_kept_for_its_time_and_no_longer(
    clock: Clock, shared: Connections, body: bytes
) -> None:
    connection, wire = connected(shared=shared)
    keep_s = connection.config.timeout_keep_alive
    for _ in range(3):
        connection.data_received(HEAD + body)
        await turns()
        later(clock, shared, keep_s - 0.1)
        assert not wire.closed
    later(clock, shared, 0.2)
    assert wire.closed
    assert statuses(wire) == [200] * 3


@pytest.mark.parametrize("line", [LINE, b"POST /v1/start HTTP/1.1"])
async def test_a_short_body_has_ten_seconds_and_nothing_is_begun_before_it_is_here(
    clock: Clock, shared: Connections, line: bytes
) -> None:
    connection, wire = connected(shared=shared)
    connection.data_received(HEAD.replace(LINE, line) + b"ab")
    await turns()
    assert connection.cycle is None
    later(clock, shared, 9.9)
    connection.data_received(b"cd")
    assert not wire.closed
    later(clock, shared, 0.2)
    assert statuses(wire) == [408]
    assert wire.closed


async def test_the_deadline_of_a_body_is_not_that_of_the_answer(clock: Clock, shared: Connections) -> None:
    async def waits(scope: Scope, receive: Receive, send: Send) -> None:
        await receive()
        await go_on.wait()
        await unread(scope, receive, send)

    go_on = asyncio.Event()
    connection, wire = connected(waits, shared)
    connection.data_received(HEAD + b"slow!")
    await turns()
    later(clock, shared, 1_000)
    go_on.set()
    await turns()
    assert statuses(wire) == [404]
    assert not wire.closed


async def test_a_body_that_nobody_reads_ends_the_connection_after_the_reply(clock: Clock, shared: Connections) -> None:
    connection, wire = connected(unread, shared)
    connection.data_received(CHUNKED + b"2\r\nab\r\n")
    await turns()
    assert statuses(wire) == [404]
    assert wire.written.count(b"\r\nconnection: close\r\n") == 1
    assert wire.written.endswith(b"\r\n\r\nno")
    assert wire.closed, "the client sees the end"
    assert not wire.gone, "what it still sends is read, so that it can read the reply"
    connection.data_received(b"2\r\nab\r\n0\r\n\r\n" + request(b"again"))
    await turns()
    assert statuses(wire) == [404]
    later(clock, shared, 2.1)
    assert wire.gone


async def test_who_goes_on_sending_after_the_end_is_cut_off(shared: Connections) -> None:
    connection, wire = connected(unread, shared)
    connection.data_received(CHUNKED)
    await turns()
    for _ in range(33):
        assert not wire.aborted
        connection.data_received(b" " * 256 * 1024)
    assert wire.aborted


async def test_a_body_that_is_here_is_no_reason_to_end_the_connection(shared: Connections) -> None:
    connection, wire = connected(unread, shared)
    for _ in range(3):
        connection.data_received(HEAD.replace(b"/v1/authorize", b"/nowhere") + b"abcde")
        connection.data_received(PROBE)
        await turns()
    assert statuses(wire) == [404, 200] * 3
    assert b"connection: close" not in wire.written
    assert not wire.closed


async def test_a_client_that_does_not_read_is_given_up(clock: Clock, shared: Connections) -> None:
    connection, wire = connected(shared=shared)
    connection.data_received(HEAD + b"plain")
    wire.backlog = 300_000
    connection.pause_writing()
    for _ in range(4):
        later(clock, shared, 2.4)
        connection.data_received(request(b"plain") * 2 + request(b"slow!"))
        await turns()
        assert not wire.aborted
    assert statuses(wire) == [200]
    later(clock, shared, 0.6)
    assert wire.aborted
    connection.connection_lost(None)
    await turns()


async def test_the_reply_to_a_client_that_was_cut_off_is_dropped(shared: Connections) -> None:
    faults: list[Exception] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await unread(scope, receive, send)
        except RuntimeError as fault:
            faults.append(fault)

    connection, wire = connected(app, shared)
    connection.data_received(HEAD + b"slow!")
    connection.abort()
    await turns()
    connection.connection_lost(None)
    assert wire.written == b""
    assert faults == []


async def test_a_client_that_reads_slowly_is_not(clock: Clock, shared: Connections) -> None:
    connection, wire = connected(shared=shared)
    wire.backlog = 300_000
    connection.pause_writing()
    while wire.backlog > 70_000:
        wire.backlog -= 66_000
        later(clock, shared, 10.1)
        assert not wire.aborted
    connection.resume_writing()
    connection.data_received(HEAD + b"plain")
    assert statuses(wire) == [200]


async def test_a_connection_that_can_not_be_closed_is_cut_off(clock: Clock, shared: Connections) -> None:
    _, wire = connected(shared=shared)
    later(clock, shared, 10.1)
    assert wire.closed
    later(clock, shared, 9.9)
    assert not wire.aborted
    later(clock, shared, 0.2)
    assert wire.aborted


async def test_nothing_is_swept_once_all_have_left(clock: Clock, shared: Connections, metrics: Metrics) -> None:
    first, _ = connected(shared=shared)
    second, _ = connected(shared=shared)
    assert metrics.connections == 2
    assert shared._sweeping is not None
    first.connection_lost(None)
    later(clock, shared, 1)
    assert shared._sweeping is not None
    second.connection_lost(None)
    later(clock, shared, 1)
    assert shared._sweeping is None
    assert metrics.connections == 0


@pytest.mark.parametrize("body", [b"plain", b"slow!"])
async def test_who_is_not_known_is_not_kept_for_long(clock: Clock, shared: Connections, body: bytes) -> None:
    stranger, stranger_wire = connected(unread, shared)
    known, known_wire = connected(shared=shared)
    stranger.data_received(PROBE)
    known.data_received(PROBE + HEAD + body)
    await turns()
    later(clock, shared, 1.9)
    assert not stranger_wire.closed
    stranger.data_received(PROBE)
    await turns()
    later(clock, shared, 1.9)
    assert not stranger_wire.closed
    later(clock, shared, 0.2)
    assert stranger_wire.closed
    later(clock, shared, 60)
    assert not known_wire.closed
