"""A reader of the watch stream that believes nothing: it folds the events, and recomputes hashes and digest."""

import contextlib
import socket
import threading
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Self
from uuid import UUID

import httpx

from app.core.epochs import is_later
from app.core.kafka.bindings import StandardAcl
from app.core.proof import FeedProof
from app.core.records import AccessControlEntryRecord, ConfigRecord, Record, record_hash
from app.core.token import Token
from app.formats.feed_events import (
    Acls,
    Bookmark,
    Configs,
    End,
    EpochBegan,
    Event,
    Snapshot,
    Synced,
    Transaction,
    decode,
)
from app.formats.feed_values import acl_in, records_in
from tests.asking_again import client_of
from tests.klamm import ADMIN, LIMIT_S, Process, wait_until

WATCH = "/v1/watch"


@dataclass
class Folded:
    """The state that the events amount to. `take` raises AssertionError for a stream that can't be."""

    filtered: bool = False
    """Whether transactions may be missing that the reader's filter lets nothing of through."""
    keeps_all: bool = True
    """Whether `records` and `events` are kept; a million of them need gigabytes."""
    token: str | None = None
    hash: bytes | None = None
    """None until a snapshot or a bookmark has said it."""
    acls: dict[UUID, StandardAcl] = field(default_factory=dict)
    configs: dict[str, str] = field(default_factory=dict)
    records: list[Record] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    ended: str | None = None
    _begun: Snapshot | None = None
    _proof: FeedProof | None = None

    def take_lines(self, lines: Iterable[bytes]) -> None:
        for line in lines:
            event = decode(line)
            assert event is not None, line
            self.take(event)

    def take(self, event: Event) -> None:  # noqa: C901, PLR0912 - a case an event
        assert self.ended is None, "something came after the end"
        if self.keeps_all:
            self.events.append(event)
        match event:
            case Snapshot():
                assert self.token is None
                self._begun = event
            case Acls():
                assert self._begun is not None
                for each in map(acl_in, event.acls):
                    assert each.id not in self.acls, "an ACL came twice"
                    self.acls[each.id] = each
            case Configs():
                self.configs = dict(event.configs)
            case Synced():
                assert self._begun is not None
                assert (event.token, event.hash, event.digest) == (
                    self._begun.token,
                    self._begun.hash,
                    self._begun.digest,
                )
                self.token, self.hash = event.token, bytes.fromhex(event.hash)
                if not self.filtered:
                    assert (len(self.acls), len(self.configs)) == (self._begun.acl_count, self._begun.config_count)
                    self._proof = FeedProof()
                    self._proof.begin(Token.parse(event.token).offset, self.hash)
                    self._proof.add_acls(list(self.acls.values()))
                    self._proof.add_configs(self.configs)
                    self._check(event.token, event.digest)
            case EpochBegan():
                if self.token is not None:
                    assert is_later(event.epoch, Token.parse(self.token).epoch)
                    assert self.filtered or event.first_offset == Token.parse(self.token).offset
                self.token = str(Token(event.epoch, event.first_offset))
            case Transaction():
                self._transaction(event)
            case Bookmark():
                if not self.filtered:
                    assert self.token in (None, event.token)
                    assert self.hash in (None, bytes.fromhex(event.hash))
                self.token, self.hash = event.token, bytes.fromhex(event.hash)
                self._check(event.token, event.digest)
            case End():
                assert event.token in (self.token, None) or self.token is None
                self.ended = event.reason

    def _transaction(self, event: Transaction) -> None:
        if self.token is not None:
            before, after = Token.parse(self.token), Token.parse(event.token)
            assert before.epoch == after.epoch
            assert self.filtered or event.first_offset == before.offset + 1, "a hole"
            assert event.last_offset == after.offset
        after_hash = bytes.fromhex(event.hash)
        if self.filtered:
            assert len(event.records) == event.last_offset - event.first_offset + 1 - event.left_out
        else:
            self._follow(records_in(event), after_hash)
        self.token, self.hash = event.token, after_hash

    def _follow(self, records: list[Record], after_hash: bytes) -> None:
        if self._proof is not None:
            self._proof.follow(records, after_hash)
        elif self.hash is not None:
            chained = self.hash
            for record in records:
                chained = record_hash(chained, record)
            assert chained == after_hash
        for record in records:
            self._fold(record)

    def _check(self, token: str, digest: str | None) -> None:
        if self._proof is not None and self.hash is not None:
            self._proof.check_at(Token.parse(token).offset, self.hash, None if digest is None else int(digest, 16))

    def _fold(self, record: Record) -> None:
        if self.keeps_all:
            self.records.append(record)
        if isinstance(record, ConfigRecord):
            self.configs.pop(record.name, None)
            if record.value is not None:
                self.configs[record.name] = record.value
        elif isinstance(record, AccessControlEntryRecord):
            self.acls[record.acl.id] = record.acl
        elif self._begun is not None:
            del self.acls[record.acl.id]


class Stream:
    """A stream that a thread folds."""

    def __init__(self, url: str, query: str, headers: dict[str, str] | None = None) -> None:
        self.seen = Folded()
        self.fault: BaseException | None = None
        self._client = client_of(url, {"klamm-epochs": "1", **(headers or {})})
        self._query = query
        self._socket: socket.socket | None = None
        self._has_left = False
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        try:
            self._read()
        except BaseException as fault:  # noqa: BLE001 - the test looks at it
            self.fault = fault

    def _read(self) -> None:
        with self._client.stream("GET", f"{WATCH}?{self._query}") as reply:
            assert reply.status_code == httpx.codes.OK, reply.read()
            assert reply.headers["content-type"] == "application/x-ndjson"
            self._socket = reply.extensions["network_stream"].get_extra_info("socket")
            for line in reply.iter_lines():
                if self._has_left:
                    break
                self.seen.take_lines([line.encode()])

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        # Closed under the thread that polls it, the descriptor would soon be another connection's, and this one open.
        self._has_left = True
        if self._socket is not None:
            with contextlib.suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)
        self._thread.join(LIMIT_S)
        self._client.close()

    def until(self, token: str) -> None:
        wait_until(lambda: self.seen.token == token or self.fault is not None, f"the reader sees {token}")
        assert self.fault is None, self.fault

    def ended(self) -> str | None:
        self._thread.join(LIMIT_S)
        return self.seen.ended


def token_of(service: Process) -> str:
    """Where the service's image stands."""
    return str(service.post("/v1/acls/search", {"context": ADMIN, "filter": {}, "limit": 1})["token"])
