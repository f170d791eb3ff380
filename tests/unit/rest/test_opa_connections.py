"""What the server refuses before it asks the application: in plain text to those who ask the OPA door."""

import asyncio
import json
import re

import pytest
from starlette.types import Receive, Scope, Send

from app.metrics.declared import Metrics
from app.rest.bodies.opa import OPA_DEADLINE_S
from app.rest.http.connections import Connections
from tests.cases import each_case
from tests.unit.rest.opa_bodies import NEAR_PATHS, OPA_PATH, check_plain
from tests.unit.rest.wires import TYPE, Clock, Wire, connected, later, request, statuses, turns

LINE = f"POST {OPA_PATH} HTTP/1.1".encode()
LENGTH = b"Content-Length: 5"


def refusal(wire: Wire) -> tuple[int, str]:
    """Status and code of the one reply."""
    (status,) = statuses(wire)
    head, _, body = wire.written.partition(b"\r\n\r\n")
    found = re.search(rb"content-type: (\S+)", head)
    assert found is not None
    check_plain(found[1].decode(), body)
    assert b"content-length: %d\r\n" % len(body) in head
    return status, body.decode()


@each_case(
    ("parts", "expected"),
    [
        ((b"Content-Length: 5", b"Content-Length: 5"), (400, "INVALID_REQUEST")),
        ((b"Host: a", b"Host: b", LENGTH), (400, "INVALID_REQUEST")),
        ((b"Authorization: a", b"Authorization: a", LENGTH), (400, "INVALID_REQUEST")),
        ((b"Content-Length: x",), (400, "INVALID_REQUEST")),
        ((b"Content-Length: %d" % 10**30,), (400, "INVALID_REQUEST")),
        ((b"Bad Header: 5",), (400, "INVALID_REQUEST")),
        ((b"X: " + b"x" * 17_000,), (431, "INVALID_REQUEST")),
        (tuple(b"X-%d: x" % n for n in range(101)), (431, "INVALID_REQUEST")),
    ],
)
@each_case("target", ["", "/cluster", "?pretty", "?x=/v1/acls"])
async def test_bad_heads_are_refused_in_plain_text(
    shared: Connections, parts: tuple[bytes, ...], expected: tuple[int, str], target: str
) -> None:
    connection, wire = connected(shared=shared)
    line = f"POST {OPA_PATH}{target} HTTP/1.1".encode()
    connection.data_received(b"\r\n".join((line, TYPE, *parts, b"", b"")) + b"01234")
    await turns()
    assert refusal(wire) == expected


@each_case(
    "target",
    [
        "/v1/dat%61/kafka/authz/allow",
        "/v1%2Fdata",
        "/v1/data#x",
        "/v1/data/%ff",
        f"http://k{OPA_PATH}",
        "https://u@[::1]:80/%761/data?x#y",
        *NEAR_PATHS,
    ],
)
@each_case("repeated", [LENGTH, b"Host: a"])
async def test_those_who_spell_the_path_otherwise_are_refused_in_plain_text(
    shared: Connections, target: str, repeated: bytes
) -> None:
    connection, wire = connected(shared=shared)
    connection.data_received(b"\r\n".join((f"POST {target} HTTP/1.1".encode(), TYPE, repeated, repeated, b"", b"")))
    await turns()
    assert refusal(wire) == (400, "INVALID_REQUEST")


@each_case("target", [OPA_PATH, *NEAR_PATHS])
@each_case("line", ["P@ST %s HTTP/1.1", "post %s HTTP/1.1", "POST %s\x01 HTTP/1.1", "POST %s HTTP/x"])
async def test_no_line_is_too_bad_for_plain_text(shared: Connections, line: str, target: str) -> None:
    connection, wire = connected(shared=shared)
    connection.data_received(f"{line % target}\r\n\r\n".encode())
    await turns()
    assert refusal(wire) == (400, "INVALID_REQUEST")


async def test_a_path_longer_than_any_head_is_refused_in_plain_text(shared: Connections) -> None:
    connection, wire = connected(shared=shared)
    whole = f"POST {OPA_PATH}/{'x' * 40_000} HTTP/1.1\r\n".encode()
    for start in range(0, len(whole), 10_000):
        connection.data_received(whole[start : start + 10_000])
    await turns()
    assert refusal(wire) == (431, "INVALID_REQUEST")


@pytest.mark.parametrize("times", [1, 2])
@pytest.mark.parametrize(("line", "asks_opa"), [(LINE, True), (b"POST /v1/authorize HTTP/1.1", False)])
async def test_who_asked_there_before_asks_there_again_as_far_as_one_knows(
    clock: Clock, shared: Connections, times: int, line: bytes, *, asks_opa: bool
) -> None:
    for _ in range(times):
        # The second one is answered by the head that is remembered, without the parser.
        connection, wire = connected(shared=shared)
        connection.data_received(request(b"x", line=line))
        await turns()
    assert statuses(wire) == [200]
    wire.written = b""
    connection.data_received(b"POS")
    later(clock, shared, 80)
    assert statuses(wire) == [408]
    assert (b"content-type: text/plain\r\n" in wire.written) == asks_opa


@each_case(
    "path",
    [
        "/v1/authorize",
        "/v1/database",
        "/v1/dat",
        "/v1/acls?/v1/data",
        "/v1/acls/v1/data/kafka/authz/allow",
        "http://v1/data",
        "http://k/v1/acls#/v1/data",
        "http://k?/v1/data",
        "*",
    ],
)
async def test_all_others_are_refused_as_ever(shared: Connections, path: str) -> None:
    connection, wire = connected(shared=shared)
    connection.data_received(b"\r\n".join((f"POST {path} HTTP/1.1".encode(), LENGTH, LENGTH, b"", b"")))
    await turns()
    assert b"content-type: application/problem+json\r\n" in wire.written
    assert json.loads(wire.written.partition(b"\r\n\r\n")[2])["code"] == "INVALID_REQUEST"


async def test_what_was_no_http_at_all_is_refused_as_ever(shared: Connections) -> None:
    connection, wire = connected(shared=shared)
    connection.data_received(b"\x16\x03\x01")
    await turns()
    assert statuses(wire) == [400]
    assert b"content-type: application/problem+json\r\n" in wire.written


async def test_a_connection_too_many_is_refused_in_plain_text(metrics: Metrics) -> None:
    shared = Connections(metrics, maximum=1)
    hanging = asyncio.Event()

    async def slow(_: Scope, __: Receive, ___: Send) -> None:
        await hanging.wait()

    first, _ = connected(slow, shared)
    first.data_received(request(b"slow!"))
    await turns()
    second, wire = connected(shared=shared)
    second.data_received(request(b"01234", line=LINE))
    await turns()
    assert refusal(wire) == (429, "OVERLOADED")
    assert b"retry-after: 1\r\n" in wire.written
    hanging.set()


async def test_a_body_is_not_waited_for_longer_than_the_deadline(clock: Clock, shared: Connections) -> None:
    connection, wire = connected(shared=shared)
    connection.data_received(request(b"01234", line=LINE)[:-1])
    later(clock, shared, OPA_DEADLINE_S - 0.1)
    assert wire.written == b""
    later(clock, shared, 0.2)
    assert refusal(wire) == (408, "INVALID_REQUEST")
