"""A service that says what a test has written for it, over a real socket, and the follower that hears it."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from threading import RLock
from urllib.parse import parse_qs, urlsplit
from uuid import UUID

import msgspec

from app.core.digest import digest_of as digest_over
from app.core.epochs import Epochs, Standing
from app.core.kafka.bindings import StandardAcl
from app.core.kafka.configs import AuthorizerConfig
from app.core.records import GENESIS_HASH, Record
from app.core.token import Token
from app.formats.clock import Clock
from app.formats.feed_events import Acls, Bookmark, Configs, EpochBegan, FeedEpoch, Snapshot, Synced, encode
from app.formats.feed_values import acl_fields, digest_of, record_fields, transaction_json
from app.runtime.authorizer import Authorizer
from app.runtime.options import RuntimeOptions
from app.upstream.acl_store import UpstreamAclStore
from app.upstream.change_feed import UpstreamChangeFeed
from app.upstream.connection import Connection, UpstreamOptions
from tests import chains
from tests.scripted_server import PATIENCE_S, Answer, ScriptedServer, Step, hang_up, problem, send_answer
from tests.updates import topic

EPOCH = UUID("0199f0c2-5d1e-7c3a-9a41-3f6f0b8a2c17")
LATER_EPOCH = UUID("0199f0c2-ffff-7c3a-9a41-3f6f0b8a2c17")
NOW = datetime(2026, 11, 23, 6, 0, tzinfo=UTC)
ACL = StandardAcl(UUID(int=1), topic("orders"))
QUICK = Clock(jitter=lambda _least, _most: 0.01)
"""With short rests after faults."""


class Told:
    """A history, and the events that a service would send of it. The ACL is there from the snapshot on."""

    def __init__(self, epoch: UUID = EPOCH) -> None:
        self.epochs = Epochs.only(epoch)
        self.records: list[Record] = chains.transaction(0, GENESIS_HASH, [chains.put(ACL.binding)])
        self.acls = [ACL]
        self.configs: dict[str, str] = {}
        self._lock = RLock()

    @property
    def epoch(self) -> UUID:
        return self.epochs.last

    @epoch.setter
    def epoch(self, epoch: UUID) -> None:
        """Another history's, which knows of no earlier one."""
        self.epochs = Epochs.only(epoch)

    @property
    def token(self) -> str:
        return str(self.position)

    @property
    def position(self) -> Token:
        return Token(self.epoch, len(self.records))

    @property
    def hash(self) -> bytes:
        return self.records[-1].hash

    def snapshot(self) -> list[bytes]:
        with self._lock:
            standing = self.token, self.hash.hex(), digest_of(digest_over(self.acls, self.configs))
            epochs = [FeedEpoch(each.id, each.first_offset) for each in self.epochs.rows]
            return [
                encode(Snapshot(*standing, "cluster", len(self.acls), len(self.configs), NOW, epochs)),
                encode(Acls([acl_fields(each) for each in self.acls])),
                encode(Configs(self.configs)),
                encode(Synced(*standing, NOW)),
            ]

    def transaction(self, number: int) -> bytes:
        """One more ACL, made by a transaction of its own."""
        acl = StandardAcl(UUID(int=number), topic(f"orders-{number}"))
        with self._lock:
            added = chains.transaction(len(self.records), self.hash, [chains.put(acl.binding, number)])
            self.records += added
            self.acls.append(acl)
            return self._line(added[0])

    def begin_epoch(self, epoch: UUID) -> bytes:
        with self._lock:
            self.epochs = self.epochs.begun(epoch, len(self.records))
            return encode(EpochBegan(epoch, len(self.records)))

    def bookmark(self, chain: Sequence[str] = (), age_ms: int = 0) -> bytes:
        with self._lock:
            digest = digest_of(digest_over(self.acls, self.configs))
            return encode(Bookmark(self.token, self.hash.hex(), digest, age_ms, NOW, chain=chain))

    def behind(self, position: Token, age_s: float) -> tuple[list[bytes], Token]:
        """What a stream sends from there on, up to a bookmark, and where it stands then."""
        with self._lock:
            known = [each.id for each in self.epochs.rows].index(position.epoch)
            lines: list[bytes] = []
            for offset in range(position.offset, len(self.records) + 1):
                began = [each for each in self.epochs.rows[known + 1 :] if each.first_offset == offset]
                lines += [encode(EpochBegan(each.id, offset)) for each in began]
                lines += [self._line(each) for each in self.records[offset : offset + 1]]
            return [*lines, self.bookmark(age_ms=round(age_s * 1000))], self.position

    def _line(self, record: Record) -> bytes:
        return transaction_json(self.epochs.at(record.offset), [record], [encode(record_fields(record))])


def stream(
    lines: Sequence[bytes], *, then: Callable[[], object] = lambda: None
) -> Callable[[BaseHTTPRequestHandler], None]:
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


class Service:
    """A server that answers as docs/watch.md says, by the history that it holds at the moment."""

    def __init__(self, server: ScriptedServer, told: Told) -> None:
        self.told = told
        self.if_lost = problem(409, "TOKEN_EPOCH_MISMATCH", "lost")
        """What it answers for a position that is lost by its history; `if_ahead`: that may be of a later history."""
        self.if_ahead = problem(503, "STORE_UNAVAILABLE", "can't tell")
        self.age_s: Callable[[], float] = lambda: 0.0
        self.trimmed = 0
        """The records up to this offset are gone."""
        self.is_away = False
        self._server = server
        server.script = [self.answer]

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        told, asked = self.told, parse_qs(urlsplit(request.path).query).get("after")
        if self.is_away:
            hang_up(request)
        elif asked is None:
            self._stream(request, told, told.snapshot())
        else:
            position = Token.parse(asked[0])
            refusal = self._refusal(told, position)
            if refusal is None:
                self._stream(request, told, [], position)
            else:
                send_answer(request, refusal)

    def _refusal(self, told: Told, position: Token) -> Answer | None:
        standing = told.epochs.judge(position, len(told.records))
        if standing is not Standing.PART:
            return self.if_lost if standing is Standing.LOST else self.if_ahead
        return problem(410, "OFFSET_OUT_OF_RANGE", "trimmed") if position.offset < self.trimmed else None

    def _stream(
        self, request: BaseHTTPRequestHandler, told: Told, lines: Sequence[bytes], position: Token | None = None
    ) -> None:
        at = position or Token.parse(msgspec.json.decode(lines[0])["token"])

        def follow() -> None:
            nonlocal at
            while self.told is told and not self.is_away and not self._server.release.wait(0.05):
                more, at = told.behind(at, self.age_s())
                for line in more:
                    request.wfile.write(line + b"\n")

        stream(lines, then=follow)(request)


@asynccontextmanager
async def following(*urls: str, token_file: Path | None = None) -> AsyncIterator[UpstreamChangeFeed]:
    async with connected(urls, token_file) as (_, feed):
        yield feed


@asynccontextmanager
async def followed_by(
    server: ScriptedServer, *, token_file: Path | None = None
) -> AsyncIterator[tuple[Connection, UpstreamChangeFeed]]:
    """Once the server's stream is there, which it has sent one ACL of."""
    told = Told()
    server.script = [open_stream(server, [*told.snapshot(), told.bookmark()])]
    async with connected([server.url], token_file) as (connection, feed):
        async with feed.snapshot() as reader:
            async for _ in reader.slices():
                pass
        # Which waits until the stream is followed.
        await feed.poll(1, 1)
        yield connection, feed


@asynccontextmanager
async def connected(
    urls: Sequence[str], token_file: Path | None = None
) -> AsyncIterator[tuple[Connection, UpstreamChangeFeed]]:
    options = UpstreamOptions(
        urls=urls, follower="own", clock=QUICK, bookmark_s=0.2, token_file=token_file, request_timeout_s=30.0
    )
    connection = Connection(options)
    feed = UpstreamChangeFeed(connection)
    try:
        yield connection, feed
    finally:
        await feed.close()


@asynccontextmanager
async def replica(
    *urls: str,
    options: RuntimeOptions = RuntimeOptions(),  # noqa: B008 - frozen
) -> AsyncIterator[Authorizer]:
    """A follower's authorizer, loading."""
    async with connected(urls) as (connection, feed):
        authorizer = Authorizer(UpstreamAclStore(connection, feed), feed, AuthorizerConfig(), options)
        authorizer.open()
        try:
            yield authorizer
        finally:
            await authorizer.close()
