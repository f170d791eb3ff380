"""What the server's own protocol does with authorize requests: the fast way and uvicorn's way must say the same."""

import json
import signal
import socket
import time

import pytest

from tests.klamm import Process, acl, action, context, wait_until
from tests.raw import connected

BODY = json.dumps(
    {"context": context("User:alice"), "actions": [action("orders"), action("orders", operation="WRITE")]}
).encode()
OFFER = b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAEAAEAAAAIAAAABAAMAAABkAAQ\r\n"
REPLY = b'{"results":["ALLOWED","DENIED"],'


def request(*headers: bytes, body: bytes = BODY, target: bytes = b"/v1/authorize", version: bytes = b"1.1") -> bytes:
    lines = (
        b"POST %b HTTP/%b\r\nHost: localhost\r\nContent-Type: application/json\r\n" % (target, version),
        *headers,
        b"Content-Length: %d\r\n\r\n" % len(body),
    )
    return b"".join(lines) + body


@pytest.fixture(scope="module", autouse=True)
def acls(service: Process) -> None:
    service.create(acl("orders"))


def answers(connection: socket.socket, count: int) -> list[bytes]:
    """So many whole answers, heads and bodies."""
    found: list[bytes] = []
    got = b""
    while len(found) < count:
        head, end, rest = got.partition(b"\r\n\r\n")
        length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0] or 0)
        if end and len(rest) >= length:
            found.append(got[: len(head) + 4 + length])
            got = got[len(head) + 4 + length :]
            continue
        some = connection.recv(65_536)
        assert some, f"hung up after {got!r}"
        got += some
    assert not got
    return found


def test_an_offer_to_upgrade_is_declined_wherever_the_segments_are_cut(service: Process) -> None:
    whole = request(OFFER)
    for cut in range(1, len(whole), 7):
        with connected(service) as connection:
            connection.sendall(whole[:cut])
            connection.sendall(whole[cut:])
            for _ in range(2):
                (answer,) = answers(connection, 1)
                assert answer.startswith(b"HTTP/1.1 200 OK\r\n")
                assert REPLY in answer
                connection.sendall(whole)
            answers(connection, 1)


def test_an_offer_on_another_route_loses_no_body_either(service: Process) -> None:
    body = json.dumps({"context": context("User:alice"), "groups": ["g"]}).encode()
    with connected(service) as connection:
        connection.sendall(request(OFFER, body=body, target=b"/v1/list-groups"))
        (answer,) = answers(connection, 1)
    assert answer.startswith(b"HTTP/1.1 200")


def test_a_connection_that_offers_and_wants_to_close_is_closed(service: Process) -> None:
    offer = OFFER.replace(b"Upgrade, ", b"close, Upgrade, ")
    with connected(service) as connection:
        connection.sendall(request(offer))
        (answer,) = answers(connection, 1)
        assert REPLY in answer
        assert connection.recv(1) == b""


@pytest.mark.parametrize("more", [b"", OFFER, OFFER * 3, b"Proxy-Connection: Upgrade\r\nUpgrade: websocket\r\n"])
@pytest.mark.parametrize("line", [b"CONNECT k:443 HTTP/1.1", b"PRI * HTTP/2.0"])
def test_what_can_not_be_declined_is_refused_and_hung_up_on(service: Process, line: bytes, more: bytes) -> None:
    with connected(service) as connection:
        connection.sendall(line + b"\r\nHost: localhost\r\n" + more + b"\r\n")
        assert connection.recv(65_536).startswith(b"HTTP/1.1 400")
        assert connection.recv(1) == b""
    assert service.authorize("User:alice", action("orders")) == ["ALLOWED"]


@pytest.mark.parametrize(
    "offer",
    [
        OFFER * 2,
        b"Proxy-Connection: Upgrade\r\n" + OFFER,
        b"Connection: keep-alive\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nUpgrade: h2c\r\n",
    ],
)
def test_odd_offers_are_answered_one_way_or_the_other(service: Process, offer: bytes) -> None:
    with connected(service) as connection:
        connection.sendall(request(offer))
        (answer,) = answers(connection, 1)
    assert answer[9:12] in (b"200", b"400")


def test_pipelined_requests_are_answered_in_order_whichever_way_they_take(service: Process) -> None:
    token = service.post("/v1/authorize", json.loads(BODY))["token"]
    slow = json.dumps({**json.loads(BODY), "at_least": token}).encode()
    wrong = BODY.replace(b"READ", b"REED")
    with connected(service) as connection:
        parts = [request(), request(body=slow), request(), request(body=wrong), request(), request(OFFER), request()]
        connection.sendall(b"".join(parts))
        found = answers(connection, len(parts))
    statuses = [int(answer[9:12]) for answer in found]
    assert statuses == [200, 200, 200, 400, 200, 200, 200]
    assert all(REPLY in answer for answer, status in zip(found, statuses, strict=True) if status == 200)


@pytest.mark.parametrize(
    "whole",
    [
        pytest.param(request(b"Connection: close\r\n"), id="close"),
        pytest.param(request(version=b"1.0"), id="HTTP/1.0"),
        pytest.param(request(target=b"/v1/authorize?"), id="query"),
        pytest.param(request(target=b"/v1/%61uthorize"), id="escaped"),
        pytest.param(
            request().replace(
                b"Content-Length: %d\r\n\r\n" % len(BODY), b"Transfer-Encoding: chunked\r\n\r\n%x\r\n" % len(BODY)
            )
            + b"\r\n0\r\n\r\n",
            id="chunked",
        ),
    ],
)
def test_requests_that_are_not_plain_get_the_same_answer(service: Process, whole: bytes) -> None:
    with connected(service) as connection:
        connection.sendall(whole)
        (answer,) = answers(connection, 1)
    assert answer.startswith(b"HTTP/1.1 200")
    assert REPLY in answer


def test_a_body_is_waited_for_when_the_client_expects_to_be_asked(service: Process) -> None:
    head, _, body = request(b"Expect: 100-continue\r\n").partition(b"\r\n\r\n")
    with connected(service) as connection:
        connection.sendall(head + b"\r\n\r\n")
        assert connection.recv(100).startswith(b"HTTP/1.1 100 Continue")
        connection.sendall(body)
        (answer,) = answers(connection, 1)
    assert REPLY in answer


def test_a_body_that_is_too_large_is_refused_while_it_comes(service: Process) -> None:
    head = request(body=b"").replace(b"Content-Length: 0", b"Transfer-Encoding: chunked")
    with connected(service) as connection:
        connection.sendall(head)
        for _ in range(20):
            connection.sendall(b"10000\r\n" + b"x" * 65_536 + b"\r\n")
        (answer,) = answers(connection, 1)
    assert answer.startswith(b"HTTP/1.1 413")


def test_who_does_not_read_does_not_fill_the_memory(service: Process) -> None:
    with connected(service) as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        connection.settimeout(2)
        with pytest.raises(TimeoutError):
            connection.sendall(request() * 600_000)
    assert service.authorize("User:alice", action("orders")) == ["ALLOWED"]


def test_a_body_that_comes_in_its_own_time_is_waited_for(service: Process) -> None:
    whole = request()
    head, body = whole[: -len(BODY)], whole[-len(BODY) :]
    with connected(service) as connection:
        for part in (head[:20], head[20:], body[:10], body[10:-1], body[-1:], head, body):
            connection.sendall(part)
        assert all(REPLY in answer for answer in answers(connection, 2))


def test_a_client_that_leaves_in_the_middle_hinders_nobody(service: Process) -> None:
    whole = request()
    for cut in (30, len(whole) - len(BODY), len(whole) - 1):
        with connected(service) as connection:
            connection.sendall(whole[:cut])
    assert service.authorize("User:alice", action("orders")) == ["ALLOWED"]


def test_a_body_that_never_ends_is_given_up(service: Process) -> None:
    with connected(service) as connection:
        connection.sendall(request()[:-1])
        (answer,) = answers(connection, 1)
    assert answer.startswith(b"HTTP/1.1 408")


def test_many_requests_at_once_are_answered_if_that_takes_no_wait(service: Process) -> None:
    def are_answered() -> bool:
        time.sleep(0.1)  # overload ends with a pause
        with connected(service) as connection:
            connection.sendall(request() * 200)
            return all(REPLY in answer for answer in answers(connection, 200))

    # A machine whose cores are busy elsewhere for a moment makes some of them too late, and they are refused.
    wait_until(are_answered, "all 200 are answered")


def test_few_requests_may_wait_for_the_one_before_them(service: Process) -> None:
    with connected(service) as connection:
        connection.sendall(b"GET /nowhere HTTP/1.1\r\nHost: localhost\r\n\r\n" * 5_000)
        found = answers(connection, 18)
        assert [answer[9:12] for answer in found] == [b"404"] * 17 + [b"429"]


@pytest.mark.parametrize("path", [b"/v1/%61uthorize", b"/v1/list-groups", b"/v1/acls/count"])
def test_a_connection_is_kept_for_those_who_are_known(service: Process, path: bytes) -> None:
    body = (
        json.dumps({"context": context("User:alice"), "groups": ["g"]}).encode() if path.endswith(b"groups") else BODY
    )
    asked = request(target=path, body=body)
    if path.endswith(b"count"):
        asked = b"GET %b HTTP/1.1\r\nHost: localhost\r\n\r\n" % path
    with connected(service) as known, connected(service) as stranger:
        known.sendall(asked)
        assert answers(known, 1)[0].startswith(b"HTTP/1.1 200")
        stranger.sendall(b"GET /readyz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        answers(stranger, 1)
        assert stranger.recv(1) == b"", "whoever only asks how the service is leaves first"
        known.sendall(asked)
        assert answers(known, 1)[0].startswith(b"HTTP/1.1 200")


def test_a_request_that_came_in_time_is_answered_by_a_process_that_stood_still(service: Process) -> None:
    """Its loop looks at deadlines before it reads: a stranger's connection is kept for two seconds, which are over."""
    probe = b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n"
    came_in_time = False
    while not came_in_time:
        with connected(service) as connection:
            began = time.monotonic()
            connection.sendall(probe)
            (answer,) = answers(connection, 1)
            assert b"\r\nkeep-alive: timeout=2\r\n" in answer
            service.process.send_signal(signal.SIGSTOP)
            try:
                # Its next look is due before the request comes.
                time.sleep(0.5)
                connection.sendall(probe)
                came_in_time = time.monotonic() < began + 2
                time.sleep(3)
            finally:
                service.process.send_signal(signal.SIGCONT)
            if came_in_time:
                answers(connection, 1)
