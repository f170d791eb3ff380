"""A service on a fake store, served over a socket by a thread, and its follower as the subject of the contract."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import cast

from app.cli.main import Replica
from app.cli.server import ServerOptions
from app.core.continuity import FeedPosition
from app.core.kafka.bindings import NO_TERMS, StandardAcl
from app.core.kafka.configs import AuthorizerConfig
from app.core.records import GENESIS_HASH, FeedHead, Record
from app.logs.audit import AuditLog
from app.metrics.declared import Metrics
from app.process.siblings import Siblings
from app.process.sockets import listening
from app.rest.app import AppOptions, create_rest_app
from app.rest.callers.authentication import Callers
from app.rest.http.admission import Admission
from app.rest.http.connections import Connections
from app.runtime.authorizer import Authorizer
from app.upstream.change_feed import UpstreamChangeFeed
from app.upstream.connection import Connection, UpstreamOptions
from tests.fakes import FakeStore
from tests.gate.contract.subject import Subject
from tests.klamm import wait_until
from tests.updates import ACTOR


class _Orders:
    """Ends a server that no signal reaches."""

    alone = True

    def __init__(self) -> None:
        self.end: Callable[[], None] = lambda: None

    def on_orders(self, _drain: Callable[[], None], end: Callable[[], None]) -> None:
        self.end = end

    def on_sigterm(self) -> None:
        raise AssertionError


def _replica(store: FakeStore) -> Replica:
    metrics = Metrics()
    audit = AuditLog(lambda _lines: None, metrics)
    authorizer = Authorizer(store, store.feed, AuthorizerConfig(super_users=frozenset({ACTOR})), metrics=metrics)
    connections, callers = Connections(metrics), Callers(None, metrics)
    options = AppOptions(callers=callers, admission=Admission(metrics, connections.is_late))
    rest = create_rest_app(authorizer, metrics, audit, options)
    return Replica(rest=rest, authorizer=authorizer, audit=audit, callers=callers, connections=connections)


@contextmanager
def service_on(store: FakeStore) -> Iterator[str]:
    """The address of a service on this store."""
    orders = _Orders()
    with listening("127.0.0.1", 0) as listener:
        replica = _replica(store)
        serving = threading.Thread(
            target=replica.serve, args=(listener, ServerOptions(supervision=cast("Siblings", orders))), daemon=True
        )
        serving.start()
        try:
            wait_until(lambda: replica.authorizer.image.epoch is not None, "the first load")
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            orders.end()
            serving.join(30)


def feed_of(url: str) -> UpstreamChangeFeed:
    """Of a follower of its own."""
    return UpstreamChangeFeed(Connection(options_of(url)))


def options_of(url: str) -> UpstreamOptions:
    return UpstreamOptions(urls=[url], follower="contract", bookmark_s=0.2, request_timeout_s=60.0)


@dataclass(frozen=True)
class FollowedSubject(Subject):
    """Each look is a follower's of its own: a feed goes only forwards."""

    url: str

    async def records(self) -> list[Record]:
        feed, head = feed_of(self.url), await self.head()
        feed.resume(FeedPosition(head.epoch, 0, GENESIS_HASH), head.epochs.upto(0), 0.0)
        records: list[Record] = []
        try:
            async with asyncio.timeout(60):
                while len(records) < head.last_offset:
                    records = list((await feed.poll(0, 1_000_000)).records)
        finally:
            await feed.close()
        return records

    async def acls(self) -> list[StandardAcl]:
        feed = feed_of(self.url)
        try:
            async with feed.snapshot() as reader:
                return [
                    StandardAcl.from_row(row, some.terms.get(row[0], NO_TERMS))
                    async for some in reader.slices()
                    for row in some.rows
                ]
        finally:
            await feed.close()

    async def head(self) -> FeedHead:
        feed = feed_of(self.url)
        try:
            async with feed.snapshot() as reader:
                return reader.head
        finally:
            await feed.close()
