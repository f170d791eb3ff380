"""A service that says what a test has written for it, over a real socket, and the follower that hears it."""

import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from uuid import UUID

from app.core.digest import digest_of as digest_over
from app.core.kafka.bindings import StandardAcl
from app.core.records import GENESIS_HASH, Record
from app.formats.feed_events import Acls, Bookmark, Configs, Snapshot, Synced, encode
from app.formats.feed_values import acl_fields, digest_of, record_fields, transaction_json
from app.upstream.change_feed import UpstreamChangeFeed
from app.upstream.connection import Connection, UpstreamOptions
from tests import chains
from tests.scripted_server import PATIENCE_S, ScriptedServer, Step
from tests.updates import topic

EPOCH = UUID("0199f0c2-5d1e-7c3a-9a41-3f6f0b8a2c17")
LATER_EPOCH = UUID("0199f0c2-ffff-7c3a-9a41-3f6f0b8a2c17")
NOW = datetime(2026, 11, 23, 6, 0, tzinfo=UTC)
ACL = StandardAcl(UUID(int=1), topic("orders"))


class Told:
    """A history, and the events that a service would send of it. The ACL is there from the snapshot on."""

    def __init__(self, epoch: UUID = EPOCH) -> None:
        self.epoch = epoch
        self.records: list[Record] = chains.transaction(0, GENESIS_HASH, [chains.put(ACL.binding)])
        self.acls = [ACL]

    @property
    def token(self) -> str:
        return f"{self.epoch}:{len(self.records)}"

    @property
    def hash(self) -> bytes:
        return self.records[-1].hash

    def snapshot(self) -> list[bytes]:
        standing = self.token, self.hash.hex(), digest_of(digest_over(self.acls, {}))
        return [
            encode(Snapshot(*standing, "cluster", len(self.acls), 0, NOW)),
            encode(Acls([acl_fields(each) for each in self.acls])),
            encode(Configs({})),
            encode(Synced(*standing, NOW)),
        ]

    def transaction(self, number: int) -> bytes:
        """One more ACL, made by a transaction of its own."""
        acl = StandardAcl(UUID(int=number), topic(f"orders-{number}"))
        added = chains.transaction(len(self.records), self.hash, [chains.put(acl.binding, number)])
        self.records += added
        self.acls.append(acl)
        return transaction_json(self.epoch, added, [encode(record_fields(each)) for each in added])

    def bookmark(self, chain: Sequence[str] = (), age_ms: int = 0) -> bytes:
        digest = digest_of(digest_over(self.acls, {}))
        return encode(Bookmark(self.token, self.hash.hex(), digest, age_ms, NOW, chain=chain))


def stream(lines: Sequence[bytes], *, then: Callable[[], object] = lambda: None) -> Step:
    """A reply of these lines, which ends when `then` returns."""

    def send(request: BaseHTTPRequestHandler) -> None:
        request.close_connection = True
        request.send_response(200)
        request.send_header("content-type", "application/x-ndjson")
        request.end_headers()
        for line in lines:
            request.wfile.write(line + b"\n")
        then()

    return send


def open_stream(server: ScriptedServer, lines: Sequence[bytes]) -> Step:
    """As `stream`, and silent behind the lines until the end of the test."""
    return stream(lines, then=lambda: server.release.wait(PATIENCE_S))


@asynccontextmanager
async def following(*urls: str, token_file: Path | None = None) -> AsyncIterator[UpstreamChangeFeed]:
    async with _connected(urls, token_file) as (_, feed):
        yield feed


@asynccontextmanager
async def followed_by(
    server: ScriptedServer, *, token_file: Path | None = None
) -> AsyncIterator[tuple[Connection, UpstreamChangeFeed]]:
    """Once the server's stream is there, which it has sent one ACL of."""
    told = Told()
    server.script = [open_stream(server, [*told.snapshot(), told.bookmark()])]
    async with _connected([server.url], token_file) as (connection, feed):
        async with feed.snapshot() as reader:
            async for _ in reader.slices():
                pass
        # Which waits until the stream is followed.
        await feed.poll(1, 1)
        yield connection, feed


@asynccontextmanager
async def _connected(
    urls: Sequence[str], token_file: Path | None
) -> AsyncIterator[tuple[Connection, UpstreamChangeFeed]]:
    options = UpstreamOptions(
        urls=urls, follower="own", clock=time.monotonic, bookmark_s=0.2, token_file=token_file, request_timeout_s=30.0
    )
    connection = Connection(options)
    feed = UpstreamChangeFeed(connection, lambda _low, _high: 0.01)
    try:
        yield connection, feed
    finally:
        await feed.close()
