"""The HTTP protocol of `klamm serve`: uvicorn's, within the bounds of `bounds`.

A request of authorize that is complete and plain is answered at once, without a task, a scope and ASGI messages, which
are most of what a request costs. All others (a refusal, `at_least`, a pipeline, a client that
doesn't read) go through the ASGI application, which gives the same answer.

The body of a short request is held back until it is complete: a client that sends slowly takes no place from others.
An offer to upgrade the connection is declined (`heads.without_offer`).
"""

from collections.abc import Sequence
from time import monotonic
from typing import Any, Protocol

import httptools

from app.rest.bodies.reading import BODY_TIMEOUT_S
from app.rest.http import bounds
from app.rest.http.bounds import Refusal
from app.rest.http.connection import Phase
from app.rest.http.connections import Connections, HeldBody
from app.rest.http.deferring import DeferringConnection
from app.rest.http.framing import BadLineError, Framing, HeadTooLargeError
from app.rest.http.heads import (
    AUTHORIZE_TARGET,
    Headers,
    WholeHead,
    asks_to_continue,
    body_length,
    header_of,
    is_plain,
    plain_head,
    refusal_of_head,
    set_host_of,
    unauthenticated_head,
    unauthenticated_plain_head,
    without_offer,
)
from app.rest.http.unauthenticated import NothingPrepared, Prepared


class Answer(Protocol):
    def __call__(self, headers: Headers, body: bytes, names: Sequence[str], /) -> bytes | None:
        """The reply (200, JSON) from its own headers on: `content-length: 2`, an empty line, the body.

        `names` are those of the client's certificate. None if only the application can answer.
        """


def nothing_at_once(_headers: Headers, _body: bytes, _names: Sequence[str], /) -> None:
    """Leaves all requests to the application."""


_PLAIN_LINE = b"POST %b HTTP/1.1\r\n" % AUTHORIZE_TARGET
_MAX_PLAIN_HEAD = 2 * 1024
_NOTHING_PREPARED = NothingPrepared()
# Looking up a member of an enumeration takes some 100 ns, and every plain request would pay for it.
_BETWEEN, _ENDING = Phase.BETWEEN, Phase.ENDING
_END = b"\r\n\r\n"
_PROBES = (b"/livez", b"/readyz", b"/startupz", b"/metrics")


class _RefusedError(Exception):
    """Stops the parser."""


class KlammProtocol(DeferringConnection):
    def __init__(
        self,
        *uvicorn_s: Any,  # noqa: ANN401 - uvicorn's
        answer: Answer,
        shared: Connections,
        prepared: Prepared = _NOTHING_PREPARED,
        **named: Any,  # noqa: ANN401 - uvicorn's
    ) -> None:
        super().__init__(*uvicorn_s, shared=shared, **named)
        self._answer = answer
        self._prepared = prepared
        self._framing = Framing()
        self._why: Refusal | None = None
        self._held = HeldBody(shared)
        self._segment = 0
        """The length of the data last received."""
        self._may_be_plain = False
        self._is_asked = False
        """Whether `answer` has seen the data last received, and left it to the application."""

    # received data

    def data_received(self, data: bytes) -> None:
        if not self.shared.began:
            self.shared.begin_turn(self.loop)
        if not self.known or self.deferred:
            self._receive_unauthenticated(data)
            return
        self.shared.unauthenticated.interrupt()
        if not self._answers_all_of(data):
            self._read(data)

    def _read(self, data: bytes) -> None:
        if self.reads():
            self._segment = len(data)
            self._parse(data)
            # What comes in one piece is never counted.
            if not self._held.may_grow():
                # The application decides whether it reads the rest.
                self._let_go()
        else:
            self.discard(data)

    def _answers_all_of(self, data: bytes) -> bool:
        self._is_asked = False
        if self.phase is not _BETWEEN or not data.startswith(_PLAIN_LINE):
            return False
        if self._framing.carry or not self._is_free():
            return False
        length = data.find(_END) + len(_END)
        if not len(_END) < length <= _MAX_PLAIN_HEAD or length == len(data):
            return False
        head = (plain_head if self.known else unauthenticated_plain_head)(data[:length])
        if head is None or len(data) != length + head.length:
            return False
        self._is_asked = True
        return self._replies(head, data[length:])

    # unauthenticated clients

    def _receive_unauthenticated(self, data: bytes) -> None:
        waiting = self.shared.unauthenticated
        began = waiting.begin()
        if not self.deferred:
            if self._answers_all_of(data):
                waiting.interrupt()
                return
            head = self._head_of(data)
            if self._is_of_known(head):
                waiting.interrupt()
                self._read(data)
                return
            if waiting.may_serve(self.shared.began):
                self._serve(head, data)
                waiting.end(began)
                return
        self.defer(data)
        waiting.end(began)

    def _is_of_known(self, head: WholeHead | None) -> bool:
        """Whether what was received is a known caller's: a head, or more of the body behind such a head."""
        if self.phase is not Phase.BODY:
            self.shows_known = head is not None and self._prepared.is_known(head, self.names)
        return self.shows_known

    def _head_of(self, data: bytes) -> WholeHead | None:
        """The head that the data begin with, if the request can be answered now."""
        if self.phase is not _BETWEEN or self._framing.carry or not self._is_free():
            return None
        length = data.find(_END) + len(_END)
        return unauthenticated_head(data[:length]) if len(_END) < length <= _MAX_PLAIN_HEAD else None

    def _serve(self, head: WholeHead | None, data: bytes) -> None:
        is_whole = head is not None and len(data) == data.find(_END) + len(_END) + head.length
        is_prepared = is_whole and not self.shared.draining
        reply = self._prepared.reply(head, self.names) if head is not None and is_prepared else None
        if head is None or reply is None:
            self._read(data)
            return
        self.shared.date(self.server_state.default_headers, self.config.timeout_keep_alive)
        self._write_at_once(b"".join((reply.status_line, self.shared.unauthenticated_lines, reply.rest)))

    def serve_deferred(self, data: bytes) -> None:
        self._is_asked = False
        self._serve(self._head_of(data), data)

    def _parse(self, data: bytes) -> None:
        at = 0
        try:
            while at < len(data) and self.reads():
                begin = self._framing.skip(data, at)
                at = self._framing.end(data, begin) if begin < len(data) else begin
                if begin < at:
                    self._parse_piece(data[begin:at])
        except (BadLineError, HeadTooLargeError) as error:
            self.refuse(bounds.MALFORMED if isinstance(error, BadLineError) else bounds.HEAD_TOO_LARGE)

    def _parse_piece(self, piece: bytes) -> None:
        try:
            self._feed(piece)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade):
            if self.phase is not Phase.ENDING:
                self.refuse(self._why or bounds.MALFORMED)
            return
        if self.phase is Phase.BODY and self._framing.has_large_chunks():
            self.refuse(bounds.HEAD_TOO_LARGE)

    def _feed(self, data: bytes) -> None:
        """Raises HttpParserError; HttpParserUpgrade for an upgrade that no header asks for (CONNECT, PRI)."""
        while data:
            try:
                self.parser.feed_data(data)
            except httptools.HttpParserUpgrade as offer:
                head = without_offer(self.parser, self.url, self.headers)
                self.parser = httptools.HttpRequestParser(self)
                self._framing.repeat_head()
                self.parser.feed_data(head)
                # INVARIANT: each turn has less to read than the one before, so this ends.
                data = data[offer.args[0] :]
            else:
                return

    def _stop(self, why: Refusal) -> None:
        """Refuses the message being parsed. For callbacks of the parser, which end with this."""
        self._why = why
        raise _RefusedError

    # callbacks of the parser

    def on_message_begin(self) -> None:
        if self.phase is Phase.ENDING or not self._framing.begin_message():
            self._stop(bounds.MALFORMED)
        self.phase = Phase.HEAD
        if not self.is_new and not self.has_work():
            self.wait(bounds.HEAD_TIMEOUT_S)
        super().on_message_begin()
        self.scope["klamm.names"] = self.names  # type: ignore[typeddict-unknown-key]  # an extension of ours

    def on_header(self, name: bytes, value: bytes) -> None:
        if self.phase is not Phase.HEAD:
            # A trailer says nothing about the request.
            return
        if len(self.headers) >= bounds.MAX_HEAD_LINES:
            self._stop(bounds.HEAD_TOO_LARGE)
        header = header_of(name, value)
        if header[0] == b"content-length" and len(header[1]) > bounds.MAX_LENGTH_DIGITS:
            self._stop(bounds.MALFORMED)
        self.expect_100_continue |= asks_to_continue(*header)
        self.headers.append(header)

    def on_headers_complete(self) -> None:
        if self.parser.should_upgrade():
            return
        self._check_head()
        if self._is_to_be_held():
            self._held.begin()
            self.phase = Phase.BODY
            self.wait(BODY_TIMEOUT_S)
        else:
            self.begin_cycle()

    def _check_head(self) -> None:
        if len(self.pipeline) >= bounds.MAX_PIPELINED:
            self._stop(bounds.OVERLOADED)
        is_old = self.parser.get_http_version() == "1.0"
        why = refusal_of_head(self.headers, is_old=is_old)
        if self.surplus and why is not bounds.REPEATED_HEADER and not self.url.partition(b"?")[0].startswith(_PROBES):
            why = bounds.TOO_MANY_CONNECTIONS
        if why is not None:
            self._stop(why)
        if is_old:
            # HTTP/1.0 has no reply before the reply (RFC 9110, 10.1.1).
            self.expect_100_continue = False
        set_host_of(self.url, self.headers)
        self._framing.end_head(body_length(self.headers))
        self.is_new = False

    def on_body(self, body: bytes) -> None:
        self._framing.add_body(len(body))
        if not self._held.add(body):
            super().on_body(body)

    def on_message_complete(self) -> None:
        self.phase = Phase.BETWEEN
        if self.parser.should_upgrade():
            return
        self._framing.end_message()
        body = self._held.body
        if body is not None:
            head = WholeHead(self.headers, len(body), self.url)
            if self._may_be_plain and not self._is_asked and self._replies(head, bytes(body)):
                self._held.end()
                return
            self._let_go()
        super().on_message_complete()

    # bodies that are held back

    def _is_free(self) -> bool:
        """Whether an answer may be written now: no other one is under way, and the client reads."""
        return (
            (self.cycle is None or self.cycle.response_complete)
            and not self.pipeline
            and not self.flow.write_paused
            and self.writer.held is None
            and self.phase is not _ENDING
            and not self.surplus
            and not self.root_path
        )

    def _is_to_be_held(self) -> bool:
        """Whether the request is held back until it is complete; also finds out whether it may be plain."""
        self._may_be_plain = False
        field = dict(self.headers).get(b"content-length")
        if field is None or self.expect_100_continue or not self._is_free():
            return False
        length = int(field or 0)
        self._may_be_plain = is_plain(self.parser, self.url, length)
        # A long body may be plain if all of it can be here already.
        if length > bounds.MAX_HELD_BYTES and not (self._may_be_plain and length < self._segment):
            return False
        if self.url != AUTHORIZE_TARGET:
            # Raises what uvicorn would raise later, while the parser can still turn it into a refusal.
            httptools.parse_url(self.url).path.decode("ascii")
        return True

    def _let_go(self) -> None:
        """Gives the application what is held, and the rest as it comes."""
        body = self._held.end()
        self.begin_cycle()
        if body:
            super().on_body(body)

    def connection_lost(self, exc: Exception | None) -> None:
        self._held.end()
        super().connection_lost(exc)

    def refuse(self, why: Refusal) -> None:
        self._held.end()
        super().refuse(why)

    def finish(self) -> None:
        if self._held.body is not None:
            self._let_go()
        super().finish()

    # plain answers

    def _replies(self, head: WholeHead, body: bytes) -> bool:
        shared = self.shared
        shared.date(self.server_state.default_headers, self.config.timeout_keep_alive)
        if monotonic() > shared.until and shared.is_spent():
            shared.note_shed()
            reply = shared.shed_replies[self.known]
        else:
            answer = self._answer(head.headers, body, self.names)
            if answer is None:
                return False
            reply = shared.head + answer
            if not self.known:
                self.become_known()
        self._write_at_once(reply)
        return True

    def _write_at_once(self, reply: bytes) -> None:
        # As in `wait`, by the time that the turn has read. Writing may set another deadline.
        self.deadline = self.shared.began + self.timeout_keep_alive
        self.is_new = False
        self.transport.write(reply)
        self.server_state.total_requests += 1
        if self.shared.draining:
            self.hang_up()
