"""HTTP with an end to whatever a client may keep it waiting for: uvicorn's protocol, and deadlines.

A head must come within 10 s. Who does not read is given up; what nobody will read is not waited for: then the reply
says that it is the last one, and the client gets a moment to read it before the connection ends.
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
from app.rest.http.bounds import Connections, Refusal
from app.rest.http.joined import Joined
from app.rest.http.target import asks_opa, path_of

if TYPE_CHECKING:
    from uvicorn.config import Config
    from uvicorn.protocols.http.httptools_impl import RequestResponseCycle
    from uvicorn.server import ServerState

HEAD_TIMEOUT_S = 10.0
_TLS_TIMEOUT_S = 10.0
"""How long a client that has connected may take until TLS stands; nothing else is known of it before."""
_SURPLUS_TIMEOUT_S = 1.0
_FIRST_REQUEST_S = 1.0
"""How long a client that has just connected may take to ask while the process ends."""
_READER_TIMEOUT_S = 10.0
_READER_BYTES = 64 * 1024
"""A client that takes less of its replies in that time doesn't read them."""
_LINGER_S = 2.0
_LINGER_BYTES = 8 * 1024 * 1024


class TimedProtocol(HttpToolsProtocol, AcceptedProtocol):
    """One connection, and until when to wait for what it waits for."""

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
        self.url_before = b""
        """Of the message before: who has asked there asks there again, as far as one knows."""
        self.names: tuple[str, ...] = ()
        """Of the client's verified certificate."""
        self.known = False
        """Whether a known caller has had an answer here. Strangers aren't waited for long."""
        self.timeout_keep_alive = bounds.stranger_s(config.timeout_keep_alive)
        self.deadline = inf
        self._first_deadline = inf
        """Which the deadline is until the first request has begun."""
        self._give_up: Callable[[], object] | None = None
        """Ends the wait for TLS; None where there is none, and once TLS stands."""
        self._given_up = False
        self.surplus = False
        """Whether the process has as many connections as it may keep without this one."""
        self.between = True
        """Whether the parser stands at the end of a message, or has not begun any."""
        self.in_head = False
        """Whether it stands in a message's head."""
        self.deaf = False
        """Whether nothing is read any more: all that is left is to write what is written, and to end."""
        self._answering: RequestResponseCycle | None = None
        """What the application answers."""
        self._is_head_written = False
        """Of its reply."""
        self._refused: Refusal | None = None
        """What is to be said once all requests before are answered."""
        self._backlog = 0
        self._unheard = 0
        """Bytes that came when nothing was read any more."""

    # the connection

    def handshake_began(self, cancel: Callable[[], object]) -> None:
        """Count as a connection, with a deadline for its TLS handshake."""
        self._give_up = cancel
        self.surplus = not self.shared.add(self, self.loop)
        self.deadline = self._in(_TLS_TIMEOUT_S)

    def handshake_failed(self) -> None:
        """Count no more, unless `connection_made` was called."""
        if self._give_up is not None:
            self.shared.remove(self)

    def _in(self, seconds: float) -> float:
        return monotonic() + (_SURPLUS_TIMEOUT_S if self.surplus else seconds)

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn's
        """Begin a connection."""
        super().connection_made(transport)
        self.joined = Joined(self)
        self.names = names_of(transport)
        if self._give_up is None:
            self.surplus = not self.shared.add(self, self.loop)
        self._give_up = None
        self.deadline = self._first_deadline = self._in(HEAD_TIMEOUT_S)
        if self._given_up:
            # Its place was another's before TLS stood.
            self.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """End a connection."""
        self.shared.remove(self)
        self.joined.held = None
        self.deaf = True
        super().connection_lost(exc)

    def shutdown(self) -> None:
        """Close; what has begun to come is answered first, and is the last, as the process drains."""
        # uvicorn has one loop for all connections: what is raised here would be the end of every other request.
        bounds.in_any_case(self, self.end)

    def end(self) -> None:
        """Close, or know that what has begun to come is the last."""
        self.joined.flush()
        if self.has_work():
            self.cycle.keep_alive = False
        elif self.deaf or not self._may_be_asked():
            self.deaf = True
            self._close()

    def _may_be_asked(self) -> bool:
        """Whether a request is on its way that must not be cut off."""
        if not self.between or self._has_unread():
            return True
        if self.deadline != self._first_deadline or self.surplus:
            return False
        # Who has only just connected is about to ask, and has no reason to think that nobody listens.
        self.deadline = min(self.deadline, monotonic() + _FIRST_REQUEST_S)
        return True

    def _has_unread(self) -> bool:
        """Whether something has come that the event loop has not read yet; to close now would lose it."""
        stream = self.transport.get_extra_info("socket")
        return stream is not None and any(fcntl.ioctl(stream.fileno(), termios.FIONREAD, bytes(4)))

    def leave(self) -> None:
        """Say with the reply under way that it is the last one."""
        if self.has_work() and not self.cycle.response_started:
            self.cycle.keep_alive = False

    def become_known(self) -> None:
        """Know that the one who asks here is a known caller."""
        self.known = True
        self.timeout_keep_alive = self.config.timeout_keep_alive
        self.shared.keep(self)

    def is_busy(self) -> bool:
        """Whether a request is being answered to someone who reads."""
        return self.has_work() and not self.flow.write_paused

    def abort(self) -> None:
        """Be gone."""
        if self._give_up is None:
            self.transport.abort()
        else:
            self._given_up = True
            self._give_up()

    def hang_up(self) -> None:
        """Close once all is written; a client that may still be sending gets the time to read it first."""
        if self.deaf or self.transport.is_closing():
            return
        self.deaf = True
        if self.between:
            self._close()
            return
        # To close now would reset the connection, and the reply with it.
        self.deadline = monotonic() + _LINGER_S
        self.flow.resume_reading()
        if self.transport.can_write_eof():
            self.transport.write_eof()

    def _close(self) -> None:
        self.deadline = monotonic() + _READER_TIMEOUT_S
        self.transport.close()

    def overdue(self) -> None:
        """Give up what was waited for until the deadline."""
        if self._give_up is not None:
            self.deadline = inf
            self.abort()
        elif self.transport.is_closing():
            self.deadline = inf
            self.transport.abort()
        elif self.deaf:
            self._close()
        elif self.flow.write_paused:
            self._look_at_reader()
        elif self.between:
            self.hang_up()
        else:
            self.refuse(bounds.TIMED_OUT)

    def pause_writing(self) -> None:
        """Wait for the client to read on; not for ever."""
        super().pause_writing()
        self._backlog = self.transport.get_write_buffer_size()
        self.deadline = monotonic() + _READER_TIMEOUT_S

    def resume_writing(self) -> None:
        """Go on."""
        super().resume_writing()
        self.wait()

    def _look_at_reader(self) -> None:
        left = self.transport.get_write_buffer_size()
        if self._backlog - left < _READER_BYTES:
            self.transport.abort()
        else:
            self._backlog = left
            self.deadline = monotonic() + _READER_TIMEOUT_S

    def wait(self, seconds: float | None = None) -> None:
        """Know until when to wait for what comes next: so many seconds, or as long as one waits for such things."""
        if self.deaf or self.flow.write_paused:
            # That has a deadline already.
            return
        if seconds is None:
            seconds = self.timeout_keep_alive if self.between else HEAD_TIMEOUT_S
            if self.has_work():
                # The application waits for nothing without a limit.
                seconds = inf
        self.deadline = monotonic() + seconds

    def has_work(self) -> bool:
        """Whether a request is being answered."""
        return self.cycle is not None and (not self.cycle.response_complete or bool(self.pipeline))

    def data_received(self, data: bytes) -> None:
        """Read on, if anything is to be read."""
        if self.deaf:
            self._unheard += len(data)
            if self._unheard > _LINGER_BYTES:
                self.transport.abort()
        elif self._refused is None:
            self.parse(data)

    def parse(self, data: bytes) -> None:
        """Put this to the parser, and what it finds to the application."""
        super().data_received(data)

    # replies

    def begin_cycle(self) -> None:
        """Put the request to the application."""
        super().on_headers_complete()
        # INVARIANT: not before there is a cycle of its own: what is refused until then must not end the one before.
        self.in_head = False
        self.cycle.transport = self.joined
        if self.surplus or self.shared.draining:
            self.cycle.keep_alive = False
        self.wait()

    def _start_asgi_task(self, cycle: "RequestResponseCycle", app: Any) -> None:  # noqa: ANN401 - as uvicorn's
        self._answering, self._is_head_written = cycle, False
        cycle.scope["klamm.began"] = self.shared.turn_began(self.loop)  # type: ignore[typeddict-unknown-key]  # ours
        super()._start_asgi_task(cycle, app)

    def marked(self, data: bytes) -> bytes:
        """A part of a reply; its head says how long the connection is kept.

        Not at all, if the request has not come to its end: nobody will read that.
        """
        cycle = self._answering
        if cycle is None or self._is_head_written or not cycle.response_started:
            return data
        self._is_head_written = True
        if not cycle.keep_alive:
            # It says so.
            return data
        cycle.keep_alive = not cycle.more_body
        kept_s = self.config.timeout_keep_alive if self._is_of_known_caller() else self.timeout_keep_alive
        # Where plain answers have it, too: nobody can tell the two ways apart.
        status, end, more = data.partition(b"\r\n")
        return b"".join((status, end, bounds.kept_for(kept_s if cycle.keep_alive else 0), more))

    def _is_of_known_caller(self) -> bool:
        return self.known or (self._answering is not None and bool(self._answering.scope.get("klamm.known")))

    def on_response_complete(self) -> None:
        """Go on with what waits."""
        self.server_state.total_requests += 1
        if not self.known and self._is_of_known_caller():
            self.become_known()
        if self.transport.is_closing() or self.deaf:
            return
        self.flow.resume_reading()
        if self.pipeline:
            cycle, app = self.pipeline.pop()
            self._start_asgi_task(cycle, app)
        elif self._refused is not None:
            self._say_no(self._refused)
        self.wait()

    def refuse(self, why: Refusal) -> None:
        """Refuse what came last and hang up, once what came before is answered."""
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
            self._say_no(why)

    def is_asked_plainly(self) -> bool:
        """Whether the message that came last, as far as its target is known, is for the OPA door, or nearly."""
        return asks_opa(path_of(self.url or self.url_before))

    def _own_cycle(self) -> "RequestResponseCycle | None":
        """What answers the message that the parser stands in, if that has begun."""
        if self.between or self.in_head or self.cycle is None or self.cycle.response_complete:
            return None
        return self.cycle

    def _say_no(self, why: Refusal) -> None:
        self.joined.interject(why.written(self.server_state.default_headers, plain=self.is_asked_plainly()))
        self.between = False
        self.hang_up()
