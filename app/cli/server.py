"""The server of one process: it takes connections, has requests answered, and ends without losing any of them."""

import asyncio
import logging
import signal
import socket
import ssl
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from types import FrameType
from typing import Any, Protocol

import uvicorn
from starlette.types import ASGIApp

from app.process.sockets import AcceptedProtocol, Acceptor
from app.rest.http.connections import Connections
from app.rest.http.protocol import Answer, KlammProtocol, nothing_at_once

_IN_FLIGHT_TIMEOUT_S = 10
# Longer than the idle time of common clients: a server that hangs up first breaks the request that is on its way.
_KEEP_ALIVE_S = 75
_TICKS_PER_SECOND = 10
_HOOKS_TIMEOUT_S = 1

_log = logging.getLogger(__name__)


class Supervision(Protocol):
    """Says when a server is to end, which SIGTERM says to a server without it."""

    alone: bool
    """Whether this server ends while others go on to serve from the same socket."""

    def on_orders(self, drain: Callable[[], None], end: Callable[[], None]) -> None:
        """Sets what drains and what ends the server; both are called on the event loop."""

    def on_sigterm(self) -> None:
        """SIGTERM has come before either was called; called on the event loop."""


@dataclass(frozen=True, slots=True)
class _Hooks:
    each_second: Callable[[], None] | None
    once_started: Callable[[], Awaitable[None]] | None
    admission: AbstractAsyncContextManager[None] | None
    draining: Callable[[], None] | None
    supervision: Supervision | None
    connections: Connections


def serve(  # noqa: PLR0913 - all that a server has to do with meets here
    app: ASGIApp,
    listener: socket.socket,
    *,
    answer: Answer = nothing_at_once,
    each_second: Callable[[], None] | None = None,
    once_started: Callable[[], Awaitable[None]] | None = None,
    admission: AbstractAsyncContextManager[None] | None = None,
    tls: Callable[[], ssl.SSLContext] | None = None,
    drain_s: float = 0.0,
    draining: Callable[[], None] | None = None,
    supervision: Supervision | None = None,
    connections: Connections | None = None,
) -> None:
    """Serves until it is to end: the listener is closed, requests get 10 s to end, then `app` is shut down.

    SIGTERM calls `draining` at once, and for `drain_s` everything is served on, new connections too, while replies ask
    clients to leave; a second SIGTERM doesn't wait for that, nor does SIGINT. A second SIGINT waits for nothing.
    With `supervision`, SIGTERM is left to it.

    `answer` is asked for plain requests of authorize and the OPA door before `app` is; `each_second` is called on the
    event loop, `once_started` is run there as a task. With `admission` other processes share the listener: this one
    takes connections between its entry and its exit. `tls` makes the context of a server that speaks TLS.
    Raises SystemExit(3) if the start-up of `app` fails.
    """
    connections = connections or Connections()
    config = uvicorn.Config(
        app,
        http=partial(KlammProtocol, answer=answer, shared=connections),  # type: ignore[arg-type]  # uvicorn calls it
        loop="uvloop",
        ws="none",
        lifespan="on",
        access_log=False,
        log_config=None,
        server_header=False,
        # Nothing here reads the peer's address, and nobody's headers are to change it.
        proxy_headers=False,
        timeout_keep_alive=_KEEP_ALIVE_S,
        timeout_graceful_shutdown=_IN_FLIGHT_TIMEOUT_S,
        ssl_context_factory=None if tls is None else lambda _config, _default: tls(),
    )
    hooks = _Hooks(each_second, once_started, admission, draining, supervision, connections)
    _Server(config, drain_s, hooks).run(sockets=[listener])


def _unless_nobody_asks(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Log what no task has heard of, but not that a host has no address.

    uvloop goes on looking a name up when whoever wants it has given up (its time was over, or the service ends). Who
    still wants it hears of it and says so.
    """
    if not isinstance(context.get("exception"), socket.gaierror):
        loop.default_exception_handler(context)


class _Server(uvicorn.Server):
    """uvicorn's server, with hooks, that treats a signal as the end of its work and not as that of the process."""

    def __init__(self, config: uvicorn.Config, drain_s: float, hooks: _Hooks) -> None:
        super().__init__(config)
        self._drain_s = drain_s
        self._hooks = hooks
        self._draining = False
        self._tasks: list[asyncio.Future[None]] = []
        self._loop: asyncio.AbstractEventLoop | None = None
        if hooks.supervision is not None:
            hooks.supervision.on_orders(self.drain, self.end)

    # the start

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        self._loop = asyncio.get_running_loop()
        self._loop.set_exception_handler(_unless_nobody_asks)
        await super().startup([])
        for listener in sockets or ():
            self._tasks.append(asyncio.ensure_future(self._listen(listener)))
        if self._hooks.once_started is not None:
            self._tasks.append(asyncio.ensure_future(self._hooks.once_started()))

    async def _listen(self, listener: socket.socket) -> None:
        admission = self._hooks.admission
        async with admission or nullcontext():
            acceptor = Acceptor(listener, self._protocol, self.config.ssl, shared=admission is not None)
            acceptor.start()
            try:
                await asyncio.Event().wait()
            finally:
                await acceptor.close(accept_queued=not self._others_serve())

    def _protocol(self) -> AcceptedProtocol:
        # As uvicorn makes them for the sockets that it listens on itself.
        return self.config.http_protocol_class(  # type: ignore[call-arg, return-value]  # it is KlammProtocol
            config=self.config, server_state=self.server_state, app_state=self.lifespan.state
        )

    async def on_tick(self, counter: int) -> bool:
        if self._hooks.each_second is not None and counter % _TICKS_PER_SECOND == 0:
            self._hooks.each_second()
        return await super().on_tick(counter)

    # the end

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:  # noqa: ARG002 - uvicorn names it
        # uvicorn would raise the signal again when all is done, and the process would end by it instead of with 0.
        if sig == signal.SIGTERM and self.started and self._loop is not None:
            # A handler may come between any two steps of Python; what follows is for the event loop.
            self._loop.call_soon_threadsafe(self._terminated)
            return
        if self.should_exit and sig == signal.SIGINT:
            self.force_exit = True
        self.should_exit = True

    def _terminated(self) -> None:
        if self._hooks.supervision is None:
            (self.end if self._draining else self.drain)()
        elif not self._draining and not self.should_exit:
            self._hooks.supervision.on_sigterm()

    def drain(self) -> None:
        """Tell clients to leave, and serve whoever comes until the drain time is over."""
        if self._draining or self._loop is None:
            return
        self._say_farewell()
        if self.should_exit or not self._drain_s:
            self.end()
            return
        _log.info("draining", extra={"for_s": self._drain_s})
        self._loop.call_later(self._drain_s, self.end)

    def end(self) -> None:
        """Take no more connections; what is in flight may end."""
        self.should_exit = True

    def _say_farewell(self) -> None:
        self._draining = True
        self._hooks.connections.drain()
        # Who asks this process for the service's readiness must not hear that it ends, where the others go on.
        if self._hooks.draining is not None and not self._others_serve():
            self._hooks.draining()

    def _others_serve(self) -> bool:
        return self._hooks.supervision is not None and self._hooks.supervision.alone

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        if not self._draining:
            self._say_farewell()
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            # Nothing may be accepted any more when uvicorn closes what is open.
            await asyncio.wait(self._tasks, timeout=_HOOKS_TIMEOUT_S)
        await super().shutdown(sockets)
