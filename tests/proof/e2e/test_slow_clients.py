"""Clients that take their time, or send without end: each is cut off, and nobody else notices."""

import json
import select
import socket
import time
from contextlib import ExitStack, suppress

import pytest

from tests.bench.report import percentile
from tests.bodies import BODIES
from tests.klamm import Process, action
from tests.raw import connected, statuses

BODY = json.dumps(BODIES["/v1/authorize"]).encode()
HEAD = b"POST /v1/authorize HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
START = HEAD.replace(b"/v1/authorize", b"/v1/start")
CHUNKED = b"Transfer-Encoding: chunked\r\n\r\n"
LENGTH = b"Content-Length: %d\r\n\r\n" % len(BODY)
CROWD = 500


class Slow:
    """What a client sends at first, what it sends every second, and what becomes of it."""

    def __init__(self, first: bytes, drip: bytes, expected: list[int], within_s: float = 16.0) -> None:
        self.first = first
        self.drip = drip
        self.expected = expected
        self.within_s = within_s
        self.reply = b""
        self.ended_s: float | None = None

    def read(self, connection: socket.socket, after_s: float) -> None:
        with suppress(ConnectionResetError):
            some = connection.recv(65_536)
            self.reply += some
            if some:
                return
        self.ended_s = after_s


def clients() -> dict[str, Slow]:
    return {
        "says nothing": Slow(b"", b"", []),
        "says half a head": Slow(HEAD[:30], b"", [408]),
        "drips a head": Slow(HEAD[:30], b"x", [408]),
        "drips headers": Slow(HEAD, b"X: y\r\n", [408]),
        "drips a second head": Slow(b"GET /livez HTTP/1.1\r\nHost: k\r\n\r\nG", b"E", [200, 400], 4),
        "drips a second path": Slow(b"GET /livez HTTP/1.1\r\nHost: k\r\n\r\nGET /", b"x", [200, 408]),
        "sends half a body": Slow(HEAD + LENGTH + BODY[:20], b"", [408]),
        "drips a body": Slow(HEAD + LENGTH, b" ", [408]),
        "drips a body to another route": Slow(START + LENGTH, b" ", [408]),
        "drips chunks": Slow(HEAD + CHUNKED, b"1\r\n \r\n", [408]),
        "drips chunks to another route": Slow(START + CHUNKED, b"1\r\n \r\n", [408]),
        "drips the extension of a chunk": Slow(HEAD + CHUNKED + b"1", b";a", [408]),
        "drips trailers": Slow(HEAD + CHUNKED + b"1\r\n \r\n0\r\n", b"X: y\r\n", [408]),
        "drips a body that nobody reads": Slow(
            b"GET /livez HTTP/1.1\r\nHost: k\r\n" + CHUNKED, b"1\r\n \r\n", [200], 6
        ),
        "drips a body to nowhere": Slow(b"POST /nowhere HTTP/1.1\r\nHost: k\r\n" + CHUNKED, b"1\r\n \r\n", [404], 6),
        "drips a body with the wrong method": Slow(
            b"PUT /v1/acls HTTP/1.1\r\nHost: k\r\n" + CHUNKED, b"1\r\n \r\n", [405], 6
        ),
        "drips a body that is too large": Slow(HEAD + b"Content-Length: 99999999\r\n\r\n", b" ", [413], 6),
    }


def test_whoever_takes_too_long_is_cut_off(patient: Process) -> None:
    slow = clients()
    with ExitStack() as stack:
        by_connection = {stack.enter_context(connected(patient)): each for each in slow.values()}
        for connection, each in by_connection.items():
            connection.sendall(each.first)
        began = time.monotonic()
        while any(each.ended_s is None for each in slow.values()) and time.monotonic() - began < 40:
            end = time.monotonic() + 1
            while (left := end - time.monotonic()) > 0:
                waiting = [connection for connection, each in by_connection.items() if each.ended_s is None]
                for connection in select.select(waiting, [], [], left)[0]:
                    by_connection[connection].read(connection, time.monotonic() - began)
            for connection, each in by_connection.items():
                if each.ended_s is None:
                    with suppress(BrokenPipeError, ConnectionResetError):
                        connection.sendall(each.drip)
            assert patient.http.get("/livez").status_code == 200
    ended = {name: (statuses(each.reply), each.ended_s) for name, each in slow.items()}
    print(ended)
    assert {name: came for name, (came, _) in ended.items()} == {name: each.expected for name, each in slow.items()}
    assert {name: seconds for name, (_, seconds) in ended.items() if seconds is None} == {}


def test_a_client_that_does_not_read_its_replies_is_cut_off(patient: Process) -> None:
    flood = (HEAD + LENGTH + BODY) * 1_000

    def send_for(connection: socket.socket, seconds: float) -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            connection.sendall(flood)

    with connected(patient) as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        connection.settimeout(30)
        with pytest.raises((BrokenPipeError, ConnectionResetError)):
            send_for(connection, 120)


LARGE = {
    "a long header": HEAD + b"X: " + b"x" * 100_000 + b"\r\n" + LENGTH + BODY,
    "many headers": HEAD + b"".join(b"X-%d: y\r\n" % at for at in range(200)) + LENGTH + BODY,
    "a long path": b"GET /" + b"x" * 100_000 + b" HTTP/1.1\r\nHost: k\r\n\r\n",
    "a long trailer": HEAD + CHUNKED + b"1\r\n{\r\n0\r\nX: " + b"x" * 100_000 + b"\r\n\r\n",
}
ENDLESS = {
    "a header": (HEAD + b"X: ", b"x" * 1_000),
    "headers": (HEAD, b"X: y\r\n" * 200),
    "a path": (b"GET /", b"x" * 1_000),
    "an extension of a chunk": (HEAD + CHUNKED + b"1", b";a" * 500),
    "trailers": (HEAD + CHUNKED + b"0\r\n", b"X: y\r\n" * 200),
}


def received(connection: socket.socket) -> bytes:
    got = b""
    with suppress(ConnectionResetError):
        while some := connection.recv(65_536):
            got += some
    return got


@pytest.mark.parametrize("what", LARGE)
def test_a_large_head_is_refused(patient: Process, what: str) -> None:
    with connected(patient) as connection:
        connection.sendall(LARGE[what])
        assert statuses(received(connection)) == [431]


@pytest.mark.parametrize("what", ENDLESS)
def test_a_head_without_end_is_refused_while_it_comes(patient: Process, what: str) -> None:
    first, more = ENDLESS[what]
    sent = 0
    with connected(patient) as connection:
        connection.sendall(first)
        with suppress(BrokenPipeError, ConnectionResetError):
            while not select.select([connection], [], [], 0)[0]:
                connection.sendall(more)
                sent += len(more)
                assert sent < 20_000_000
        assert statuses(received(connection)) == [431]


@pytest.mark.parametrize("name", [b"Host", b"Authorization", b"Content-Length"])
def test_a_header_that_comes_twice_is_refused(patient: Process, name: bytes) -> None:
    value = b"%d" % len(BODY)
    for _ in range(2):
        with connected(patient) as connection:
            connection.sendall(HEAD + b"%b: %b\r\n%b: %b\r\n" % (name, value, name.lower(), value) + LENGTH + BODY)
            assert statuses(received(connection)) == [400]


def test_five_hundred_slow_heads_do_not_keep_others_waiting(patient: Process) -> None:
    patient.authorize("User:alice", action("orders"))

    def latencies_ms() -> list[float]:
        found = []
        with connected(patient) as connection:
            for _ in range(1_500):
                began = time.monotonic()
                connection.sendall(HEAD + LENGTH + BODY)
                assert statuses(connection.recv(65_536)) == [200]
                found.append((time.monotonic() - began) * 1_000)
        return found

    alone = latencies_ms()
    with ExitStack() as stack:
        slow = [stack.enter_context(connected(patient)) for _ in range(CROWD)]
        for at, connection in enumerate(slow):
            connection.sendall(HEAD[: at % 60])
        beside = latencies_ms()
        for connection in slow:
            connection.sendall(b"x")
        assert patient.metric("klamm_connections") > CROWD
        beside += latencies_ms()
    for name, values in (("alone", alone), (f"beside {CROWD} slow heads", beside)):
        print(f"{name}: p50 {percentile(values, 0.5):.2f} ms, p99 {percentile(values, 0.99):.2f} ms")
