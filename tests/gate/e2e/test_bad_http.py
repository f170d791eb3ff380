"""Trash on the socket: bytes that are no HTTP, requests that lie, clients that leave.

What takes long, or searches, is in tests/proof/e2e/test_bad_http.py.
"""

import json
import socket

import pytest

from tests.bodies import BODIES
from tests.klamm import Json, Process, acl, action, context
from tests.raw import connected, exchange, received, statuses

MIB = 1024 * 1024
BODY = json.dumps(BODIES["/v1/authorize"]).encode()
CREATE = json.dumps(BODIES["/v1/acls"]).encode()
LENGTH = b"Content-Length: %d\r\n" % len(BODY)
HEAD = b"POST /v1/authorize HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"


NO_REQUESTS: dict[str, bytes] = {
    "nothing": b"",
    "line feeds": b"\r\n" * 100,
    "zeros": b"\0" * 10_000,
    "text": b"hello?\r\n\r\n",
    "a TLS hello": bytes.fromhex("16030100c8010000c40303") + bytes(200),
    "HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(9),
    "SSH": b"SSH-2.0-OpenSSH_9.0\r\n",
    "a Kafka request": bytes.fromhex("00000023001200000000000100076b6c616d6d") + bytes(20),
    "a version from the future": b"GET /livez HTTP/9.9\r\nHost: localhost\r\n\r\n",
    "no path": b"GET HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "a raw byte in the path": b"GET /\xff HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "a NUL in the path": b"GET /\0 HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "a path without a slash": b"GET livez HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "a header without a name": HEAD + b": x\r\n\r\n",
    "a header without a colon": HEAD + b"nonsense\r\n\r\n",
    "a space before the colon": HEAD + b"Content-Length : 2\r\n\r\n{}",
    "a folded header": HEAD + b"X: a\r\n b\r\n" + LENGTH + b"\r\n" + BODY,
    "a bare line feed": b"POST /v1/authorize HTTP/1.1\nHost: localhost\n" + LENGTH + b"\n" + BODY,
    "a NUL in a header": HEAD + b"X: a\0b\r\n" + LENGTH + b"\r\n" + BODY,
    "two lengths that differ": HEAD + LENGTH + b"Content-Length: 5\r\n\r\n" + BODY,
    "a negative length": HEAD + b"Content-Length: -1\r\n\r\n" + BODY,
    "a length with a plus": HEAD + b"Content-Length: +5\r\n\r\n" + BODY,
    "a hexadecimal length": HEAD + b"Content-Length: 0x10\r\n\r\n" + BODY,
    "a length that is no number": HEAD + b"Content-Length: many\r\n\r\n" + BODY,
    "a length beyond 64 bits": HEAD + b"Content-Length: 99999999999999999999\r\n\r\n" + BODY,
    "a length and chunks": HEAD + LENGTH + b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + BODY,
    "chunks and a length": HEAD + b"Transfer-Encoding: chunked\r\n" + LENGTH + b"\r\n0\r\n\r\n" + BODY,
    "an unknown transfer encoding": HEAD + b"Transfer-Encoding: gzip\r\n\r\n" + BODY,
    "chunked before another": HEAD + b"Transfer-Encoding: chunked, gzip\r\n\r\n0\r\n\r\n",
    "a chunk size that is none": HEAD + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n0\r\n\r\n",
    "a chunk size beyond 64 bits": HEAD + b"Transfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\n{}",
    "a negative chunk size": HEAD + b"Transfer-Encoding: chunked\r\n\r\n-1\r\n{}\r\n0\r\n\r\n",
    "a chunk that is longer than it says": HEAD + b"Transfer-Encoding: chunked\r\n\r\n1\r\n{}}}}\r\n0\r\n\r\n",
    "a CONNECT": b"CONNECT example.org:443 HTTP/1.1\r\nHost: example.org:443\r\n\r\n",
}


def test_what_is_no_request_is_refused_or_left(service: Process, subtests: pytest.Subtests) -> None:
    for what, sent in NO_REQUESTS.items():
        with subtests.test(what):
            came = statuses(exchange(service, sent))
            assert len(came) <= 1, "bytes behind a bad request were taken for another one"
            assert all(400 <= status < 500 for status in came) or came == [501]


SHORT: dict[str, bytes] = {
    "half a request line": b"POST /v1/auth",
    "half a head": HEAD[:-20],
    "no body": HEAD + LENGTH + b"\r\n",
    "half a body": HEAD + LENGTH + b"\r\n" + BODY[:20],
    "half a chunk": HEAD + b"Transfer-Encoding: chunked\r\n\r\n100\r\n{",
    "no last chunk": HEAD + b"Transfer-Encoding: chunked\r\n\r\n%x\r\n%b\r\n" % (len(BODY), BODY),
}


def test_a_client_that_leaves_in_the_middle_gets_no_decision(service: Process, subtests: pytest.Subtests) -> None:
    for what, sent in SHORT.items():
        with subtests.test(what):
            assert b"ALLOWED" not in exchange(service, sent)
            create = sent.replace(b"/v1/authorize", b"/v1/acls").replace(BODY, CREATE).replace(BODY[:20], CREATE[:20])
            exchange(service, create)
            assert service.http.get("/livez").status_code == 200


@pytest.mark.parametrize("length", [8 * MIB + 1, 2**31, 2**53, 2**63 - 1])
def test_a_body_that_is_announced_too_large_is_refused_before_it_comes(service: Process, length: int) -> None:
    for path in BODIES:
        head = HEAD.replace(b"/v1/authorize", path.encode())
        with connected(service) as connection:
            connection.sendall(head + b"Content-Length: %d\r\n\r\n{" % length)
            assert statuses(connection.recv(65_536)) == [413]


def test_expect_100_continue_is_obeyed(service: Process) -> None:
    with connected(service) as connection:
        connection.sendall(HEAD + LENGTH + b"Expect: 100-continue\r\n\r\n")
        assert connection.recv(100).startswith(b"HTTP/1.1 100 ")
        connection.sendall(BODY)
        connection.shutdown(socket.SHUT_WR)
        assert b'{"results":["ALLOWED"]' in received(connection)


def test_requests_in_a_row_on_one_connection_are_answered_in_order(service: Process) -> None:
    """Pipelined, split anywhere."""
    bodies = [question_of(name) for name in ("a", "b", "c")]
    service.create(acl("b", "User:pipe"))
    stream = b"".join(HEAD + b"Content-Length: %d\r\n\r\n%b" % (len(body), body) for body in bodies)
    for size in (1, 3, 50, len(stream)):
        parts = [stream[start : start + size] for start in range(0, len(stream), size)]
        with connected(service) as connection:
            for part in parts:
                connection.sendall(part)
            got = b""
            while got.count(b'"token"') < len(bodies):
                some = connection.recv(65_536)
                assert some, got
                got += some
        assert [b"ALLOWED" in each for each in got.split(b'"token"')[:-1]] == [False, True, False]


def question_of(name: str) -> bytes:
    body: Json = {"context": context("User:pipe"), "actions": [action(name)]}
    return json.dumps(body).encode()


def test_http_1_0_is_answered(service: Process) -> None:
    reply = exchange(service, HEAD.replace(b"HTTP/1.1", b"HTTP/1.0") + LENGTH + b"\r\n" + BODY, then_close=False)
    assert statuses(reply) == [200]


def test_an_offer_to_upgrade_does_not_lead_to_a_wrong_answer(service: Process) -> None:
    for offer in (b"h2c", b"websocket", b"TLS/1.0"):
        offered = HEAD + b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: %b\r\nHTTP2-Settings: AAEA\r\n" % offer
        reply = exchange(service, offered + LENGTH + b"\r\n" + BODY)
        assert len(statuses(reply)) == 1
        assert statuses(reply)[0] in (200, 400)
