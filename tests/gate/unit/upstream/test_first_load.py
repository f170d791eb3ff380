"""A follower with two URLs becomes ready whatever the first of them sends instead of its state."""

from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler
from itertools import repeat
from pathlib import Path

import pytest

from app.formats.feed_events import End, encode
from app.runtime.authorizer import Authorizer
from app.runtime.options import RuntimeOptions, StateOptions
from app.runtime.readiness import State
from tests.fake_upstream import Service, Told, replica, stream
from tests.klamm import until
from tests.scripted_server import Answer, ScriptedServer, Seen, Step, hang_up

UNKNOWN = b'{"type":"of a later version"}'
TOLD = Told()


def endless(part: bytes, *, first: bytes = b"") -> Step:
    """A reply whose head is followed by this for ever."""

    def send(request: BaseHTTPRequestHandler) -> None:
        stream([first] if first else [])(request)
        pour(request, repeat(part))

    return send


def endless_head(head: bytes, part: bytes) -> Step:
    def send(request: BaseHTTPRequestHandler) -> None:
        request.close_connection = True
        request.wfile.write(head)
        pour(request, repeat(part))

    return send


def pour(request: BaseHTTPRequestHandler, parts: Iterator[bytes]) -> None:
    """Until the client hangs up."""
    for part in parts:
        request.wfile.write(part)
        request.wfile.flush()


def changed(change: Callable[[list[bytes]], list[bytes]]) -> Step:
    return stream([*change(TOLD.snapshot()), *repeat(TOLD.bookmark(), 3)])


def wrong_digest(lines: list[bytes]) -> list[bytes]:
    return [lines[0], lines[1].replace(b"User:alice", b"User:mallo"), *lines[2:]]


def fewer(lines: list[bytes]) -> list[bytes]:
    return [lines[0].replace(b'"acl_count":1', b'"acl_count":2'), *lines[1:]]


def other_table(lines: list[bytes]) -> list[bytes]:
    return [lines[0].replace(b'"first_offset":0', b'"first_offset":9'), *lines[1:]]


HEADER, ACLS, *_ = TOLD.snapshot()
DAMAGED: dict[str, Step] = {
    "wrong digest": changed(wrong_digest),
    "ended early by a busy upstream": stream([HEADER, encode(End(None, "slow"))]),
    "cut off": stream([HEADER, ACLS]),
    "cut off within a line": stream([HEADER, ACLS[:40]]),
    "fewer ACLs than promised": changed(fewer),
    "more ACLs than promised, without end": endless(ACLS + b"\n", first=HEADER),
    "a table of other epochs": changed(other_table),
    "an endless line": endless(b"x" * 65_536),
    "not HTTP": endless_head(b"\x16\x03\x01 hello\r\n\r\n", b"\r\n"),
    "a page": Answer(200, b"<html>welcome", media_type="text/html"),
    "changes instead of a snapshot": stream([TOLD.bookmark()]),
    "nobody": hang_up,
}


def is_ready(authorizer: Authorizer) -> bool:
    return authorizer.readiness.state is State.READY


@pytest.mark.parametrize("damage", DAMAGED.values(), ids=DAMAGED)
async def test_a_healthy_second_url_is_enough(damage: Step) -> None:
    seen = await becomes_ready_beside(damage)
    assert seen[0].headers["klamm-epochs"] == "1" if seen else damage is DAMAGED["not HTTP"]


async def becomes_ready_beside(damage: Step) -> list[Seen]:
    """What the damaged service was asked."""
    with ScriptedServer(damage) as first, ScriptedServer() as second:
        Service(second, Told())
        async with replica(first.url, second.url) as authorizer:
            await until(lambda: is_ready(authorizer))
            assert (authorizer.image.offset, authorizer.image.acl_count) == (1, 1)
        return first.seen


@pytest.mark.parametrize("damage", ["wrong digest", "cut off"])
async def test_a_damaged_snapshot_leads_to_the_state_file_as_an_absent_one_does(damage: str, tmp_path: Path) -> None:
    await starts_from_the_state_file(DAMAGED[damage], tmp_path)


async def starts_from_the_state_file(damage: Step, tmp_path: Path) -> None:
    folder = tmp_path / "state"
    options = RuntimeOptions(state=StateOptions(path=folder, origin=frozenset({"here"})))
    with ScriptedServer() as server:
        Service(server, Told())
        async with replica(server.url, options=options) as authorizer:
            await until(lambda: folder.exists() and any(b"orders" in each.read_bytes() for each in folder.iterdir()))
            assert is_ready(authorizer)
    with ScriptedServer() as server:
        healthy = Service(server, told := Told())
        told.transaction(2)

        def answer(request: BaseHTTPRequestHandler) -> None:
            """No whole snapshot, but what follows a position."""
            if "snapshot=true" not in request.path:
                healthy.answer(request)
            elif not isinstance(damage, Answer):
                damage(request)

        server.script = [answer]
        async with replica(server.url, options=options) as authorizer:
            await until(lambda: authorizer.image.offset == 2 and is_ready(authorizer))
            assert authorizer.metrics.image_loads == 0


async def test_an_older_state_does_not_replace_the_state_files_after_a_restart(tmp_path: Path) -> None:
    file = tmp_path / "state" / "image.ndjson"
    options = RuntimeOptions(state=StateOptions(path=file.parent, origin=frozenset({"here"})))
    stale, fresh = Told(), Told()
    fresh.transaction(2)
    with ScriptedServer() as server:
        Service(server, fresh)
        async with replica(server.url, options=options) as authorizer:
            await until(lambda: file.exists() and b"orders-2" in file.read_bytes())
            assert is_ready(authorizer)
    offsets: set[int] = set()
    with ScriptedServer() as first, ScriptedServer() as second:
        Service(first, stale)
        Service(second, fresh)
        fresh.transaction(3)
        async with replica(first.url, second.url, options=options) as authorizer:

            def is_there() -> bool:
                offsets.add(authorizer.image.offset)
                return authorizer.image.offset == 3 and is_ready(authorizer)

            await until(is_there)
    assert offsets <= {-1, 2, 3}


def test_what_is_tried_first_is_not_healthy() -> None:
    """Else the tests above would prove nothing."""
    for change in (wrong_digest, fewer, other_table):
        assert change(TOLD.snapshot()) != TOLD.snapshot()
