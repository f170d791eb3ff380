"""The life of a connection: what its client must do by when, and how it ends.

    HANDSHAKE (TLS only) -> BETWEEN -> HEAD -> BODY -> BETWEEN -> ... -> ENDING

uvicorn's protocol starts the application for each request and keeps pipelined ones in order, but it waits for clients
for ever. Here everything that a client may keep it waiting for has a deadline (`bounds`). If the rest of a
request won't be read, the reply says that it is the last one, and the client gets a moment to read it before the
connection is closed.
"""

import asyncio
import termios
from collections.abc import Callable
from enum import Enum, auto
from math import inf
from time import monotonic
from typing import TYPE_CHECKING, Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from app.process.sockets import AcceptedProtocol, queued_bytes
from app.rest.callers.certificates import names_of
from app.rest.http import bounds
from app.rest.http.bounds import Refusal
from app.rest.http.connections import Connections, contained
from app.rest.http.replies import ReplyWriter
from app.rest.http.unauthenticated import Measured

if TYPE_CHECKING:
    from uvicorn.protocols.http.httptools_impl import RequestResponseCycle


class Phase(Enum):
    """What is read from a connection; replies to earlier requests may still be under way."""

    HANDSHAKE = auto()
    BETWEEN = auto()
    """Nothing of the next message has come yet."""
    HEAD = auto()
    BODY = auto()
    ENDING = auto()
    """Nothing is read any more; what is written is sent, and then the connection is closed."""


class TimedConnection(HttpToolsProtocol, AcceptedProtocol):
    def __init__(self, *uvicorn_s: Any, shared: Connections, **named: Any) -> None:  # noqa: ANN401 - uvicorn's
        super().__init__(*uvicorn_s, **named)
        self.shared = shared
        self.phase = Phase.BETWEEN
        self.is_new = True
        """Whether no request has been read yet."""
        self.known = False
        """Whether a known caller has been answered here."""
        self.shows_known = False
        """Whether the request last read shows credentials of a known caller, which has not been answered here yet."""
        self.surplus = False
        """Whether the process has its maximum of connections without this one."""
        self.names: tuple[str, ...] = ()
        """The names in the client's certificate."""
        self.deadline = inf
        self.timeout_keep_alive = bounds.stranger_s(self.config.timeout_keep_alive)
        self._cancel_handshake: Callable[[], object] | None = None
        self._aborted_early = False
        self._answering: RequestResponseCycle | None = None
        self._refused: Refusal | None = None
        """The refusal to write once all earlier requests are answered."""
        self._unread_by_client = 0
        self._discarded = 0

    # begin

    def handshake_began(self, cancel: Callable[[], object]) -> None:
        self.phase, self._cancel_handshake = Phase.HANDSHAKE, cancel
        self._join(bounds.TLS_TIMEOUT_S)

    def handshake_failed(self) -> None:
        if self.phase is Phase.HANDSHAKE:
            self.shared.remove(self)
            # As in a connection that is lost: nothing is left to the garbage collector.
            self._cancel_handshake = self.parser = None  # type: ignore[assignment]  # as uvicorn's

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn's
        super().connection_made(transport)
        self.writer = ReplyWriter(transport, self.loop, kept_s=self._kept_s, hang_up=self.hang_up)
        self.names = names_of(transport)
        if self.phase is Phase.HANDSHAKE:
            self.phase = Phase.BETWEEN
            self._set_deadline(bounds.HEAD_TIMEOUT_S)
        else:
            self._join(bounds.HEAD_TIMEOUT_S)
        if self._aborted_early:
            self.abort()

    def _join(self, seconds: float) -> None:
        self.surplus = not self.shared.add(self, self.loop)
        self._set_deadline(seconds)

    def _set_deadline(self, seconds: float) -> None:
        self.deadline = monotonic() + (bounds.SURPLUS_TIMEOUT_S if self.surplus else seconds)

    # the end

    def connection_lost(self, exc: Exception | None) -> None:
        self.shared.remove(self)
        self._end()
        self.writer.let_go()
        super().connection_lost(exc)

    def abort(self) -> None:
        if self.phase is Phase.HANDSHAKE and self._cancel_handshake is not None:
            self._aborted_early = True
            self._cancel_handshake()
        else:
            self.transport.abort()

    def hang_up(self) -> None:
        """A client that may still be sending gets time to read what is written first."""
        if self.phase is Phase.ENDING or self.transport.is_closing():
            return
        if self.phase is Phase.BETWEEN:
            self._close()
        else:
            self._linger()

    def _linger(self) -> None:
        # Closing now would reset the connection, and the client would lose the reply.
        self._end()
        self.deadline = monotonic() + bounds.LINGER_S
        self.flow.resume_reading()
        if self.transport.can_write_eof():
            self.transport.write_eof()

    def _close(self) -> None:
        self._end()
        self.deadline = monotonic() + bounds.READER_TIMEOUT_S
        self.transport.close()

    def _end(self) -> None:
        self.phase = Phase.ENDING
        self.writer.end()

    # the end of the server

    def drain(self) -> None:
        if self.has_work() and not self.cycle.response_started:
            self.cycle.keep_alive = False

    def shutdown(self) -> None:
        # uvicorn calls this in a loop over all connections.
        contained(self, self.finish)

    def finish(self) -> None:
        """Closes; a request that has begun to arrive is answered first, as the process drains."""
        self.writer.flush()
        if self.has_work():
            self.cycle.keep_alive = False
        elif not self.expects_request():
            self._close()

    def expects_request(self) -> bool:
        """Whether a request that must not be cut off may be on its way."""
        if self.phase is Phase.ENDING:
            return False
        # What the kernel has may be a request that the event loop has not read yet.
        if self.phase is not Phase.BETWEEN or queued_bytes(self.transport, termios.FIONREAD):
            return True
        if not self.is_new or self.surplus:
            return False
        # A client that has only just connected is about to send its request.
        self.deadline = min(self.deadline, monotonic() + bounds.FIRST_REQUEST_S)
        return True

    # deadlines

    def wait(self, seconds: float | None = None) -> None:
        """Sets the deadline for what comes next: in this many seconds, or the usual one."""
        if self.phase is Phase.ENDING or self.flow.write_paused:
            # These have a deadline already.
            return
        if seconds is None:
            seconds = self.timeout_keep_alive if self.phase is Phase.BETWEEN else bounds.HEAD_TIMEOUT_S
            if self.has_work():
                # The application's own waits are bounded.
                seconds = inf
        self.deadline = monotonic() + seconds

    def time_out(self) -> None:
        if self.phase is Phase.HANDSHAKE:
            self.deadline = inf
            self.abort()
        elif self.transport.is_closing():
            self.deadline = inf
            self.transport.abort()
        elif self.phase is Phase.ENDING:
            self._close()
        elif self.flow.write_paused:
            self._check_reader()
        elif self.phase is not Phase.BETWEEN:
            self.refuse(bounds.TIMED_OUT)
        elif monotonic() > self.deadline + bounds.HEAD_TIMEOUT_S or not queued_bytes(self.transport, termios.FIONREAD):
            self._close()
        # Else a request came in time, perhaps while the machine stood still: timers come before what is read.

    def pause_writing(self) -> None:
        super().pause_writing()
        self._unread_by_client = self.transport.get_write_buffer_size()
        self.deadline = monotonic() + bounds.READER_TIMEOUT_S

    def resume_writing(self) -> None:
        super().resume_writing()
        self.wait()

    def _check_reader(self) -> None:
        left = self.transport.get_write_buffer_size()
        if self._unread_by_client - left < bounds.READER_BYTES:
            self.transport.abort()
        else:
            self._unread_by_client = left
            self.deadline = monotonic() + bounds.READER_TIMEOUT_S

    # what is going on

    def become_known(self) -> None:
        self.known = True
        self.timeout_keep_alive = self.config.timeout_keep_alive
        self.shared.keep(self)

    def has_work(self) -> bool:
        return self.cycle is not None and (not self.cycle.response_complete or bool(self.pipeline))

    def is_busy(self) -> bool:
        return self.has_work() and not self.flow.write_paused

    def reads(self) -> bool:
        return self.phase is not Phase.ENDING and self._refused is None

    def discard(self, data: bytes) -> None:
        self._discarded += len(data)
        if self._discarded > bounds.LINGER_BYTES and self.phase is Phase.ENDING:
            self.transport.abort()

    # replies

    def begin_cycle(self) -> None:
        super().on_headers_complete()
        if self.phase is Phase.HEAD:
            # INVARIANT: only now, as an earlier refusal must not end the cycle of the previous request.
            self.phase = Phase.BODY
        self.cycle.transport = self.writer
        if self.surplus or self.shared.draining:
            self.cycle.keep_alive = False
        self.wait()

    def _start_asgi_task(self, cycle: "RequestResponseCycle", app: Any) -> None:  # noqa: ANN401 - as uvicorn's
        self._answering = cycle
        self.writer.begin(cycle)
        cycle.scope["klamm.began"] = self.shared.turn_began(self.loop)  # type: ignore[typeddict-unknown-key]  # ours
        cycle.scope["klamm.writer"] = self.writer  # type: ignore[typeddict-unknown-key]  # ours
        super()._start_asgi_task(cycle, app if self.known or self.shows_known else self._measured(app))

    def _measured(self, app: Any) -> Callable[..., Measured]:  # noqa: ANN401 - uvicorn's
        """The application, charged to unauthenticated clients until it has found a known caller."""

        def charge(seconds: float) -> None:
            if not self.known:
                self.shared.unauthenticated.charge(seconds)

        return lambda scope, receive, send: Measured(app(scope, receive, send), charge)

    def _kept_s(self) -> int:
        if not self.known and self._answering is not None and self._answering.scope.get("klamm.known"):
            self.become_known()
        return self.timeout_keep_alive

    def on_response_complete(self) -> None:
        self.server_state.total_requests += 1
        if self.transport.is_closing() or self.phase is Phase.ENDING:
            return
        self.flow.resume_reading()
        if self.pipeline:
            cycle, app = self.pipeline.pop()
            self._start_asgi_task(cycle, app)
        elif self._refused is not None:
            self._write_refusal(self._refused)
        self.wait()

    # refusals

    def refuse(self, why: Refusal) -> None:
        """Hangs up with this reply once all earlier messages are answered."""
        self.writer.flush()
        own = self._own_cycle()
        if own is not None:
            own.disconnected = True
            own.message_event.set()
            if self.pipeline:
                self.pipeline.popleft()
                own = None
        if own is None and self.has_work():
            self._refused = why
        elif own is not None and own.response_started:
            self.hang_up()
        else:
            self._write_refusal(why)

    def _own_cycle(self) -> "RequestResponseCycle | None":
        if self.phase is not Phase.BODY or self.cycle is None or self.cycle.response_complete:
            return None
        return self.cycle

    def _write_refusal(self, why: Refusal) -> None:
        self.writer.flush()
        self.transport.write(why.written(self.server_state.default_headers))
        if not self.transport.is_closing():
            self._linger()
