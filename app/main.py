"""The composition root: settings in, a serving process out."""

import asyncio
import signal
import socket
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from functools import partial
from pathlib import Path
from types import FrameType

import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send

from app.ops.audit import AuditLog
from app.ops.metrics import Metrics
from app.ops.settings import Settings
from app.rest.app import RestApp, create_rest_app
from app.rest.protocol import Answer, KlammProtocol
from app.runtime.authorizer import Authorizer
from app.runtime.options import RuntimeOptions
from app.runtime.retention import Retention
from app.store.acl_store import PostgresAclStore
from app.store.change_feed import PostgresChangeFeed

_BACKLOG = 2048
_DRAIN_TIMEOUT_S = 10
# Longer than the idle time of common clients: a server that hangs up first breaks the request that is on its way.
_KEEP_ALIVE_S = 75
_TICKS_PER_SECOND = 10


def create_app(settings: Settings) -> "Replica":
    """One replica on the PostgreSQL of `settings.database_url`; it loads and follows from the ASGI lifespan's start on.

    Raises ValueError if there is no database URL.
    """
    if settings.database_url is None:
        raise ValueError("a replica needs a database URL")
    dsn = settings.database_url.get_secret_value()
    options = RuntimeOptions(
        enabled=settings.authorizer_enabled,
        request_timeout_s=settings.request_timeout_ms / 1000,
        poll_s=settings.feed_poll_ms / 1000,
    )
    feed = PostgresChangeFeed(dsn)
    authorizer = Authorizer(PostgresAclStore(dsn), feed, settings.authorizer_config, options)
    metrics = Metrics()
    audit = AuditLog(_write_audit_lines, metrics)
    rest = create_rest_app(authorizer, metrics, audit)
    return Replica(rest, authorizer, audit, _retention(settings, feed, options))


def _retention(settings: Settings, feed: PostgresChangeFeed, options: RuntimeOptions) -> Retention | None:
    age_ms, records = settings.feed_retention_ms, settings.feed_retention_records
    if age_ms is None and records is None:
        return None
    keep_age = None if age_ms is None else timedelta(milliseconds=age_ms)
    return Retention(partial(feed.trim, keep_age=keep_age, keep_count=records, not_past=None), options)


class Replica:
    """The REST application with the life of what it stands on, as the ASGI lifespan protocol tells it."""

    def __init__(self, rest: RestApp, authorizer: Authorizer, audit: AuditLog, retention: Retention | None) -> None:
        self.answer = rest.answer
        self._rest = rest
        self._authorizer = authorizer
        self._audit = audit
        self._retention = retention

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or live through the lifespan."""
        if scope["type"] != "lifespan":
            await self._rest(scope, receive, send)
            return
        await receive()
        self._audit.start()
        # Doesn't wait for PostgreSQL: until the first load, readiness says so and super users are answered.
        self._authorizer.open()
        if self._retention is not None:
            self._retention.open()
        await send({"type": "lifespan.startup.complete"})
        await receive()
        if self._retention is not None:
            await self._retention.close()
        await self._authorizer.close()
        await asyncio.to_thread(self._audit.close)
        await send({"type": "lifespan.shutdown.complete"})


def _write_audit_lines(lines: str) -> None:
    sys.stdout.write(lines)
    sys.stdout.flush()


class ListenError(Exception):
    """The address to serve on can't be had; the text is for the operator and says the way out."""


@contextmanager
def listening(host: str, port: int, uds: Path | None = None) -> Iterator[socket.socket]:
    """A socket that listens on host and port, or else on the Unix socket `uds`, whose file is removed in the end.

    Raises ListenError if the address is taken or can't be bound.
    """
    with _unix_socket(uds) if uds is not None else _tcp_socket(host, port) as listener:
        try:
            yield listener
        finally:
            if uds is not None:
                uds.unlink(missing_ok=True)


def address_of(listener: socket.socket) -> str:
    """Where clients reach it: http://127.0.0.1:8080, or unix:PATH."""
    if listener.family == socket.AF_UNIX:
        return f"unix:{listener.getsockname()}"
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _tcp_socket(host: str, port: int) -> socket.socket:
    listener = None
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        listener = socket.socket(family, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        # At once: until then, another process that starts at the same time could bind the port as well.
        listener.listen(_BACKLOG)
    except OSError as error:
        if listener is not None:
            listener.close()
        raise ListenError(
            f"can't serve on {host} port {port} ({error.strerror}); "
            "choose another with --host and --port (KLAMM_HOST, KLAMM_PORT)"
        ) from None
    return listener


def _unix_socket(path: Path) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        if path.is_socket():
            _refuse_if_served(path)
            path.unlink()
        listener.bind(str(path))
        # The folder says who may come in; a sidecar's neighbour usually is another user.
        path.chmod(0o666)
        listener.listen(_BACKLOG)
    except OSError as error:
        listener.close()
        raise ListenError(f"can't serve on `{path}` ({error}); choose another with --uds (KLAMM_UDS)") from None
    except ListenError:
        listener.close()
        raise
    return listener


def _refuse_if_served(path: Path) -> None:
    with suppress(ConnectionRefusedError), socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.connect(str(path))
        raise ListenError(f"another process serves on `{path}`; choose another with --uds (KLAMM_UDS)")


def serve(
    app: ASGIApp,
    listener: socket.socket,
    *,
    answer: Answer | None = None,
    each_second: Callable[[], None] | None = None,
    once_started: Callable[[], Awaitable[None]] | None = None,
) -> None:
    """Serves until SIGTERM or SIGINT, then drains: requests get 10 s to end, then `app` is shut down.

    A second SIGINT doesn't wait. `answer` is asked for plain authorize requests before `app` is; `each_second` is
    called on the event loop, `once_started` is run there as a task.
    Raises SystemExit(3) if the start-up of `app` fails.
    """
    config = uvicorn.Config(
        app,
        http="httptools" if answer is None else partial(KlammProtocol, answer=answer),  # type: ignore[arg-type]  # called
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
    _Server(config, each_second, once_started).run(sockets=[listener])


class _Server(uvicorn.Server):
    """uvicorn's server, with two hooks, that treats a signal as the end of its work and not as that of the process."""

    def __init__(
        self,
        config: uvicorn.Config,
        each_second: Callable[[], None] | None,
        once_started: Callable[[], Awaitable[None]] | None,
    ) -> None:
        super().__init__(config)
        self._each_second = each_second
        self._once_started = once_started
        self._task: asyncio.Task[None] | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self._once_started is not None:
            self._task = asyncio.ensure_future(self._once_started())

    async def on_tick(self, counter: int) -> bool:
        if self._each_second is not None and counter % _TICKS_PER_SECOND == 0:
            self._each_second()
        return await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        if self._task is not None:
            self._task.cancel()
        await super().shutdown(sockets)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:  # noqa: ARG002 - uvicorn names it
        # uvicorn would raise the signal again when all is done, and the process would end by it instead of with 0.
        if self.should_exit and sig == signal.SIGINT:
            self.force_exit = True
        self.should_exit = True
