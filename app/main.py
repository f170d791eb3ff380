"""The composition root: settings in, a serving process out."""

import asyncio
import signal
import socket
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, nullcontext
from datetime import timedelta
from functools import partial
from types import FrameType

import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send

from app.ops.audit import AuditLog
from app.ops.metrics import Metrics
from app.ops.settings import Settings
from app.ops.sockets import SharedDoor
from app.ops.workers.output import SharedOutput
from app.ops.workers.siblings import Siblings
from app.rest.app import RestApp, create_rest_app
from app.rest.protocol import Answer, KlammProtocol
from app.runtime.authorizer import Authorizer
from app.runtime.collection import Collector
from app.runtime.options import RuntimeOptions
from app.runtime.retention import Retention
from app.store.acl_store import PostgresAclStore
from app.store.change_feed import PostgresChangeFeed

_DRAIN_TIMEOUT_S = 10
# Longer than the idle time of common clients: a server that hangs up first breaks the request that is on its way.
_KEEP_ALIVE_S = 75
_TICKS_PER_SECOND = 10
_HOOKS_TIMEOUT_S = 1


def create_app(
    settings: Settings,
    siblings: Siblings | None = None,
    output: SharedOutput = SharedOutput(),  # noqa: B008 - it has no state
) -> "Replica":
    """One replica on the PostgreSQL of `settings.database_url`; it loads and follows from the ASGI lifespan's start on.

    `siblings` are the other workers of the service, if it has any. Raises ValueError if there is no database URL.
    """
    if settings.database_url is None:
        raise ValueError("a replica needs a database URL")
    dsn = settings.database_url.get_secret_value()
    options = RuntimeOptions(
        enabled=settings.authorizer_enabled,
        request_timeout_s=settings.request_timeout_ms / 1000,
        poll_s=settings.feed_poll_ms / 1000,
        load_turn=nullcontext if siblings is None else siblings.load_turn,
    )
    feed = PostgresChangeFeed(dsn)
    authorizer = Authorizer(PostgresAclStore(dsn), feed, settings.authorizer_config, options)
    metrics = Metrics()
    audit = AuditLog(output.write, metrics)
    rest = create_rest_app(authorizer, metrics, audit, siblings)
    return Replica(rest, authorizer, audit, _retention(settings, feed, options), siblings)


def _retention(settings: Settings, feed: PostgresChangeFeed, options: RuntimeOptions) -> Retention | None:
    age_ms, records = settings.feed_retention_ms, settings.feed_retention_records
    if age_ms is None and records is None:
        return None
    keep_age = None if age_ms is None else timedelta(milliseconds=age_ms)
    return Retention(partial(feed.trim, keep_age=keep_age, keep_count=records, not_past=None), options)


class Replica:
    """The REST application with the life of what it stands on, as the ASGI lifespan protocol tells it."""

    def __init__(
        self,
        rest: RestApp,
        authorizer: Authorizer,
        audit: AuditLog,
        retention: Retention | None,
        siblings: Siblings | None = None,
    ) -> None:
        self.answer = rest.answer
        self._rest = rest
        self._authorizer = authorizer
        self._audit = audit
        self._retention = retention
        self._siblings = siblings
        self._collector = Collector(authorizer.metrics)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or live through the lifespan."""
        if scope["type"] != "lifespan":
            await self._rest(scope, receive, send)
            return
        await receive()
        if self._siblings is not None:
            await self._siblings.open(self._rest.face)
        self._audit.start()
        self._collector.open()
        # Doesn't wait for PostgreSQL: until the first load, readiness says so and super users are answered.
        self._authorizer.open()
        if self._retention is not None:
            self._retention.open()
        await send({"type": "lifespan.startup.complete"})
        try:
            await receive()
        except asyncio.CancelledError:
            # A second Ctrl-C: nobody waits for an end in order, and a traceback would say no more than that.
            return
        if self._retention is not None:
            await self._retention.close()
        await self._authorizer.close()
        await self._collector.close()
        await asyncio.to_thread(self._audit.close)
        if self._siblings is not None:
            await self._siblings.close()
        await send({"type": "lifespan.shutdown.complete"})


def serve(
    app: ASGIApp,
    listener: socket.socket,
    *,
    answer: Answer | None = None,
    each_second: Callable[[], None] | None = None,
    once_started: Callable[[], Awaitable[None]] | None = None,
    admission: AbstractAsyncContextManager[None] | None = None,
) -> None:
    """Serves until SIGTERM or SIGINT, then drains: requests get 10 s to end, then `app` is shut down.

    A second SIGINT doesn't wait. `answer` is asked for plain authorize requests before `app` is; `each_second` is
    called on the event loop, `once_started` is run there as a task. With `admission` other processes share the
    listener: this one takes connections between its entry and its exit.
    Raises SystemExit(3) if the start-up of `app` fails.
    """
    config = uvicorn.Config(
        app,
        http="httptools" if answer is None else partial(KlammProtocol, answer=answer),  # type: ignore[arg-type]  # uvicorn calls it
        loop="uvloop",
        ws="none",
        lifespan="on",
        access_log=False,
        log_config=None,
        server_header=False,
        # Nothing here reads the peer's address, and nobody's headers are to change it.
        proxy_headers=False,
        timeout_keep_alive=_KEEP_ALIVE_S,
        timeout_graceful_shutdown=_DRAIN_TIMEOUT_S,
    )
    _Server(config, each_second, once_started, admission).run(sockets=[listener])


class _Server(uvicorn.Server):
    """uvicorn's server, with hooks, that treats a signal as the end of its work and not as that of the process."""

    def __init__(
        self,
        config: uvicorn.Config,
        each_second: Callable[[], None] | None,
        once_started: Callable[[], Awaitable[None]] | None,
        admission: AbstractAsyncContextManager[None] | None,
    ) -> None:
        super().__init__(config)
        self._each_second = each_second
        self._once_started = once_started
        self._admission = admission
        self._tasks: list[asyncio.Future[None]] = []

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets if self._admission is None else [])
        if self._admission is not None and sockets:
            self._tasks.append(asyncio.ensure_future(self._share(sockets[0], self._admission)))
        if self._once_started is not None:
            self._tasks.append(asyncio.ensure_future(self._once_started()))

    async def _share(self, listener: socket.socket, admission: AbstractAsyncContextManager[None]) -> None:
        async with admission:
            door = SharedDoor(listener, self._protocol)
            door.open()
            try:
                await asyncio.Event().wait()
            finally:
                door.close()

    def _protocol(self) -> asyncio.Protocol:
        # As uvicorn makes them for the sockets that it listens on itself.
        return self.config.http_protocol_class(  # type: ignore[call-arg]  # as uvicorn calls it
            config=self.config, server_state=self.server_state, app_state=self.lifespan.state
        )

    async def on_tick(self, counter: int) -> bool:
        if self._each_second is not None and counter % _TICKS_PER_SECOND == 0:
            self._each_second()
        return await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            # The door must be shut before the listener is.
            await asyncio.wait(self._tasks, timeout=_HOOKS_TIMEOUT_S)
        await super().shutdown(sockets)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:  # noqa: ARG002 - uvicorn names it
        # uvicorn would raise the signal again when all is done, and the process would end by it instead of with 0.
        if self.should_exit and sig == signal.SIGINT:
            self.force_exit = True
        self.should_exit = True
