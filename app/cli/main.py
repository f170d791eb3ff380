"""The composition root: makes a replica that can be served from settings."""

import asyncio
import socket
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import partial

from starlette.types import Receive, Scope, Send

from app import __version__
from app.cli.credentials import callers_of, certificate_of
from app.cli.server import ServerOptions, serve
from app.cli.state_file import state_of
from app.logs.audit import AuditLog
from app.logs.decision_files import DecisionFiles, FileBounds
from app.logs.decision_log import DecisionLog
from app.logs.tracing import Tracing
from app.metrics.declared import Metrics
from app.process.processes import SharedOutput
from app.process.siblings import Siblings
from app.rest.app import AppOptions, RestApp, create_rest_app
from app.rest.callers.authentication import Callers
from app.rest.callers.certificates import CertificateWatch
from app.rest.http.admission import Admission
from app.rest.http.connections import Connections
from app.rest.openapi import build_openapi
from app.runtime.authorizer import Authorizer
from app.runtime.collection import Collector
from app.runtime.options import RuntimeOptions
from app.runtime.ports import AclStore, AskElsewhere, ChangeFeed, PastStore
from app.runtime.retention import Retention
from app.settings.model import Settings
from app.store.reading.change_feed import PostgresChangeFeed
from app.store.reading.past import PostgresPast
from app.store.writing.acl_store import PostgresAclStore


def create_app(
    settings: Settings,
    siblings: Siblings | None = None,
    output: SharedOutput | None = None,
) -> "Replica":
    """A replica, which loads when its ASGI lifespan starts. `siblings` are the other workers of the service.

    Raises ValueError without a source of ACLs, UsageError if the files of tokens, certificates or the key of the state
    file can't be used.
    """
    options = RuntimeOptions(
        enabled=settings.authorizer_enabled,
        request_timeout_s=settings.request_timeout_ms / 1000,
        poll_s=settings.feed_poll_ms / 1000,
        load_turn=nullcontext if siblings is None else siblings.load_turn,
        state=state_of(settings),
    )
    metrics = Metrics()
    feed, store, past, past_elsewhere, retention = _source(settings, options)
    authorizer = Authorizer(store, feed, settings.authorizer_config, options, metrics)
    audit = AuditLog((output or SharedOutput()).write, metrics, form=settings.log_format)
    callers = callers_of(settings, metrics)
    connections = Connections(metrics, settings.connections_max)
    admission = Admission(metrics, connections.is_late)
    tracing = Tracing(__version__) if settings.otel_enabled else None
    decision_log = _decision_log(settings, metrics)
    console = None
    if settings.has_console:
        from app.console.routes import console_routes  # noqa: PLC0415 - loaded only where it is served

        console = console_routes(settings.console_key, settings.pipeline_home, is_behind_tls=settings.console_secure)
    app_options = AppOptions(
        siblings=siblings,
        callers=callers,
        admission=admission,
        tracing=tracing,
        decision_log=decision_log,
        past=past,
        past_elsewhere=past_elsewhere,
        document=build_openapi if settings.has_docs else None,
        console=console,
    )
    return Replica(
        rest=create_rest_app(authorizer, metrics, audit, app_options),
        authorizer=authorizer,
        audit=audit,
        callers=callers,
        connections=connections,
        certificate=certificate_of(settings),
        retention=retention,
        siblings=siblings,
        tracing=tracing,
        decision_log=decision_log,
    )


_Source = tuple[ChangeFeed, AclStore, PastStore | None, AskElsewhere | None, Retention | None]


def _source(settings: Settings, options: RuntimeOptions) -> _Source:
    """The store: another service if one is to be followed, else a database. Raises ValueError without either."""
    if settings.upstream_urls:
        from app.cli.following import followed  # noqa: PLC0415 - an HTTP client takes a tenth of the start

        upstream, writes, past_elsewhere = followed(settings, options)
        return upstream, writes, None, past_elsewhere.ask, None
    if settings.database_url is None:
        raise ValueError("a replica needs a database URL, or an upstream")
    feed = PostgresChangeFeed(settings.database_url, clock=options.clock)
    past = PostgresPast(settings.database_url)
    return feed, PostgresAclStore(settings.database_url), past, None, _retention(settings, feed, options)


def _decision_log(settings: Settings, metrics: Metrics) -> DecisionLog | None:
    if settings.decision_log_path is None:
        return None
    bounds = FileBounds(
        folder=settings.decision_log_path,
        rotate_bytes=settings.decision_log_rotate_bytes,
        rotate_s=settings.decision_log_rotate_ms / 1000,
        retention_bytes=settings.decision_log_retention_bytes,
    )
    return DecisionLog(
        DecisionFiles(bounds, metrics),
        metrics,
        sample=settings.decision_log_sample,
        capacity=settings.decision_log_buffer_bytes,
    )


def _retention(settings: Settings, feed: PostgresChangeFeed, options: RuntimeOptions) -> Retention | None:
    age_ms, records = settings.feed_retention_ms, settings.feed_retention_records
    if age_ms is None and records is None:
        return None
    keep_age = None if age_ms is None else timedelta(milliseconds=age_ms)
    exporters = timedelta(milliseconds=settings.feed_retention_exporters_ms)
    trim = partial(feed.trim, keep_age=keep_age, keep_count=records, exporters_known_for=exporters)
    return Retention(trim, options)


@dataclass(kw_only=True, eq=False)
class Replica:
    """The ASGI application. Its lifespan starts and stops everything that it needs."""

    rest: RestApp
    authorizer: Authorizer
    audit: AuditLog
    callers: Callers
    connections: Connections
    certificate: CertificateWatch | None = None
    """None without TLS."""
    retention: Retention | None = None
    siblings: Siblings | None = None
    tracing: Tracing | None = None
    decision_log: DecisionLog | None = None
    _collector: Collector = field(init=False)

    def __post_init__(self) -> None:
        self._collector = Collector(self.authorizer.metrics)

    def serve(self, listener: socket.socket, options: ServerOptions) -> None:
        """As `cli.server.serve`; the options need not hold what connects the server with the replica."""
        certificate = self.certificate
        connected = replace(
            options,
            answer=self.rest.answer,
            prepared=self.rest.prepared,
            connections=self.connections,
            tls=None if certificate is None else lambda: certificate.context,
            draining=self._draining,
        )
        serve(self, listener, connected)

    def _draining(self, others_serve: bool) -> None:  # noqa: FBT001 - the one argument
        """Makes readers of the feed leave; requests are answered as before, but readiness fails from now on.

        If the other workers go on serving, the service stays ready, also when this process is asked.
        """
        self.authorizer.watchers.drain()
        if not others_serve:
            self.authorizer.readiness.draining()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "lifespan":
            await self.rest(scope, receive, send)
            return
        await receive()
        await self._open()
        await send({"type": "lifespan.startup.complete"})
        try:
            await receive()
        except asyncio.CancelledError:
            # After a second Ctrl-C nobody waits for a clean end, and a traceback would say no more than that.
            return
        await self._close()
        await send({"type": "lifespan.shutdown.complete"})

    async def _open(self) -> None:
        if self.siblings is not None:
            await self.siblings.open(self.rest.worker_probe)
        self.audit.start()
        if self.decision_log is not None:
            self.decision_log.start()
        self._collector.open()
        self.callers.open()
        if self.certificate is not None:
            self.certificate.open()
        # Doesn't wait for PostgreSQL: until the first load, readiness says so and super users are answered.
        self.authorizer.open()
        if self.retention is not None:
            self.retention.open()

    async def _close(self) -> None:
        if self.retention is not None:
            await self.retention.close()
        await self.rest.close()
        await self.authorizer.close()
        if self.certificate is not None:
            await self.certificate.close()
        await self.callers.close()
        await self._collector.close()
        await asyncio.to_thread(self.audit.close)
        if self.decision_log is not None:
            await asyncio.to_thread(self.decision_log.close)
        if self.tracing is not None:
            await self.tracing.close()
        if self.siblings is not None:
            await self.siblings.close()
