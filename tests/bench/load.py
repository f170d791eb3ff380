"""Closed-loop load: every connection has a request under way, and sends the next one when it has its answer.

Plain sockets and epoll; the hot path has a loop of its own, or wrk where that is installed (`saturate`).
"""

import select
import shutil
import socket
import ssl
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, suppress
from itertools import cycle
from pathlib import Path
from typing import NamedTuple

TOKEN = "klamm_" + "b" * 43
"""Shown with each request; a server without callers passes over it."""

_TIMEOUT_S = 60.0
_WRK_SCRIPT = """
local bodies, at = {}, 0
for line in io.lines("%s") do bodies[#bodies + 1] = line end
wrk.method = "POST"
wrk.headers["Content-Type"] = "application/json"
wrk.headers["Authorization"] = "Bearer %s"
function request()
  at = at %% #bodies + 1
  return wrk.format(nil, nil, nil, bodies[at])
end
function done(summary)
  local errors = summary.errors
  local failed = errors.connect + errors.read + errors.write + errors.status + errors.timeout
  io.write(string.format("\\ncounted %%d %%d\\n", summary.requests, failed))
end
"""


class Load(NamedTuple):
    """What a round of load has seen."""

    answers: int
    wall_s: float
    latencies_s: list[float]


class RefusedError(Exception):
    """The server answered something else than 200."""


def post(path: str, body: bytes, token: str = TOKEN) -> bytes:
    """A request as it goes over the wire."""
    head = (
        f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        f"Authorization: Bearer {token}\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


def connect(port: int, tls: ssl.SSLContext | None = None) -> socket.socket:
    """A connection that sends at once."""
    connection = socket.create_connection(("127.0.0.1", port), timeout=_TIMEOUT_S)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection if tls is None else tls.wrap_socket(connection, server_hostname="localhost")


def take_answer(connection: socket.socket) -> bytes:
    """The body of the next answer, which is 200. Raises RefusedError, ConnectionError."""
    got = connection.recv(65_536)
    while b"\r\n\r\n" not in got:
        got += _more(connection)
    head, _, body = got.partition(b"\r\n\r\n")
    if not head.startswith(b"HTTP/1.1 200"):
        raise RefusedError(got.decode(errors="replace")[:500])
    length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
    if len(body) == length:
        return body
    parts, left = [body], length - len(body)
    while left > 0:
        parts.append(_more(connection))
        left -= len(parts[-1])
    return b"".join(parts)


def is_whole(answer: bytes) -> bool:
    """Whether these are all bytes of an answer that tells its length."""
    head, end, body = answer.partition(b"\r\n\r\n")
    length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0] or 0)
    return bool(end) and len(body) >= length


def status_from(connection: socket.socket) -> int:
    """The status of the next answer, read to its end; 0 if the connection ends instead."""
    answer = b""
    while not is_whole(answer):
        more = connection.recv(65_536)
        if not more:
            return 0
        answer += more
    return int(answer[9:12])


def ask(connection: socket.socket, message: bytes) -> tuple[float, bytes]:
    """One request: seconds until its answer, and the answer's body."""
    began = time.monotonic()
    connection.sendall(message)
    body = take_answer(connection)
    return time.monotonic() - began, body


def status_of(port: int, path: str, tls: ssl.SSLContext | None = None) -> int | None:
    """The status of a GET; None if nobody listens."""
    with suppress(OSError), connect(port, tls) as connection:
        connection.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
        return int(connection.recv(4_096)[9:12] or b"0")
    return None


def closed_loop(
    port: int,
    next_message: Callable[[], bytes],
    seconds: float,
    connections: int,
    check: Callable[[bytes], None] | None = None,
) -> Load:
    """Keeps all connections busy for so long; `check` sees each answer. All that was asked is answered in the end."""
    latencies: list[float] = []
    with ExitStack() as stack, select.epoll() as ready:
        by_file = {each.fileno(): stack.enter_context(each) for each in (connect(port) for _ in range(connections))}
        sent: dict[int, float] = {}
        began = now = time.monotonic()
        for file, connection in by_file.items():
            ready.register(file, select.EPOLLIN)
            sent[file] = time.monotonic()
            connection.sendall(next_message())
        while sent:
            for file, _ in _some(ready):
                body = take_answer(by_file[file])
                now = time.monotonic()
                latencies.append(now - sent.pop(file))
                if check is not None:
                    check(body)
                if now - began < seconds:
                    sent[file] = now
                    by_file[file].sendall(next_message())
    return Load(len(latencies), now - began, latencies)


def one_by_one(port: int, messages: Sequence[bytes]) -> list[float]:
    """Seconds that each request takes on one connection that is kept alive."""
    with connect(port) as connection:
        return [ask(connection, message)[0] for message in messages]


def saturate(port: int, path: str, bodies: Sequence[bytes], seconds: float, connections: int) -> int:
    """So many requests were answered while all connections were kept busy, by wrk where it is installed."""
    wrk = shutil.which("wrk")
    if wrk is None:
        return _ring(port, [post(path, body) for body in bodies], seconds, connections)
    with tempfile.TemporaryDirectory() as folder:
        lines, script = Path(folder, "bodies"), Path(folder, "script.lua")
        lines.write_bytes(b"\n".join(bodies) + b"\n")
        script.write_text(_WRK_SCRIPT % (lines, TOKEN), encoding="utf-8")
        options = [f"-c{connections}", "-t1", f"-d{max(1, round(seconds))}s", "-s", str(script)]
        command = [wrk, *options, f"http://127.0.0.1:{port}{path}"]
        said = subprocess.run(command, capture_output=True, text=True, timeout=seconds + _TIMEOUT_S, check=True).stdout
    count, failed = map(int, said.partition("\ncounted ")[2].split()[:2])
    if failed:
        raise RefusedError(f"{failed} of {count} requests failed")
    return count


def generator() -> str:
    """What makes the load of `saturate`."""
    return "a Python loop over blocking sockets" if shutil.which("wrk") is None else "wrk, one thread"


def _ring(port: int, requests: Sequence[bytes], seconds: float, connections: int) -> int:
    """As `closed_loop`, but round the connections in turn and with as little work a request as Python can do."""
    next_request, count, end = cycle(requests).__next__, 0, time.monotonic() + seconds
    with ExitStack() as stack:
        ring = [stack.enter_context(connect(port)) for _ in range(connections)]
        for connection in ring:
            connection.sendall(next_request())
        while time.monotonic() < end:
            for connection in ring:
                _take_short(connection)
                connection.send(next_request())
            count += connections
        for connection in ring:
            take_answer(connection)
    return count + connections


def _take_short(connection: socket.socket) -> None:
    """An answer of authorize or of the empty route, read to its only closing brace."""
    got = connection.recv(65_536)
    if not got.startswith(b"HTTP/1.1 200"):
        raise RefusedError(got.decode(errors="replace")[:500])
    while not got.endswith(b"}"):
        got = _more(connection)


def _some(ready: select.epoll) -> Iterator[tuple[int, int]]:
    found = ready.poll(_TIMEOUT_S)
    if not found:
        raise TimeoutError(f"no answer within {_TIMEOUT_S:g} s")
    yield from found


def _more(connection: socket.socket) -> bytes:
    got = connection.recv(262_144)
    if not got:
        raise ConnectionError("the server has hung up in the middle of an answer")
    return got
