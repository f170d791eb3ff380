"""What the server answers by itself, without the application: the whole reply."""

import json
import re
from typing import NamedTuple

import pytest

from app.metrics.declared import Metrics
from app.rest.http import bounds
from app.rest.http.connections import Connections
from tests.wires import HEAD, HOST, Clock, connected, later, request, turns

GET = b"GET /v1/acls HTTP/1.1"
INVALID, OVERLOADED = ("INVALID_REQUEST", 42, False), ("OVERLOADED", -1, True)
SLOW = "the request did not arrive within 10 s; send the whole of it at once"


class Case(NamedTuple):
    name: str
    sent: bytes
    status: bytes
    problem: tuple[str, int, bool]
    """Its code, its number, and whether it is retriable."""
    detail: str
    most: int = 9
    """How many connections there may be."""


def head(*lines: bytes) -> bytes:
    return b"\r\n".join((GET, *lines, b"", b""))


CASES = (
    Case("no HTTP", b"hello\r\n\r\n", b"400 Bad Request", INVALID, "this is not a valid HTTP/1.1 request"),
    Case(
        "a header twice",
        head(HOST, HOST),
        b"400 Bad Request",
        INVALID,
        "`Authorization`, `Content-Length` and `Host` must not be repeated; send one of each",
    ),
    Case("no host", head(), b"400 Bad Request", INVALID, "an HTTP/1.1 request must have a `Host` header; send one"),
    Case(
        "many headers",
        head(HOST, *[b"a: b"] * 100),
        b"431 Request Header Fields Too Large",
        INVALID,
        "the headers exceed 16384 bytes or 100 lines; send fewer or shorter ones",
    ),
    Case("half a head", HEAD[:20], b"408 Request Timeout", INVALID, SLOW),
    Case("half a body", HEAD + b"pl", b"408 Request Timeout", INVALID, SLOW),
    Case(
        "one connection too many",
        head(HOST),
        b"429 Too Many Requests",
        OVERLOADED,
        "the service has reached its maximum of connections; nothing was done, try again shortly",
        0,
    ),
    Case(
        "many requests at once",
        request(b"slow!") * (bounds.MAX_PIPELINED + 2),
        b"429 Too Many Requests",
        OVERLOADED,
        "the service is overloaded; nothing was done, try again shortly",
    ),
)


async def test_each_refusal_of_the_server_is_a_problem_with_its_headers(
    subtests: pytest.Subtests, clock: Clock, metrics: Metrics
) -> None:
    for case in CASES:
        with subtests.test(case=case.name):
            shared = Connections(metrics, case.most)
            connection, wire = connected(shared=shared)
            connection.data_received(case.sent)
            for _ in range(bounds.MAX_PIPELINED):
                await turns()
            later(clock, shared, 10.1)
            *_, reply = re.split(rb"HTTP/1\.1 (?=\d{3} )", wire.written)
            lines, _, body = reply.partition(b"\r\n\r\n")
            status, *headers = lines.split(b"\r\n")
            code, number, retriable = case.problem
            assert status == case.status
            assert set(headers) == {
                *(b"date: now", b"connection: close", *[b"retry-after: 1"] * retriable),
                *(b"content-type: application/problem+json", b"content-length: %d" % len(body)),
            }
            assert json.loads(body) == {
                "type": f"urn:klamm:error:{code}",
                "title": code.replace("_", " ").capitalize(),
                "status": int(status[:3]),
                "detail": case.detail,
                "code": code,
                "error_code": number,
                "retriable": retriable,
            }
            assert wire.closed
