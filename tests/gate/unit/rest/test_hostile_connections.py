"""Requests that are made to harm: each is refused, and none is the end of what others do."""

import asyncio
import logging

import pytest
from starlette.types import Receive, Scope, Send

from app.rest.http.connections import Connections
from tests.wires import (
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

# targets that the parser takes and uvicorn doesn't


@pytest.mark.parametrize("line", [b"POST http:// HTTP/1.1", b"POST http://h HTTP/1.1", b"POST /\xff HTTP/1.1"])
async def test_a_target_that_means_nothing_is_refused_before_its_body_is_here(shared: Connections, line: bytes) -> None:
    connection, wire = connected(unread, shared)
    connection.data_received(HEAD.replace(LINE, line))
    connection.shutdown()
    await turns()
    assert statuses(wire) == [400]
    assert wire.closed


@pytest.mark.parametrize("step", ["finish", "drain", "time_out"])
async def test_a_connection_that_fails_is_the_end_of_no_other_one(
    clock: Clock,
    shared: Connections,
    step: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    def fails() -> None:
        raise ValueError("broken")

    made = [connected(unread, shared) for _ in range(5)]
    if step == "finish":
        for connection, _ in made:
            connection.data_received(HEAD + b"plain")
    broken = made[2]
    monkeypatch.setattr(broken[0], step, fails)
    others = [each for each in made if each is not broken]
    with caplog.at_level(logging.ERROR):
        if step == "finish":
            for connection, _ in made:
                connection.shutdown()
        elif step == "time_out":
            later(clock, shared, 10.1)
        else:
            shared.drain()
            assert shared.draining
            for connection, _ in others:
                connection.data_received(HEAD + b"plain")
    assert all(wire.closed for _, wire in others)
    assert broken[1].aborted
    assert [record.getMessage() for record in caplog.records] == ["connection_fault"]


# pipelines


@pytest.mark.parametrize("message", [b"GET / HTTP/1.1\r\nHost: k\r\n\r\n", request(b"slow"), PROBE])
async def test_a_pipeline_is_short(shared: Connections, message: bytes) -> None:
    begun: list[str] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        begun.append(scope["path"])
        await unread(scope, receive, send)

    connection, wire = connected(app, shared)
    connection.data_received(message * 1_000)
    assert len(connection.pipeline) == 16
    connection.data_received(message * 1_000)
    for _ in range(20):
        await turns()
    assert len(begun) == 17
    assert statuses(wire)[-1] == 429
    assert len(statuses(wire)) == 18
    assert wire.closed


async def test_seventeen_at_once_are_answered_again_and_again(shared: Connections) -> None:
    connection, wire = connected(shared=shared)
    for _ in range(3):
        connection.data_received(request(b"slow") * 17)
        for _ in range(20):
            await turns()
    assert statuses(wire) == [200] * 51
    assert not wire.closed


async def test_what_is_answered_at_once_is_no_pipeline(clock: Clock, shared: Connections) -> None:
    connection, wire = connected(shared=shared)
    connection.data_received(request(b"plain") * 200)
    assert statuses(wire) == [200] * 200
    assert clock.now == 1_000.0


async def test_one_long_segment_is_shed_when_its_turn_has_lasted_too_long(clock: Clock, shared: Connections) -> None:
    def slowly(*_: object) -> bytes:
        clock.now += 0.002
        return b"content-length: 2\r\n\r\nok"

    connection, wire = connected(shared=shared)
    connection._answer = slowly
    connection.data_received(request(b"plain") * 1_000)
    found = statuses(wire)
    assert found.count(200) < 40
    assert set(found[found.count(200) :]) == {429}
    assert len(found) == 1_000


# numbers


async def test_a_length_of_thousands_of_digits_is_refused(subtests: pytest.Subtests, shared: Connections) -> None:
    asked: list[str] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        asked.append(scope["path"])
        await unread(scope, receive, send)

    for line in [LINE, b"POST /v1/start HTTP/1.1", b"GET /livez HTTP/1.1"]:
        for more in [b"", b"Expect: 100-continue\r\n"]:
            with subtests.test(line=line, more=more):
                asked.clear()
                head = HEAD.replace(LINE, line + b"\r\n" + more[:-2] if more else line)
                for digits, expected in ((b"0" * 5_000 + b"5", [400]), (b"0" * 20 + b"5", [400])):
                    connection, wire = connected(app, shared)
                    connection.data_received(head.replace(b": 5", b": " + digits) + b"plain")
                    await turns()
                    assert statuses(wire) == expected
                    assert wire.closed
                assert asked == []
                connection, wire = connected(app, shared)
                connection.data_received(head.replace(b": 5", b": " + b"0" * 19 + b"5") + b"plain")
                await asyncio.sleep(0)
                await turns()
                assert statuses(wire)
                assert statuses(wire)[-1] != 400
