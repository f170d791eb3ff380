"""Services of a story that are killed and started again on the port that they had, and readers of their feeds."""

import contextlib
import random
import signal
import socket
import threading
import time
from collections.abc import Iterator, Mapping
from typing import Self

import httpx

from app.core.records import FeedHead
from app.formats.feed_events import decode
from tests.klamm import Process, over_socket
from tests.watching import Folded

_AGAIN_S = 0.1
_READ_TIMEOUT_S = 30.0
_LINES = 100


class Member:
    """One service, by its name; `replica` names its present life."""

    def __init__(self, name: str, environment: Mapping[str, str]) -> None:
        self.name = name
        self.lives = 0
        self.port = _free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._environment = environment
        self._service: Process | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._service is not None:
            self._service.stop(signal.SIGINT)

    @property
    def follows(self) -> bool:
        """Another service, instead of a database."""
        return "KLAMM_UPSTREAM_URLS" in self._environment

    @property
    def replica(self) -> str:
        return f"{self.name}, life {self.lives}"

    @property
    def service(self) -> Process:
        assert self._service is not None
        return self._service

    def said(self) -> str:
        """The last lines of its present life's log."""
        return "" if self._service is None else "\n".join(self._service.lines[-_LINES:])

    def start(self) -> None:
        self.lives += 1
        self._service = over_socket("--port", str(self.port), settings=self._environment)

    def kill(self) -> None:
        """By SIGKILL; whoever asks it meanwhile is not answered."""
        self.lives += 1
        self.service.stop(signal.SIGKILL)
        self._service = None


class Reader:
    """Follows one member's feed over every death of it, and believes nothing: `fault` is what can't be true."""

    def __init__(self, member: Member) -> None:
        self.seen = Folded(keeps_all=False)
        self.fault: str | None = None
        self.streams = 0
        self._member = member
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join(_READ_TIMEOUT_S * 2)

    def is_at(self, head: FeedHead) -> bool:
        assert self.fault is None, self.fault
        return self.seen.token == f"{head.epoch}:{head.last_offset}"

    def _run(self) -> None:
        while not self._over.is_set() and self.fault is None:
            try:
                for line in self._lines():
                    event = decode(line)
                    assert event is not None, line
                    self.seen.take(event)
                    if self._over.is_set():
                        return
            except (httpx.TransportError, ConnectionError):
                pass  # it was killed
            except Exception as fault:  # noqa: BLE001 - whatever the stream made of the fold is the story's to tell
                self.fault = f"{self._member.replica}: {fault!r}\n{self._member.said()}"
            self._over.wait(_AGAIN_S)

    def _lines(self) -> Iterator[bytes]:
        """Of one stream, from the state on that was seen last. A snapshot that was cut begins anew."""
        if self.seen.token is None:
            self.seen = Folded(keeps_all=False)
        self.seen.ended = None
        query = "snapshot=true" if self.seen.token is None else f"after={self.seen.token}"
        with contextlib.ExitStack() as stack:
            http = stack.enter_context(httpx.Client(base_url=self._member.url, timeout=_READ_TIMEOUT_S))
            reply = stack.enter_context(http.stream("GET", f"/v1/watch?{query}", headers={"klamm-epochs": "1"}))
            if reply.status_code in (httpx.codes.SERVICE_UNAVAILABLE, httpx.codes.TOO_MANY_REQUESTS):
                return
            assert reply.status_code == httpx.codes.OK, reply.read()
            self.streams += 1
            for line in reply.iter_lines():
                yield line.encode()


def _free_port() -> int:
    """Below those that connections get, one of which could be given away while a member is dead."""
    while True:
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", random.randint(20_000, 32_000)))
            port: int = probe.getsockname()[1]
            return port


def now() -> float:
    return time.monotonic()
