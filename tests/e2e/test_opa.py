"""The OPA door of a running service, over sockets: offers to upgrade, bad heads, bodies that do not come."""

import json
import re
import socket
from collections.abc import Iterator

import pytest

from tests.e2e.raw import connected, exchange, received
from tests.e2e.service import Service, action, binding, replica_on
from tests.unit.rest.opa_bodies import NEAR_PATHS, OPA_PATH, asked, by_type, check_plain, decision_of, refusal_of

OFFER = b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAEAAEAAAAIAAAABAAMAAABkAAQ\r\n"
BODY = json.dumps(asked()).encode()


@pytest.fixture(scope="module", autouse=True)
def acls(service: Service) -> None:
    service.create(binding("orders"))


def request(body: bytes = BODY, *headers: bytes) -> bytes:
    """A request as the plugin makes it."""
    lines = (
        f"POST {OPA_PATH} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n".encode(),
        *headers,
        b"Content-Length: %d\r\n\r\n" % len(body),
    )
    return b"".join(lines) + body


def replies(got: bytes) -> Iterator[tuple[int, str, bytes]]:
    """Status, content type and body of each reply."""
    while got:
        head, _, got = got.partition(b"\r\n\r\n")
        status, kind = re.search(rb"HTTP/1.1 (\d+)", head), re.search(rb"content-type: (\S+)", head)
        length = re.search(rb"content-length: (\d+)", head)
        assert status is not None
        assert kind is not None
        assert length is not None
        yield int(status[1]), kind[1].decode(), got[: int(length[1])]
        got = got[int(length[1]) :]


@pytest.mark.parametrize("cut", [1, 30, 200, len(request(BODY, OFFER)) - len(BODY), len(request(BODY, OFFER)) - 1])
def test_an_offer_to_upgrade_is_declined_wherever_the_request_is_cut(service: Service, cut: int) -> None:
    whole = request(BODY, OFFER)
    with connected(service) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        got = b""
        for times, parts in ((1, (whole[:cut], whole[cut:])), (2, (whole,))):
            for part in parts:
                connection.sendall(part)
            while got.count(b'{"result":') < times:
                some = connection.recv(65_536)
                assert some, got
                got += some
    assert list(replies(got)) == [(200, "application/json", b'{"result":true}')] * 2


def test_refusals_before_the_application_are_plain_text(service: Service) -> None:
    bad = (
        request(BODY, b"Content-Length: 5\r\n"),
        request(BODY, b"X: " + b"x" * 20_000 + b"\r\n"),
        request(BODY, b"Bad Header: x\r\n"),
        request().replace(b"HTTP/1.1", b"HTTP/x.y"),
        request(BODY, b"Content-Length: 5\r\n").replace(b"/data", b"/dat%61"),
        request(BODY, b"Host: other\r\n").replace(b"POST ", b"POST http://localhost"),
    )
    for each in bad:
        ((status, kind, body),) = replies(exchange(service, each))
        assert status in (400, 431)
        check_plain(kind, body)


@pytest.mark.parametrize("method", ["POST", "GET"])
def test_paths_that_are_nearly_the_door_s_are_refused_in_plain_text(service: Service, method: str) -> None:
    for path in (*NEAR_PATHS, "/v1/data", f"{OPA_PATH}/"):
        for line in (f"{method} {path} HTTP/1.1", f"{method} {path} HTTP/x"):
            whole = request().replace(f"POST {OPA_PATH} HTTP/1.1".encode(), line.encode())
            ((status, kind, body),) = replies(exchange(service, whole))
            assert status == (400 if line.endswith("x") else 404), path
            check_plain(kind, body)


@pytest.mark.parametrize(
    ("length", "body", "refusal"),
    [
        (b"Content-Length: 9", BODY[:5], (408, b"INVALID_REQUEST")),
        (b"Transfer-Encoding: chunked", b"5\r\n%b\r\n" % BODY[:5], (504, b"REQUEST_TIMED_OUT")),
    ],
)
def test_a_body_that_does_not_come_is_given_up(
    service: Service, length: bytes, body: bytes, refusal: tuple[int, bytes]
) -> None:
    head = request(b"").replace(b"Content-Length: 0", length)
    with connected(service) as connection:
        connection.sendall(head + body)
        ((status, kind, told),) = replies(received(connection))
    assert (status, told) == refusal
    check_plain(kind, told)


def test_a_replica_that_is_not_ready_says_so_in_plain_text() -> None:
    with replica_on("postgresql://klamm@127.0.0.1:9/klamm") as service:
        assert decision_of(service.http.post(OPA_PATH, json=asked(principal="admin")))
        for body in (asked(), by_type()):
            assert refusal_of(service.http.post(OPA_PATH, json=body)) == (503, "AUTHORIZER_NOT_READY")


def test_a_decision_of_one_door_is_that_of_the_other(service: Service) -> None:
    for operation, expected in (("READ", True), ("DESCRIBE", True), ("WRITE", False)):
        assert decision_of(service.http.post(OPA_PATH, json=asked(operation))) is expected
        assert service.authorize("User:alice", action("orders", operation)) == ["ALLOWED" if expected else "DENIED"]
