"""Upstreams that are none: streams that never end a line or say nothing, and one that says what is not true."""

import json
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler
from typing import Any, Self
from uuid import UUID, uuid4

import httpx

from app.core.epochs import next_epoch
from app.formats.feed_values import digest_of
from tests.scripted_server import ScriptedServer, problem

BAD = "bad upstream"
_HUGE = 80 << 20
_PART = 64 << 10
_FAR = timedelta(days=365 * 974)
_HIGHEST = 1 << 62


class BadUpstream:
    """One address. What it does to a reader is `behaviour`, one of BEHAVIOURS; `forge` makes it a liar instead."""

    def __init__(self) -> None:
        self.behaviour = "silence"
        self._snapshot: list[bytes] = []
        self._refusal = problem(503, "STORE_UNAVAILABLE", "not now", retriable=True)
        self._server = ScriptedServer(self._answer)
        self.url = self._server.url

    def __enter__(self) -> Self:
        self._server.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.__exit__()

    def forge(self, kind: str, real_url: str) -> None:
        """From now on tell of a state without ACLs, of an epoch or an offset that the store never had."""
        head = _head_of(real_url)
        epoch, offset = UUID(head["token"].partition(":")[0]), 5
        if kind == "the highest offset":
            offset, code, status = _HIGHEST, "OFFSET_OUT_OF_RANGE", 410
        else:
            ahead = _FAR if kind == "an epoch of the year 3000" else timedelta(hours=12)
            epoch = next_epoch(datetime.fromtimestamp(time.time(), UTC) + ahead, [epoch], uuid4())
            code, status = "TOKEN_EPOCH_MISMATCH", 409
        more: dict[str, Any] = {"oldest_token": f"{epoch}:{offset}"} if status == 410 else {}
        self._refusal = problem(status, code, "forged", **more)
        self._snapshot = _snapshot(f"{epoch}:{offset}", head)
        self.behaviour = "forged"

    def _answer(self, request: BaseHTTPRequestHandler) -> None:
        self._server.seen.clear()
        if request.command == "POST" or (self.behaviour == "forged" and "snapshot=true" not in request.path):
            _refuse(request, 503 if request.command == "POST" else self._refusal.status, self._refusal.body)
            return
        if self.behaviour == "refusal":
            _refuse(request, 503, problem(503, "STORE_UNAVAILABLE", "x" * 400_000).body)
            return
        request.close_connection = True
        if self.behaviour == "early hints":
            # Never the answer itself.
            self._again(request, b"HTTP/1.1 103 Early Hints\r\n\r\n", 0.5)
            return
        request.send_response(200)
        request.send_header("content-type", "application/x-ndjson")
        request.end_headers()
        with suppress(OSError):
            BEHAVIOURS[self.behaviour](self, request)

    def _again(self, request: BaseHTTPRequestHandler, sent: bytes, every_s: float) -> None:
        behaviour = self.behaviour
        with suppress(OSError):
            while self.behaviour == behaviour and not self._server.release.wait(every_s):
                request.wfile.write(sent)

    def _drip(self, request: BaseHTTPRequestHandler) -> None:
        for byte in b'{"type":"bookmark","token":"' + b"0" * 1_000:
            request.wfile.write(bytes([byte]))
            if self._server.release.wait(0.3):
                return

    def _send_huge_line(self, request: BaseHTTPRequestHandler) -> None:
        # Once in some seconds is enough, whoever comes again at once.
        self._server.release.wait(2.0)
        for _ in range(_HUGE // _PART):
            request.wfile.write(b"x" * _PART)
        request.wfile.write(b"\n")

    def _lie(self, request: BaseHTTPRequestHandler) -> None:
        for line in self._snapshot[:-1]:
            request.wfile.write(line)
        self._again(request, self._snapshot[-1], 0.5)


BEHAVIOURS: dict[str, Callable[[BadUpstream, BaseHTTPRequestHandler], None]] = {
    "silence": lambda bad, request: bad._again(request, b"", 0.5),
    "an endless line": lambda bad, request: bad._again(request, b"x" * _PART, 0.05),
    "empty lines": lambda bad, request: bad._again(request, b"\n", 0.2),
    "unknown events": lambda bad, request: bad._again(request, b'{"type":"news"}\n', 0.5),
    "dripping bytes": BadUpstream._drip,
    "80 MiB lines": BadUpstream._send_huge_line,
    "refusal": lambda _bad, _request: None,
    "early hints": lambda _bad, _request: None,
    "forged": BadUpstream._lie,
}
FORGED = ("the highest offset", "an epoch of the year 3000", "an epoch half a day ahead")


def _refuse(request: BaseHTTPRequestHandler, status: int, body: bytes) -> None:
    request.send_response(status)
    request.send_header("content-type", "application/problem+json")
    request.send_header("content-length", str(len(body)))
    request.end_headers()
    request.wfile.write(body)


def _head_of(url: str) -> dict[str, str]:
    """The first event of a snapshot."""
    with httpx.stream("GET", f"{url}/v1/watch", params={"snapshot": "true"}, timeout=30) as stream:
        head: dict[str, str] = json.loads(next(stream.iter_lines()))
    return head


def _snapshot(token: str, head: dict[str, str]) -> list[bytes]:
    """A snapshot without ACLs, and the bookmark that is said again and again."""
    at = datetime.fromtimestamp(time.time(), UTC).isoformat()
    state = {"token": token, "hash": "0" * 64, "digest": digest_of(0), "store_time": at}
    epoch = {"epoch": token.partition(":")[0], "first_offset": 0}
    begun = {"cluster_id": head["cluster_id"], "acl_count": 0, "config_count": 0, "epochs": [epoch]}
    events = (
        {"type": "snapshot", **state, **begun},
        {"type": "acls", "acls": []},
        {"type": "configs", "configs": {}},
        {"type": "synced", **state},
        {"type": "bookmark", **state, "age_ms": 0},
    )
    return [json.dumps(each).encode() + b"\n" for each in events]
