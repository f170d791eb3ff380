"""The corpus of odd bodies over every route, with credentials and without: a refusal, quickly, and nothing kept.

What can be told of the answer is told: 400 to what is no JSON, 413 to what is too large, 415 to what says it is
something else; 401 to whom nobody knows. Routes without a body answer as if none had come.
"""

import json
import select
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from itertools import product

import pytest

from tests.bodies import BODIES
from tests.callers import Corp, write_configuration
from tests.klamm import LIMIT_S, ROOT, Process, over_socket
from tests.postgres import Postgres
from tests.proof.e2e.odd_bodies import CORPUS, HUGE, JSON, MIB, Odd
from tests.raw import connected, forget_peak, peak_bytes, received, resident_bytes, statuses

HANGS_S = 20.0
"""Longer than any timeout of the service for a client that keeps it waiting."""
_PROBE = b"GET /livez HTTP/1.1\r\nHost: k\r\n\r\n"
_UNKNOWN = ("/", "/v1/nowhere", "/v2/authorize")


def _routes() -> list[tuple[str, str]]:
    """Method and path of every route that there is, and of some that there are not."""
    paths = json.loads((ROOT / "openapi.json").read_text())["paths"]
    found = [
        (method.upper(), path.format(id="00000000-0000-0000-0000-000000000000", listener_name="PLAINTEXT"))
        for path, methods in paths.items()
        for method in methods
    ]
    return [*found, ("GET", "/metrics"), ("POST", "/metrics"), *product(("GET", "POST", "DELETE"), _UNKNOWN)]


ROUTES = _routes()
OK = 200
CODES = {
    401: "SASL_AUTHENTICATION_FAILED",
    404: "RESOURCE_NOT_FOUND",
    **dict.fromkeys((400, 405, 413, 415), "INVALID_REQUEST"),
}


@dataclass(frozen=True, slots=True)
class Reply:
    """What came back."""

    status: int
    body: bytes
    closes: bool
    """Whether it says that it is the last one on this connection."""
    took_s: float


@dataclass(slots=True)
class World:
    """A service that knows callers, one of them, and how long each request took."""

    service: Process
    token: str
    times: list[tuple[float, str]] = field(default_factory=list)

    def head(self, method: str, path: str, headers: dict[str, str], *, known: bool) -> bytes:
        """The head of a request, with a token or without one."""
        shown = {"Host": "k", **headers, **({"Authorization": f"Bearer {self.token}"} if known else {})}
        lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in shown.items())]
        return "\r\n".join([*lines, "", ""]).encode()


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory, postgres: Postgres) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("odd")
    tokens = write_configuration(folder, Corp())
    with over_socket(settings={"KLAMM_DATABASE_URL": postgres.new_store()}, folder=folder) as service:
        yield World(service.ready(), tokens["root"])
        assert [line for line in service.lines if " ERROR " in line or "Traceback" in line] == []


def test_every_route_with_a_body_is_known() -> None:
    assert {path for method, path in ROUTES if method == "POST"} - {*_UNKNOWN, "/metrics"} == set(BODIES)


def pieces_of(odd: Odd, body: bytes) -> Iterator[bytes]:
    """The body as it goes over the wire."""
    size = odd.chunk or 65_536
    for start in range(0, len(body), size):
        piece = body[start : start + size]
        yield piece if odd.chunk is None else b"%x\r\n%b\r\n" % (len(piece), piece)
    if odd.chunk is not None:
        yield b"0\r\n\r\n"


def ask(world: World, route: tuple[str, str], odd: Odd, *, known: bool) -> Reply:
    """Ask, and see that the connection is of use afterwards, or ends as it was said to."""
    method, path = route
    body = odd.make(json.dumps(BODIES[path]) if method == "POST" and path in BODIES else "{}")
    framing = {"Transfer-Encoding": "chunked"} if odd.chunk else {"Content-Length": str(odd.length(len(body)))}
    head = world.head(method, path, {**odd.headers, **framing}, known=known)
    with connected(world.service) as connection:
        connection.settimeout(HANGS_S)
        began = time.perf_counter()
        _send(connection, head, pieces_of(odd, body), waits="Expect" in odd.headers)
        reply = _reply(connection, began)
        if reply.closes or odd.length(len(body)) != len(body):
            # What is behind a body that is longer than was said is no request.
            connection.shutdown(socket.SHUT_WR)
            _see_end(connection)
        else:
            connection.sendall(_PROBE)
            assert _reply(connection, began).status == 200
    return reply


def _send(connection: socket.socket, head: bytes, pieces: Iterator[bytes], *, waits: bool) -> None:
    """Send until there is an answer, as a client does that listens."""
    if waits:
        connection.sendall(head)
        if not connection.recv(64, socket.MSG_PEEK).startswith(b"HTTP/1.1 100 "):
            return
        assert connection.recv(len(b"HTTP/1.1 100 Continue\r\n\r\n"))
        head = b""
    held = head
    with suppress(BrokenPipeError, ConnectionResetError):
        for piece in pieces:
            held += piece
            if len(held) >= 65_536:
                if select.select([connection], [], [], 0)[0]:
                    return
                connection.sendall(held)
                held = b""
        connection.sendall(held)


def _reply(connection: socket.socket, began: float) -> Reply:
    """One answer, framed by its length."""
    got = b""
    while b"\r\n\r\n" not in got:
        some = connection.recv(65_536)
        assert some, f"the connection ended without an answer: {got!r}"
        got += some
    head, _, body = got.partition(b"\r\n\r\n")
    lines = head.lower().split(b"\r\n")
    fields = dict(line.split(b": ", 1) for line in lines[1:])
    while len(body) < int(fields[b"content-length"]):
        some = connection.recv(65_536)
        assert some, "the connection ended within an answer"
        body += some
    took_s = time.perf_counter() - began
    body = body[: int(fields[b"content-length"])]
    return Reply(int(lines[0].split(b" ")[1]), body, fields.get(b"connection") == b"close", took_s)


def _see_end(connection: socket.socket) -> None:
    """What was said to be the last answer is the last one."""
    with suppress(ConnectionResetError):
        while rest := connection.recv(65_536):
            assert not rest.startswith(b"HTTP/1.1 2"), rest


def ask_again(world: World, route: tuple[str, str], odd: Odd, *, known: bool) -> Reply:
    """The first answer of a service that is not overloaded."""
    deadline = time.monotonic() + LIMIT_S
    while (reply := ask(world, route, odd, known=known)).status == 429 and b"OVERLOADED" in reply.body:
        assert time.monotonic() < deadline, reply
        time.sleep(0.02)
    return reply


def plain_status(world: World, route: tuple[str, str], *, known: bool) -> int:
    """What a route without a body answers to a request without one, on a machine that has the time."""
    status = 429
    for _ in range(10):
        with connected(world.service) as connection:
            connection.sendall(world.head(*route, {}, known=known))
            status = _reply(connection, 0.0).status
        if status != 429:
            break
    return status


def expected(world: World, route: tuple[str, str], odd: Odd, *, known: bool) -> set[int]:
    """The statuses that are right."""
    method, path = route
    if method != "POST" or path not in BODIES:
        return {plain_status(world, route, known=known)}
    return {odd.status} if known else {401}


def corpus_faults(world: World) -> list[str]:
    """Everything that was not answered as it should have been, on each route and with each body."""
    faults = []
    asked = sorted(product(ROUTES, (True, False)), key=lambda each: not (each[1] and each[0][1] in BODIES))
    for route, known in asked:
        right: dict[int, set[int]] = {}
        for what, odd in CORPUS.items():
            if odd.status not in right:
                right[odd.status] = expected(world, route, odd, known=known)
            where = f"{what}: {' '.join(route)}, {'known' if known else 'unknown'}"
            try:
                reply = ask_again(world, route, odd, known=known)
            except (AssertionError, OSError) as fault:
                faults.append(f"{where}: {fault!r}")
                continue
            world.times.append((reply.took_s, where))
            if reply.status not in right[odd.status] or reply.status >= 500:
                faults.append(f"{where}: {reply.status} {reply.body[:200]!r}")
            elif reply.status >= 400:
                faults += [f"{where}: {why}" for why in _flaws(reply)]
    return faults


def _flaws(reply: Reply) -> list[str]:
    """What is wrong with a refusal."""
    try:
        problem = json.loads(reply.body)
    except ValueError:
        return [f"no JSON: {reply.body[:200]!r}"]
    told = (problem.get("status"), problem.get("code"))
    flaws = [] if told == (reply.status, CODES[reply.status]) else [f"told as {told}"]
    if not problem.get("detail") or len(problem["detail"]) > 1_000:
        flaws.append("no word, or too many")
    return flaws


def test_every_odd_body_is_refused_on_every_route_and_nothing_is_kept(world: World) -> None:
    for odd in CORPUS.values():
        odd.make("{}")
    before = resident_bytes(world.service)
    faults = corpus_faults(world)
    assert faults == [], "\n".join(faults)
    between = resident_bytes(world.service)
    forget_peak(world.service)
    assert corpus_faults(world) == []
    after, peak = resident_bytes(world.service), peak_bytes(world.service)
    print(f"{len(world.times)} requests; memory {before >> 20}, {between >> 20}, {after >> 20} MiB, peak {peak >> 20}")
    times = sorted(world.times, reverse=True)
    late = sum(took_s > 0.05 for took_s, _ in times)
    print(f"median {times[len(times) // 2][0] * 1000:.1f} ms, {late} took more than 50 ms; the slowest:")
    for took_s, where in times[:8]:
        print(f"  {took_s * 1000:7.1f} ms  {where}")
    assert after < between + 30 * MIB
    assert peak < between + 200 * MIB
    assert times[0][0] < HANGS_S


STOPS = {
    "with a length that is too long": ({"Content-Length": "1000"}, b"{"),
    "with a length that is much too long": ({"Content-Length": "1000000"}, b"{"),
    "within a chunk": ({"Transfer-Encoding": "chunked"}, b"5\r\n{"),
    "between chunks": ({"Transfer-Encoding": "chunked"}, b"1\r\n{\r\n"),
    "in the head": ({"Content-Length": "2", "X": "y" * 100}, b""),
}


def test_what_stops_coming_is_given_up(world: World) -> None:
    """On every route at once, or one after the other they would take minutes."""
    faults = _faults_of_stopping(world, list(product(STOPS, ROUTES, (True, False))))
    # A busy machine sheds whatever comes; what it has shed is asked again.
    shed = [case for case, came in faults if came == [429]]
    assert [each for each in faults if each[0] not in shed] == []
    assert _faults_of_stopping(world, shed) == []


Stopped = tuple[str, tuple[str, str], bool]
"""How it stops, on which route, and whether its caller is known."""


def _faults_of_stopping(world: World, cases: list[Stopped]) -> list[tuple[Stopped, list[int]]]:
    """What was answered otherwise than it should be, with the statuses that came."""
    with ExitStack() as stack:
        waiting = []
        began = time.monotonic()
        for what, route, known in cases:
            connection = stack.enter_context(connected(world.service))
            connection.settimeout(HANGS_S)
            headers, start = STOPS[what]
            head = world.head(*route, {**JSON, **headers}, known=known)
            connection.sendall(head + start if start else head[:-50])
            waiting.append(((what, route, known), connection))
        faults = []
        for (what, route, known), connection in waiting:
            came = statuses(received(connection))
            if came not in ([status] for status in _when_given_up(world, what, route, known=known)):
                faults.append(((what, route, known), came))
        print(f"{len(waiting)} requests that stop: {time.monotonic() - began:.1f} s")
    return faults


def _when_given_up(world: World, what: str, route: tuple[str, str], *, known: bool) -> set[int]:
    takes_body = route[0] == "POST" and route[1] in BODIES
    if what == "in the head":
        return {408}
    if takes_body and known:
        # One caller has half of a pool at most, and a body whose length nobody knows may become as long as any.
        return {408, 429}
    status = 401 if takes_body else plain_status(world, route, known=known)
    # A short body is waited for before anybody looks at the request. Whoever would be served may come too late to a
    # machine that others keep busy.
    return {status, 408, 429} if status == OK else {status, 408}


@pytest.mark.parametrize("known", [True, False])
def test_a_body_without_an_end_is_refused_on_every_route(world: World, *, known: bool) -> None:
    """Chunks that never end: refused once they are too much, or before; and never kept."""
    before = resident_bytes(world.service)
    for route in ROUTES:
        takes_body = route[0] == "POST" and route[1] in BODIES
        with connected(world.service) as connection:
            connection.settimeout(HANGS_S)
            began = time.perf_counter()
            endless = (b"10000\r\n" + b" " * 65_536 + b"\r\n" for _ in range(HUGE // 65_536))
            head = world.head(*route, {**JSON, "Transfer-Encoding": "chunked"}, known=known)
            _send(connection, head, endless, waits=False)
            reply = _reply(connection, began)
            assert reply.closes
            _see_end(connection)
        right = ({413} if known else {401}) if takes_body else {plain_status(world, route, known=known)}
        assert reply.status in right, route
    assert resident_bytes(world.service) < before + 30 * MIB


def test_the_corpus_reaches_whom_it_is_meant_for(world: World) -> None:
    """The same requests with bodies that are not odd are answered: so what is refused above is the oddness."""
    ways = (Odd(str.encode), Odd(str.encode, chunk=7), Odd(str.encode, headers={**JSON, "Expect": "100-continue"}))
    for path, odd in product(BODIES, ways):
        assert ask_again(world, ("POST", path), odd, known=True).status == 200
