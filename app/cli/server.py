"""The server of one process, which stops without losing a request."""

import asyncio
import logging
import signal
import socket
import ssl
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from types import FrameType
from typing import Any

import uvicorn
from starlette.types import ASGIApp

from app.process.siblings import Siblings
from app.process.sockets import AcceptedProtocol, Acceptor
from app.rest.http.connections import Connections
from app.rest.http.protocol import Answer, KlammProtocol, nothing_at_once
from app.rest.http.unauthenticated import NothingPrepared, Prepared

_IN_FLIGHT_TIMEOUT_S = 10
# Longer than the idle time of common clients: a server that closes first breaks a request under way.
_KEEP_ALIVE_S = 75
_TICKS_PER_SECOND = 10
_HOOKS_TIMEOUT_S = 1

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerOptions:
    answer: Answer = nothing_at_once
    """Decides plain requests of authorize before the application is asked."""
    prepared: Prepared = field(default_factory=NothingPrepared)
    """Replies to unauthenticated clients before the application is asked."""
    connections: Connections = field(default_factory=Connections)
    tls: Callable[[], ssl.SSLContext] | None = None
    each_second: Callable[[], None] | None = None
    once_started: Callable[[], Awaitable[None]] | None = None
    """Run as a task on the event loop."""
    admission: AbstractAsyncContextManager[None] | None = None
    """For a listener shared with other processes: connections are accepted between its entry and its exit."""
    drain_s: float = 0.0
    draining: Callable[[bool], None] | None = None
    """Called when the server begins to drain, with whether others go on serving from the same socket."""
    supervision: Siblings | None = None
    """Says when the server must drain or end, as SIGTERM does for a server without it."""


def serve(app: ASGIApp, listener: socket.socket, options: ServerOptions) -> None:
    """Serves until a signal ends it: it closes the listener, gives requests 10 s to end, and shuts `app` down.

    After SIGTERM it first drains: for `drain_s` it goes on to accept connections and to answer, and replies ask
    clients to leave. A second SIGTERM ends that, and so does SIGINT; after a second SIGINT it waits for nothing.
    Raises SystemExit(3) if `app` can't start.
    """
    tls = options.tls
    config = uvicorn.Config(
        app,
        http=partial(  # type: ignore[arg-type]  # uvicorn calls it
            KlammProtocol, answer=options.answer, prepared=options.prepared, shared=options.connections
        ),
        loop="uvloop",
        ws="none",
        lifespan="on",
        access_log=False,
        log_config=None,
        server_header=False,
        # Headers of proxies must not change the peer's address.
        proxy_headers=False,
        timeout_keep_alive=_KEEP_ALIVE_S,
        timeout_graceful_shutdown=_IN_FLIGHT_TIMEOUT_S,
        ssl_context_factory=None if tls is None else lambda _config, _default: tls(),
    )
    _Server(config, options).run(sockets=[listener])


def _handle_exception(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Logs exceptions that no task has handled, except that a host has no address.

    uvloop goes on resolving a name after its caller has given up; callers that still wait handle the error themselves.
    """
    if not isinstance(context.get("exception"), socket.gaierror):
        loop.default_exception_handler(context)


class _Server(uvicorn.Server):
    """uvicorn's server, whose `run` returns after a signal instead of ending the process with it."""

    def __init__(self, config: uvicorn.Config, options: ServerOptions) -> None:
        super().__init__(config)
        self._options = options
        self._draining = False
        self._tasks: list[asyncio.Future[None]] = []
        self._loop: asyncio.AbstractEventLoop | None = None
        if options.supervision is not None:
            options.supervision.on_orders(self.drain, self.end)

    # the start

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        self._loop = asyncio.get_running_loop()
        self._loop.set_exception_handler(_handle_exception)
        await super().startup([])
        for listener in sockets or ():
            self._tasks.append(asyncio.ensure_future(self._listen(listener)))
        if self._options.once_started is not None:
            self._tasks.append(asyncio.ensure_future(self._options.once_started()))

    async def _listen(self, listener: socket.socket) -> None:
        admission = self._options.admission
        async with admission or nullcontext():
            acceptor = Acceptor(listener, self._protocol, self.config.ssl, shared=admission is not None)
            acceptor.start()
            try:
                await asyncio.Event().wait()
            finally:
                await acceptor.close(accept_queued=not self._others_serve())

    def _protocol(self) -> AcceptedProtocol:
        # As uvicorn does for its own listeners.
        return self.config.http_protocol_class(  # type: ignore[call-arg, return-value]  # it is KlammProtocol
            config=self.config, server_state=self.server_state, app_state=self.lifespan.state
        )

    async def on_tick(self, counter: int) -> bool:
        if self._options.each_second is not None and counter % _TICKS_PER_SECOND == 0:
            self._options.each_second()
        return await super().on_tick(counter)

    # the end

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:  # noqa: ARG002 - uvicorn names it
        # uvicorn would raise the signal again at the end, and the process would not end with status 0.
        if sig == signal.SIGTERM and self.started and self._loop is not None:
            self._loop.call_soon_threadsafe(self._terminated)
            return
        if self.should_exit and sig == signal.SIGINT:
            self.force_exit = True
        self.should_exit = True

    def _terminated(self) -> None:
        if self._options.supervision is None:
            (self.end if self._draining else self.drain)()
        elif not self._draining and not self.should_exit:
            self._options.supervision.on_sigterm()

    def drain(self) -> None:
        """Asks clients to leave, and serves on until the drain time is over."""
        if self._draining or self._loop is None:
            return
        self._begin_drain()
        if self.should_exit or not self._options.drain_s:
            self.end()
            return
        _log.info("draining", extra={"for_s": self._options.drain_s})
        self._loop.call_later(self._options.drain_s, self.end)

    def end(self) -> None:
        """Stops the server; requests in flight may end."""
        self.should_exit = True

    def _begin_drain(self) -> None:
        self._draining = True
        self._options.connections.drain()
        if self._options.draining is not None:
            self._options.draining(self._others_serve())

    def _others_serve(self) -> bool:
        return self._options.supervision is not None and self._options.supervision.alone

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        if not self._draining:
            self._begin_drain()
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            # Nothing may be accepted any more once uvicorn closes what is open.
            await asyncio.wait(self._tasks, timeout=_HOOKS_TIMEOUT_S)
        await super().shutdown(sockets)
