"""The life of a connection: its deadlines, how its replies are written, and how it ends.

uvicorn's protocol waits for clients without an end. Here everything that a client may keep it waiting for has a
deadline (`bounds`). If the rest of a request won't be read, the reply says that it is the last one, and the client
gets a moment to read it before the connection is closed.
"""

import asyncio
import fcntl
import termios
from collections.abc import Callable
from math import inf
from time import monotonic
from typing import TYPE_CHECKING, Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from app.process.sockets import AcceptedProtocol
from app.rest.callers.certificates import names_of
from app.rest.http import bounds
from app.rest.http.bounds import Refusal
from app.rest.http.connections import Connections, contained
from app.rest.http.target import asks_opa, path_of

if TYPE_CHECKING:
    from uvicorn.config import Config
    from uvicorn.protocols.http.httptools_impl import RequestResponseCycle
    from uvicorn.server import ServerState


class JoinedWriter(asyncio.Transport):
    """Writes the head of an application's reply together with what follows it in the same turn of the loop.

    Each write of its own would wake the client.
    """

    def __init__(self, connection: "TimedConnection") -> None:
        super().__init__()
        self.held: bytes | None = None
        self._connection = connection
        self._transport = connection.transport

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self._connection.ending or self._transport.is_closing():
            # The request was refused or cut off, and the application doesn't know yet.
            return
        part = self._connection.with_keep_alive(bytes(data))
        if self.held is None:
            self.held = part
            self._connection.loop.call_soon(self.flush)
        else:
            held, self.held = self.held, None
            self._transport.writelines((held, part))

    def flush(self) -> None:
        if self.held is not None:
            held, self.held = self.held, None
            if not self._transport.is_closing():
                self._transport.write(held)

    def is_closing(self) -> bool:
        return self._transport.is_closing()

    def close(self) -> None:
        self.flush()
        self._connection.hang_up()


class TimedConnection(HttpToolsProtocol, AcceptedProtocol):
    def __init__(
        self,
        config: "Config",
        server_state: "ServerState",
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
        *,
        shared: Connections,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self.shared = shared
        self.url = b""
        self.previous_url = b""
        """Of the message before: its client is taken for the client of this one, as long as nothing else is known."""
        self.names: tuple[str, ...] = ()
        self.known = False
        """Whether a known caller has been answered here."""
        self.timeout_keep_alive = bounds.stranger_s(config.timeout_keep_alive)
        self.deadline = inf
        self._first_deadline = inf
        self._cancel_handshake: Callable[[], object] | None = None
        """None without TLS, and after the handshake."""
        self._aborted_early = False
        self.surplus = False
        """Whether the process has its maximum of connections without this one."""
        self.between = True
        """Whether the parser is between two messages, or before the first one."""
        self.in_head = False
        self.ending = False
        """Nothing is read any more; what is written is sent, and then the connection ends."""
        self._answering: RequestResponseCycle | None = None
        self._is_head_written = False
        self._refused: Refusal | None = None
        """The refusal to write once all earlier requests are answered."""
        self._unread_by_client = 0
        self._discarded = 0

    # begin and end

    def handshake_began(self, cancel: Callable[[], object]) -> None:
        self._cancel_handshake = cancel
        self.surplus = not self.shared.add(self, self.loop)
        self.deadline = self._after(bounds.TLS_TIMEOUT_S)

    def handshake_failed(self) -> None:
        if self._cancel_handshake is not None:
            self.shared.remove(self)

    def _after(self, seconds: float) -> float:
        return monotonic() + (bounds.SURPLUS_TIMEOUT_S if self.surplus else seconds)

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn's
        super().connection_made(transport)
        self.joined = JoinedWriter(self)
        self.names = names_of(transport)
        if self._cancel_handshake is None:
            self.surplus = not self.shared.add(self, self.loop)
        self._cancel_handshake = None
        self.deadline = self._first_deadline = self._after(bounds.HEAD_TIMEOUT_S)
        if self._aborted_early:
            self.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self.shared.remove(self)
        self.joined.held = None
        self.ending = True
        super().connection_lost(exc)

    def abort(self) -> None:
        if self._cancel_handshake is None:
            self.transport.abort()
        else:
            self._aborted_early = True
            self._cancel_handshake()

    def hang_up(self) -> None:
        """A client that may still be sending gets the time to read what is written first."""
        if self.ending or self.transport.is_closing():
            return
        self.ending = True
        if self.between:
            self._close()
            return
        # To close now would reset the connection, and the client would lose the reply.
        self.deadline = monotonic() + bounds.LINGER_S
        self.flow.resume_reading()
        if self.transport.can_write_eof():
            self.transport.write_eof()

    def _close(self) -> None:
        self.deadline = monotonic() + bounds.READER_TIMEOUT_S
        self.transport.close()

    # the end of the server

    def drain(self) -> None:
        if self.has_work() and not self.cycle.response_started:
            self.cycle.keep_alive = False

    def shutdown(self) -> None:
        # uvicorn calls this in a loop over all connections.
        contained(self, self.finish)

    def finish(self) -> None:
        """Close; a request that has begun to come is answered first, as the process drains."""
        self.joined.flush()
        if self.has_work():
            self.cycle.keep_alive = False
        elif self.ending or not self._expects_request():
            self.ending = True
            self._close()

    def _expects_request(self) -> bool:
        """Whether a request may be on its way that must not be cut off."""
        if not self.between or self._has_unread():
            return True
        if self.deadline != self._first_deadline or self.surplus:
            return False
        # A client that has only just connected is about to send its request.
        self.deadline = min(self.deadline, monotonic() + bounds.FIRST_REQUEST_S)
        return True

    def _has_unread(self) -> bool:
        """Whether the kernel has data that the event loop has not read yet."""
        stream = self.transport.get_extra_info("socket")
        return stream is not None and any(fcntl.ioctl(stream.fileno(), termios.FIONREAD, bytes(4)))

    # deadlines

    def time_out(self) -> None:
        if self._cancel_handshake is not None:
            self.deadline = inf
            self.abort()
        elif self.transport.is_closing():
            self.deadline = inf
            self.transport.abort()
        elif self.ending:
            self._close()
        elif self.flow.write_paused:
            self._check_reader()
        elif self.between:
            self.hang_up()
        else:
            self.refuse(bounds.TIMED_OUT)

    def wait(self, seconds: float | None = None) -> None:
        """Set the deadline for what comes next, in so many seconds or as is usual for it."""
        if self.ending or self.flow.write_paused:
            # These have a deadline already.
            return
        if seconds is None:
            seconds = self.timeout_keep_alive if self.between else bounds.HEAD_TIMEOUT_S
            if self.has_work():
                # The application's own waits are bounded.
                seconds = inf
        self.deadline = monotonic() + seconds

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

    def may_read(self, data: bytes) -> bool:
        if self.ending:
            self._discarded += len(data)
            if self._discarded > bounds.LINGER_BYTES:
                self.transport.abort()
        return not self.ending and self._refused is None

    # replies

    def begin_cycle(self) -> None:
        """Give the request to the application."""
        super().on_headers_complete()
        # INVARIANT: only now, as a refusal before must not end the cycle of the request before.
        self.in_head = False
        self.cycle.transport = self.joined
        if self.surplus or self.shared.draining:
            self.cycle.keep_alive = False
        self.wait()

    def _start_asgi_task(self, cycle: "RequestResponseCycle", app: Any) -> None:  # noqa: ANN401 - as uvicorn's
        self._answering, self._is_head_written = cycle, False
        cycle.scope["klamm.began"] = self.shared.turn_began(self.loop)  # type: ignore[typeddict-unknown-key]  # ours
        super()._start_asgi_task(cycle, app)

    def with_keep_alive(self, data: bytes) -> bytes:
        """A part of a reply; if it is the head, with the lines that say how long the connection is kept.

        It isn't kept if the request is not complete, as the rest won't be read.
        """
        cycle = self._answering
        if cycle is None or self._is_head_written or not cycle.response_started:
            return data
        self._is_head_written = True
        if not cycle.keep_alive:
            # uvicorn has said so.
            return data
        cycle.keep_alive = not cycle.more_body
        kept_s = self.config.timeout_keep_alive if self._answers_known_caller() else self.timeout_keep_alive
        # In the same place as in plain answers, so that nobody can tell the two ways apart.
        status, end, more = data.partition(b"\r\n")
        return b"".join((status, end, bounds.kept_for(kept_s if cycle.keep_alive else 0), more))

    def _answers_known_caller(self) -> bool:
        return self.known or (self._answering is not None and bool(self._answering.scope.get("klamm.known")))

    def on_response_complete(self) -> None:
        self.server_state.total_requests += 1
        if not self.known and self._answers_known_caller():
            self.become_known()
        if self.transport.is_closing() or self.ending:
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
        """Hang up with this, once all earlier messages are answered."""
        self.joined.flush()
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

    def asks_opa(self) -> bool:
        """Whether the last message, as far as its target is known, is for `/v1/data` or nearly so."""
        return asks_opa(path_of(self.url or self.previous_url))

    def _own_cycle(self) -> "RequestResponseCycle | None":
        """The cycle of the message that the parser is in, if it has one."""
        if self.between or self.in_head or self.cycle is None or self.cycle.response_complete:
            return None
        return self.cycle

    def _write_refusal(self, why: Refusal) -> None:
        self.joined.flush()
        self.transport.write(why.written(self.server_state.default_headers, plain=self.asks_opa()))
        self.between = False
        self.hang_up()
