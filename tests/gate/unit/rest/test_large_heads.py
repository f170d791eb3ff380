"""Heads that are too long, or say something twice."""

import asyncio

import pytest
from starlette.types import Receive, Scope, Send

from app.rest.http.connections import Connections
from app.rest.http.heads import plain_head
from tests.wires import (
    CHUNKED,
    HEAD,
    LINE,
    connected,
    request,
    statuses,
    turns,
    unread,
)


def lines(count: int, size: int = 10) -> bytes:
    return b"".join(b"X-%d: %b\r\n" % (at, b"x" * size) for at in range(count))


async def test_a_head_of_sixteen_kibibytes_is_read(shared: Connections) -> None:
    connection, wire = connected(shared=shared)
    connection.data_received(HEAD[:-2] + lines(90, 170) + b"\r\nplain")
    assert statuses(wire) == [200]


HUGE: dict[str, bytes] = {
    "one header": HEAD[:-2] + b"X: " + b"x" * 40_000 + b"\r\n\r\nplain",
    "many bytes": HEAD[:-2] + lines(90, 190) + b"\r\nplain",
    "many lines": HEAD[:-2] + lines(100) + b"\r\nplain",
    "a long path": b"GET /%b HTTP/1.1\r\n\r\n" % (b"x" * 40_000),
    "a header without end": HEAD[:-2] + b"X: " + b"x" * 40_000,
    "a name without end": HEAD[:-2] + b"x" * 40_000,
    "a trailer": CHUNKED + b"0\r\nX: " + b"x" * 40_000 + b"\r\n\r\n",
    "trailers": CHUNKED + b"0\r\n" + lines(2_000),
    "an extension of a chunk": CHUNKED + b"1;" + b"x" * 40_000,
    "extensions of chunks": CHUNKED + (b"1;" + b"x" * 4_000 + b"\r\na\r\n") * 10,
}


MORE = {"extensions of chunks": (b"1;" + b"x" * 4_000 + b"\r\na\r\n") * 5}


async def test_more_head_than_sixteen_kibibytes_is_refused_while_it_comes(
    subtests: pytest.Subtests, shared: Connections
) -> None:
    for behind in [b"", request(b"plain"), request(b"slow")]:
        for piece in [100, 1_460, 65_536]:
            for what, head in HUGE.items():
                with subtests.test(behind=behind, piece=piece, what=what):
                    connection, wire = connected(shared=shared)
                    data = behind + head
                    needed = len(data)
                    for start in range(0, len(data), piece):
                        connection.data_received(data[start : start + piece])
                        await turns()
                        if wire.closed:
                            needed = start + piece
                            break
                    if not wire.closed:
                        # The parser doesn't tell of what it hasn't read to its end, nor where it began: the next
                        # segment shows it.
                        assert piece > len(data)
                        connection.data_received(MORE.get(what, b"x" * 17_000))
                        await turns()
                    assert statuses(wire) == [200] * bool(behind) + [431]
                    assert wire.closed
                    assert needed <= len(behind) + 25_000 + piece


async def test_small_chunks_are_no_large_head(shared: Connections) -> None:
    connection, wire = connected(shared=shared)
    connection.data_received(CHUNKED)
    for _ in range(100):
        connection.data_received(b"1\r\nx\r\n" * 200)
    connection.data_received(b"0\r\n\r\n")
    await turns()
    assert statuses(wire) == [200]


@pytest.mark.parametrize("path", [b"/v1/authorize", b"/v1/start"])
async def test_a_body_in_pieces_is_no_large_head(shared: Connections, path: bytes) -> None:
    connection, wire = connected(shared=shared)
    connection.data_received(HEAD.replace(b": 5", b": 50000").replace(b"/v1/authorize", path))
    for _ in range(50):
        connection.data_received(b" " * 1_000)
    await turns()
    assert statuses(wire) == [200]


async def test_what_trails_a_body_is_not_taken_for_a_header(shared: Connections) -> None:
    connection, wire = connected(shared=shared)
    connection.data_received(CHUNKED + b"1\r\nx\r\n0\r\nAuthorization: Bearer x\r\n\r\n")
    await turns()
    assert statuses(wire) == [200]
    assert b"authorization" not in wire.written.lower()


async def test_what_must_be_said_once_is_refused_when_said_twice(
    subtests: pytest.Subtests, shared: Connections
) -> None:
    for name in [b"Host", b"AUTHORIZATION", b"content-length"]:
        for line in [LINE, b"POST /v1/start HTTP/1.1"]:
            with subtests.test(name=name, line=line):
                connection, wire = connected(shared=shared)
                connection.data_received(request(b"plain", name + b": 5", name.lower() + b": 5", line=line))
                await turns()
                assert statuses(wire) == [400]
                assert wire.closed
                assert plain_head(request(b"plain", name + b": 5", name.lower() + b": 5")[:-5]) is None


async def test_a_refusal_waits_for_the_replies_to_what_came_before(shared: Connections) -> None:
    async def waits(scope: Scope, receive: Receive, send: Send) -> None:
        await go_on.wait()
        await unread(scope, receive, send)

    go_on = asyncio.Event()
    connection, wire = connected(waits, shared)
    connection.data_received(request(b"slow") * 2 + b"garbage\r\n\r\n")
    connection.data_received(request(b"plain"))
    await turns()
    assert wire.written == b""
    go_on.set()
    await turns()
    assert statuses(wire) == [404, 404, 400]
    assert wire.closed


async def test_a_bad_chunk_is_refused_though_its_request_is_being_read(shared: Connections) -> None:
    connection, wire = connected(shared=shared)
    connection.data_received(CHUNKED)
    await turns()
    connection.data_received(b"zz\r\n")
    await turns()
    assert statuses(wire) == [400]
    assert wire.closed
