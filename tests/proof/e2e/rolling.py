"""A client that follows readiness as a Kubernetes Service does, and sends at fixed times whatever comes back."""

import http.client
import json
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

from tests.klamm import LIMIT_S, Json, acl, action, context
from tests.proof.e2e.repeating import Repeating

POLL_S = 0.1
DELAY_S = 1.0
"""How long a replica is still taken for ready once it no longer is: what a cluster takes to tell everybody."""
THREADS = 16
_LONGEST_LIFE = 200
"""Requests that a connection is used for, so that a replica that has just come gets its share."""
_CREATE_EACH = 97

QUESTION: Json = {"context": context("User:alice"), "actions": [action("orders"), action("payments")]}
RESULTS = ["ALLOWED", "DENIED"]


class Endpoints(Repeating):
    """The replicas that may be sent to, as of a look every 100 ms. `set` gives one a new address, or none."""

    def __init__(self, urls: Sequence[str]) -> None:
        self._urls: list[str] = [*urls]
        self._ready_at: dict[str, float] = {}
        super().__init__(*(partial(self._follow, slot) for slot in range(len(urls))))

    def set(self, slot: int, url: str) -> None:
        """A replica has come in the place of another."""
        self._urls[slot] = url

    @property
    def ready(self) -> list[str]:
        """The addresses in use."""
        now = time.monotonic()
        return [url for url, at in sorted(self._ready_at.items()) if now - at < DELAY_S]

    def _follow(self, slot: int) -> None:
        while not self.done.wait(POLL_S):
            url = self._urls[slot]
            if _is_ready(url):
                self._ready_at[url] = time.monotonic()


def _is_ready(url: str) -> bool:
    address = urlsplit(url)
    assert address.hostname is not None
    probe = http.client.HTTPConnection(address.hostname, address.port, timeout=1)
    try:
        probe.request("GET", "/readyz")
        return probe.getresponse().status == http.client.OK
    except (OSError, http.client.HTTPException):
        return False
    finally:
        probe.close()


@dataclass
class Sent:
    """What came of the requests so far."""

    answers: int = 0
    connections: int = 0
    slowest_s: float = 0.0
    asked_again: int = 0
    """How often a replica was overloaded."""
    failures: list[str] = field(default_factory=list)
    created: list[str] = field(default_factory=list)
    by_replica: Counter[str] = field(default_factory=Counter)


class Traffic:
    """So many requests a second from threads with a connection each, kept until the server wants it closed."""

    def __init__(self, endpoints: Endpoints, per_second: int, enough: Callable[[Sent], bool]) -> None:
        self.sent = Sent()
        self._endpoints = endpoints
        self._gap_s = 1 / per_second
        self._enough = enough
        self._lock = threading.Lock()
        self._began_at = time.monotonic()
        self._threads = [threading.Thread(target=self._run, args=(each,)) for each in range(THREADS)]

    def __enter__(self) -> Self:
        self._began_at = time.monotonic()
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            self._enough = lambda _: True
        for thread in self._threads:
            thread.join()

    @property
    def over(self) -> bool:
        """Whether enough has been sent."""
        return not any(thread.is_alive() for thread in self._threads)

    def _run(self, thread: int) -> None:
        number = thread
        connection = _Connection(self._endpoints, thread)
        while not self._enough(self.sent):
            time.sleep(max(0.0, self._began_at + number * self._gap_s - time.monotonic()))
            self._send(connection, number)
            number += THREADS
        connection.close()
        with self._lock:
            self.sent.asked_again += connection.asked_again

    def _send(self, connection: "_Connection", number: int) -> None:
        name = f"rolling-{number}" if number % _CREATE_EACH == 0 else None
        began_at = time.monotonic()
        try:
            if name is None:
                reply = connection.post("/v1/authorize", QUESTION)
                fault = None if reply["results"] == RESULTS else f"{reply}"
            else:
                reply = connection.post("/v1/acls", {"context": context(), "bindings": [acl(name)]})
                fault = None if reply["results"][0]["created"] else f"{reply}"
        except (OSError, ValueError, LookupError) as error:
            fault = f"{number} at {time.monotonic() - self._began_at:.3f} s, {connection.what}: {error!r}"
            connection.close()
        took_s = time.monotonic() - began_at
        with self._lock:
            self.sent.answers += 1
            self.sent.slowest_s = max(self.sent.slowest_s, took_s)
            self.sent.by_replica[connection.url] += 1
            self.sent.connections += connection.age == 1
            if fault is not None:
                self.sent.failures.append(fault)
            elif name is not None:
                self.sent.created.append(name)


class _Connection:
    """One to a replica that is ready when it is made, used until either side has had enough of it."""

    def __init__(self, endpoints: Endpoints, turn: int) -> None:
        self.url = ""
        self.age = 0
        self.asked_again = 0
        self._endpoints = endpoints
        self._turn = turn
        self._stream: socket.socket | None = None

    @property
    def what(self) -> str:
        return f"request {self.age} of its connection to {self.url}"

    def post(self, path: str, body: Json) -> Json:
        """The body of a 200. Raises OSError, or ValueError for anything else.

        Asks again where other processes have the replica's core, so that it is overloaded: nothing was done then.
        """
        deadline = time.monotonic() + LIMIT_S
        while (reply := self._answer(path, body)) is None:
            if time.monotonic() > deadline:
                raise ValueError(f"overloaded for {LIMIT_S:g} s")
            self.asked_again += 1
            time.sleep(POLL_S)
        return reply

    def _answer(self, path: str, body: Json) -> Json | None:
        """None: it is overloaded."""
        stream = self._usable()
        self.age += 1
        content = json.dumps(body).encode()
        head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        stream.sendall(f"{head}Content-Length: {len(content)}\r\n\r\n".encode() + content)
        status, headers, reply = _reply_on(stream)
        if b"connection: close" in headers.lower() or self.age >= _LONGEST_LIFE:
            self.close()
        if status == http.client.TOO_MANY_REQUESTS:
            return None
        if status != http.client.OK:
            raise ValueError(f"{status}: {reply!r}")
        value: Json = json.loads(reply)
        return value

    def close(self) -> None:
        if self._stream is not None:
            self._stream.close()
            self._stream = None

    def _usable(self) -> socket.socket:
        # As every pool of connections does, look first whether the server has hung up since the last reply.
        if self._stream is not None and _has_ended(self._stream):
            self.close()
        if self._stream is None:
            urls = self._endpoints.ready
            if not urls:
                raise LookupError("no replica is ready")
            self._turn += 1
            self.url, self.age = urls[self._turn % len(urls)], 0
            address = urlsplit(self.url)
            self._stream = socket.create_connection((address.hostname, address.port), timeout=LIMIT_S)
            self._stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return self._stream


def _has_ended(stream: socket.socket) -> bool:
    stream.settimeout(0)
    try:
        return not stream.recv(1)
    except BlockingIOError:
        return False
    finally:
        stream.settimeout(LIMIT_S)


def _reply_on(stream: socket.socket) -> tuple[int, bytes, bytes]:
    got = b""
    while True:
        head, end, body = got.partition(b"\r\n\r\n")
        length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0] or 0)
        if end and len(body) >= length:
            return int(head.split(b" ", 2)[1]), head, body
        some = stream.recv(65_536)
        if not some:
            raise ConnectionError(f"hung up after {got!r}")
        got += some
