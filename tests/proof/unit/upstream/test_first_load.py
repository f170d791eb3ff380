"""A follower becomes ready although the first of its URLs says nothing of use until its time is over."""

import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from itertools import repeat
from pathlib import Path

import pytest

from app.core import following as machine
from tests.fake_upstream import stream
from tests.gate.unit.upstream.test_first_load import (
    HEADER,
    TOLD,
    UNKNOWN,
    becomes_ready_beside,
    starts_from_the_state_file,
)
from tests.scripted_server import Step


@pytest.fixture(autouse=True)
def _short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENING_S", "SNAPSHOT_S", "NO_BOOKMARK_S"):
        monkeypatch.setattr(machine, name, 2.0)


def endless(part: bytes, *, first: bytes = b"", rest_s: float = 0.0) -> Step:
    """A reply whose head is followed by this for ever."""

    def send(request: BaseHTTPRequestHandler) -> None:
        stream([first] if first else [])(request)
        pour(request, repeat(part), rest_s)

    return send


def endless_head(head: bytes, part: bytes, rest_s: float = 0.0) -> Step:
    def send(request: BaseHTTPRequestHandler) -> None:
        request.close_connection = True
        request.wfile.write(head)
        pour(request, repeat(part), rest_s)

    return send


def pour(request: BaseHTTPRequestHandler, parts: Iterator[bytes], rest_s: float) -> None:
    """Until the client hangs up."""
    for part in parts:
        request.wfile.write(part)
        request.wfile.flush()
        time.sleep(rest_s)


STALLED: dict[str, Step] = {
    "never ends": endless(UNKNOWN + b"\n", first=HEADER, rest_s=0.2),
    "an endless line, dripped": endless(b"x", rest_s=0.1),
    "empty lines": endless(b"\n", rest_s=0.1),
    "empty lines as fast as they go": endless(b"\n" * 65_536),
    "unknown events": endless(UNKNOWN + b"\n", rest_s=0.2),
    "unknown events as fast as they go": endless((UNKNOWN + b"\n") * 100),
    "103 without end": endless_head(b"", b"HTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\n", rest_s=0.1),
    "103 as fast as they go": endless_head(b"", b"HTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\n" * 100),
    "a head that never ends": endless_head(b"HTTP/1.1 200 OK\r\n", b"x-more: 1\r\n", rest_s=0.1),
    "silence": stream([], then=lambda: time.sleep(30)),
    "a silent head": endless_head(b"HTTP/1.1 200 OK\r\n", b"", rest_s=0.1),
    "no bookmark after the snapshot": endless(UNKNOWN + b"\n", first=b"\n".join(TOLD.snapshot()), rest_s=0.2),
}


@pytest.mark.parametrize("damage", STALLED.values(), ids=STALLED)
async def test_a_healthy_second_url_is_enough(damage: Step) -> None:
    seen = await becomes_ready_beside(damage)
    assert seen[0].headers["klamm-epochs"] == "1"


@pytest.mark.parametrize("damage", ["never ends"])
async def test_a_damaged_snapshot_leads_to_the_state_file_as_an_absent_one_does(damage: str, tmp_path: Path) -> None:
    await starts_from_the_state_file(STALLED[damage], tmp_path)
