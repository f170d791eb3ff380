"""Trash on the socket: bytes that are no HTTP, requests that lie, clients that leave or say nothing."""

import json
import random
import socket
import struct
from contextlib import ExitStack, suppress

from tests.bodies import BODIES
from tests.klamm import Process, acl, action, context
from tests.raw import connected, exchange, resident_bytes, statuses

MIB = 1024 * 1024
BODY = json.dumps(BODIES["/v1/authorize"]).encode()
LENGTH = b"Content-Length: %d\r\n" % len(BODY)
HEAD = b"POST /v1/authorize HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"


def test_random_bytes_do_no_harm(patient: Process) -> None:
    seeded = random.Random(4400)
    for size in (1, 7, 100, 1_000, 100_000):
        for _ in range(20):
            came = statuses(exchange(patient, seeded.randbytes(size)))
            assert [status for status in came if not 400 <= status < 500] == []


def test_a_valid_request_with_a_flipped_byte_never_faults(patient: Process) -> None:
    request = HEAD + LENGTH + b"\r\n" + BODY
    seeded = random.Random(4401)
    for _ in range(400):
        at = seeded.randrange(len(request))
        flipped = request[:at] + bytes([seeded.randrange(256)]) + request[at + 1 :]
        came = statuses(exchange(patient, flipped))
        assert [status for status in came if status >= 500 and status != 501] == [], flipped


def test_a_body_without_an_end_is_refused_and_never_kept(patient: Process) -> None:
    chunk = b"10000\r\n" + b" " * 0x10000 + b"\r\n"
    before = resident_bytes(patient)
    for path in BODIES:
        with connected(patient) as connection:
            with suppress(BrokenPipeError, ConnectionResetError):
                connection.sendall(HEAD.replace(b"/v1/authorize", path.encode()))
                connection.sendall(b"Transfer-Encoding: chunked\r\n\r\n")
                for _ in range(1_600):
                    connection.sendall(chunk)
            assert statuses(connection.recv(65_536)) == [413]
    # 900 MiB have come; a few bodies up to their limits may be in memory.
    assert resident_bytes(patient) < before + 100 * MIB


def test_hundreds_of_silent_connections_hinder_nobody(patient: Process) -> None:
    with ExitStack() as stack:
        for n in range(300):
            connection = stack.enter_context(connected(patient))
            if n % 3:
                connection.sendall((HEAD + LENGTH)[: n % 60])
        assert patient.authorize("User:nobody", action("orders")) == ["DENIED"]
        assert patient.create(acl(f"silent-{n}"))["results"][0]["created"]


def test_a_body_that_stops_coming_is_given_up(patient: Process) -> None:
    with ExitStack() as stack:
        slow = [stack.enter_context(connected(patient)) for _ in BODIES]
        for connection, path in zip(slow, BODIES, strict=True):
            connection.sendall(HEAD.replace(b"/v1/authorize", path.encode()) + LENGTH + b"\r\n{")
        assert [statuses(connection.recv(65_536)) for connection in slow] == [[408]] * len(slow)


def test_a_create_whose_client_leaves_is_all_or_nothing(patient: Process) -> None:
    """It is written or it is not; whichever, the service goes on and the same create can be repeated."""
    for n in range(30):
        body = json.dumps({"context": context(), "bindings": [acl(f"left-{n}-{m}") for m in range(20)]}).encode()
        head = HEAD.replace(b"/v1/authorize", b"/v1/acls") + b"Content-Length: %d\r\n\r\n" % len(body)
        with connected(patient) as connection:
            connection.sendall(head + body[: len(body) - n % 3])
            if n % 2:
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    def counts() -> list[int]:
        names = [acl["resource_name"] for acl in patient.acls(principal="User:alice")]
        return [sum(name.startswith(f"left-{n}-") for name in names) for n in range(30)]

    for n in range(20):
        # Whatever was on its way to the store has been written before this one.
        patient.create(acl(f"behind-{n}"))
        assert set(counts()) <= {0, 20}
    assert [count for n, count in enumerate(counts()) if n % 3] == [0] * 20
    again = patient.create(*[acl(f"left-{n}-0") for n in range(30)])
    assert {result["code"] for result in again["results"]} == {"NONE"}
