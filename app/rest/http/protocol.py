"""The HTTP protocol of `klamm serve`: uvicorn's within bounds, with three differences (DESIGN: hot path).

A request of authorize or of the OPA door that is complete and plain is answered at once, without a task, a scope and
their messages: that is most of what a request costs. Whatever is not plain (a refusal, `at_least`, a pipeline, a slow
reader) takes uvicorn's way through the ASGI application, which answers it as if it had come there first.

Clients that keep a connection send the same head again and again. The head of a plain request, once parsed, is
remembered byte for byte; the same bytes with as long a body as they say need no parser.

Head and body of a reply that comes through the application leave together: each write of its own wakes the client.
So do head and body of a short request come there together: whoever is slow to send holds up nobody who is served.

An offer to upgrade the connection (Java's HttpClient makes one: `Upgrade: h2c`) is declined. httptools would stop
reading at the body of such a request; so its head is read once more without the offer.
"""

import asyncio
from collections.abc import Sequence
from time import monotonic
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import httptools

from app.rest.bodies.opa import OPA_DEADLINE_S, OPA_PATH
from app.rest.bodies.strict_json import BODY_TIMEOUT_S, OFF_LOOP_BYTES
from app.rest.http.bounded_protocol import BoundedProtocol
from app.rest.http.bounds import Connections, Refusal
from app.rest.http.target import AUTHORIZE_TARGET, is_opa_question

if TYPE_CHECKING:
    from uvicorn.config import Config
    from uvicorn.server import ServerState

_Headers = list[tuple[bytes, bytes]]


class Answer(Protocol):
    """What decides plain requests."""

    def __call__(
        self, headers: _Headers, body: bytes, names: Sequence[str], target: bytes = AUTHORIZE_TARGET, /
    ) -> bytes | None:
        """The reply (200, JSON) to these headers, this body, the names of the client's certificate, and this target.

        From its own headers on: `content-length: 2`, an empty line, the body. None if it takes more than that.
        """


def nothing_at_once(
    _headers: _Headers, _body: bytes, _names: Sequence[str], _target: bytes = AUTHORIZE_TARGET, /
) -> None:
    """Decides nothing: all requests are the application's."""


class _Plain(NamedTuple):
    """A head as the parser reads it."""

    headers: _Headers
    length: int
    """Of the body."""
    target: bytes


_LINES = (b"POST %b HTTP/1.1\r\n" % AUTHORIZE_TARGET, f"POST {OPA_PATH}".encode())
"""How a request begins that may be plain."""
_END = b"\r\n\r\n"
_OFFERS = (b"upgrade", b"http2-settings")
_MAX_HEAD_BYTES = 2 * 1024
_MAX_HEADS = 1_024
_MAX_HELD_BYTES = 64 * 1024
"""Of one connection: as much as uvicorn reads for an application that doesn't."""

# INVARIANT: what stands here is a function of its key alone: the parser's reading of a head that was plain.
_PLAIN_HEADS: dict[bytes, _Plain] = {}
"""By the head's own bytes."""


class KlammProtocol(BoundedProtocol):
    """One connection. `answer` decides plain requests."""

    def __init__(
        self,
        config: "Config",
        server_state: "ServerState",
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
        *,
        answer: Answer,
        shared: Connections,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop, shared=shared)
        self._answer = answer
        self._held: bytearray | None = None
        """The body so far of a request that is held back; None for one that takes uvicorn's way."""
        self._charged = 0
        """How much of it is known to all connections as held."""
        self._segment = 0
        """The length of what came last."""
        self._may_be_plain = False
        self._is_asked = False
        """Whether what came last is a request that `answer` has seen."""
        self._plain: list[_Plain] = []
        """The plain requests among what came last."""

    def data_received(self, data: bytes) -> None:
        """Read on; an offer to upgrade is declined, however the segments were cut."""
        if not self.shared.began:
            self.shared.begin_turn(self.loop)
        head = self._head_of(data)
        known = _PLAIN_HEADS.get(head)
        self._is_asked = known is not None and len(data) == len(head) + known.length
        if self._is_asked and self._replies(known, data, len(head)):  # type: ignore[arg-type]  # it is known
            return
        self._plain.clear()
        self._segment = len(data)
        super().data_received(data)
        if self._held is not None and not self.deaf:
            self._charge(self._held)
        if head:
            self._remember(head, len(data) - len(head))

    def _head_of(self, data: bytes) -> bytes:
        """The head of a request that may be answered without the parser; empty if there is none."""
        if self.between and data.startswith(_LINES) and not self.pieces.carry and self._is_free():
            end = data.find(_END)
            return data[: end + len(_END)] if end > 0 else b""
        return b""

    def _remember(self, head: bytes, length: int) -> None:
        # The parser may have taken lines that end otherwise for the end of the head, or have read more requests than
        # one: only if a single plain one makes up all that came, this is its head.
        if len(head) > _MAX_HEAD_BYTES or len(self._plain) != 1 or self._plain[0].length != length:
            return
        if len(_PLAIN_HEADS) >= _MAX_HEADS:
            _PLAIN_HEADS.clear()
        _PLAIN_HEADS[head] = self._plain[0]

    def feed(self, data: bytes) -> None:
        """Feed the parser. Raises HttpParserUpgrade for what is still an offer without its headers (CONNECT, PRI)."""
        while data:
            try:
                super().feed(data)
            except httptools.HttpParserUpgrade as offer:
                head = self._without_offer()
                self.parser = httptools.HttpRequestParser(self)
                self.pieces.begin_again()
                self.parser.feed_data(head)
                # INVARIANT: each turn has less to read than the one before, so this ends.
                data = data[offer.args[0] :]
            else:
                return

    def on_headers_complete(self) -> None:
        """Hold back a request that is short; uvicorn gets it later, or never."""
        if self.parser.should_upgrade():
            return
        self.check_head()
        if self._is_to_be_held():
            self._held, self.in_head = bytearray(), False
            self.wait(OPA_DEADLINE_S if self.is_asked_plainly() else BODY_TIMEOUT_S)
        else:
            self.begin_cycle()

    def on_body(self, body: bytes) -> None:
        """Collect the body of a held request; it can't be longer than its head said."""
        if self._held is None:
            super().on_body(body)
        else:
            self.count_body(len(body))
            self._held += body

    def on_message_complete(self) -> None:
        """Answer a held request, or let it go uvicorn's way."""
        if self.parser.should_upgrade():
            self.between = True
            return
        if self._held is not None:
            body = bytes(self._held)
            if self._may_be_plain and not self._is_asked:
                self.between = True
                self.pieces.end_message()
                plain = _Plain(self.headers, len(body), self.url)
                if self._replies(plain, body, 0):
                    self._hold_no_more()
                    self._plain.append(plain)
                    return
            self._let_go()
        super().on_message_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget what was held back: nobody waits for it any more."""
        self._hold_no_more()
        super().connection_lost(exc)

    def refuse(self, why: Refusal) -> None:
        """Refuse what came last; nothing more of it is held."""
        self._hold_no_more()
        super().refuse(why)

    def end(self) -> None:
        """Close, or let the request that is on its way end first."""
        if self._held is not None and not self.deaf:
            self._let_go()
        super().end()

    def _is_free(self) -> bool:
        """Whether an answer may be written now: none is on its way, and the client reads."""
        return (
            (self.cycle is None or self.cycle.response_complete)
            and not self.pipeline
            and not self.flow.write_paused
            and self.joined.held is None
            and not self.deaf
            and not self.surplus
            and not self.root_path
        )

    def _is_to_be_held(self) -> bool:
        """Whether the request can be held back until all of it is here; and whether it may be plain."""
        self._may_be_plain = False
        if self.expect_100_continue or not self._is_free():
            return False
        for name, value in self.headers:
            if name == b"content-length":
                length = int(value) if value.isdigit() else OFF_LOOP_BYTES + 1
                self._may_be_plain = (
                    length <= OFF_LOOP_BYTES
                    and self._is_plain_target()
                    and self.parser.get_method() == b"POST"
                    and self.parser.should_keep_alive()
                )
                # A long body may be plain if all of it can be here already.
                if length > _MAX_HELD_BYTES and not (self._may_be_plain and length < self._segment):
                    return False
                self._check_target()
                return True
        return False

    def _is_plain_target(self) -> bool:
        # Replies of HTTP/1.0 end their connection, which only the application says.
        return self.url == AUTHORIZE_TARGET or (
            is_opa_question(self.url) is not None and self.parser.get_http_version() == "1.1"
        )

    def _check_target(self) -> None:
        """Raise what uvicorn would about the target, as long as the parser makes a refusal of it."""
        if self.url != AUTHORIZE_TARGET:
            httptools.parse_url(self.url).path.decode("ascii")

    def _charge(self, held: bytearray) -> None:
        """Keep what is held within its bounds; else the application decides whether it reads the rest.

        What comes in one piece is never charged.
        """
        more = len(held) - self._charged
        if len(held) <= _MAX_HELD_BYTES and self.shared.hold(more):
            self._charged += more
        else:
            self._let_go()

    def _hold_no_more(self) -> None:
        self._held = None
        if self._charged:
            self.shared.give_back(self._charged)
            self._charged = 0

    def _let_go(self) -> None:
        body = self._held
        self._hold_no_more()
        self.begin_cycle()
        if body:
            super().on_body(bytes(body))

    def _replies(self, asked: _Plain, data: bytes, start: int) -> bool:
        """Reply to a plain request, whose body begins there in the data, and say whether it was one."""
        shared = self.shared
        if self.server_state.default_headers is not shared.dated:
            shared.date(self.server_state.default_headers, self.config.timeout_keep_alive)
        is_late = monotonic() > shared.until and shared.is_spent()
        if (is_late or shared.draining) and asked.target != AUTHORIZE_TARGET:
            # How OPA's client is refused, and what it is told of the end, is the application's to say.
            return False
        if is_late:
            shared.note_shed()
            reply = shared.shed_replies[self.known]
        else:
            answer = self._answer(asked.headers, data[start:], self.names, asked.target)
            if answer is None:
                return False
            reply = shared.head + answer
            if not self.known:
                self.become_known()
        # As in `wait`, by the clock that the turn has looked at. To write may set another one.
        self.deadline = shared.began + self.timeout_keep_alive
        self.url, self.is_new = asked.target, False
        self.transport.write(reply)
        self.server_state.total_requests += 1
        if shared.draining:
            self.hang_up()
        return True

    def _without_offer(self) -> bytes:
        """The head of the request as it was parsed, without what offers to upgrade."""
        lines = [b"%b %b HTTP/%b" % (self.parser.get_method(), self.url, self.parser.get_http_version().encode())]
        for name, value in self.headers:
            kept = value
            if name == b"connection":
                tokens = [token.strip() for token in value.split(b",")]
                kept = b", ".join(token for token in tokens if token.lower() not in _OFFERS)
            if name not in _OFFERS and (kept or not value):
                lines.append(b"%b: %b" % (name, kept))
        return b"\r\n".join((*lines, b"", b""))
