"""How the application's replies are written."""

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from app.process.sockets import unsent_bytes
from app.rest.http.bounds import kept_for

if TYPE_CHECKING:
    from uvicorn.protocols.http.httptools_impl import RequestResponseCycle


_MOST_UNSENT = 32 * 1024
"""More would soon fill the kernel's queue. What it does not take is written, once it does, in a turn of the event loop
that nobody paces: a thousand clients that read again at once would hold up all others.
"""
_UNASKED = 16 * 1024
"""So much is pushed before the kernel is asked again, which costs as much as half a push of a few bytes."""


class ReplyWriter(asyncio.Transport):
    """The transport that the application's replies on one connection are written to.

    It adds to each head the lines that say how long the connection is kept. The head is written together with what
    follows it in the same turn of the loop, as each separate write would wake the client.
    """

    def __init__(
        self,
        transport: asyncio.Transport,
        loop: asyncio.AbstractEventLoop,
        *,
        kept_s: Callable[[], int],
        hang_up: Callable[[], None],
    ) -> None:
        """`kept_s` says how long the connection is kept after the reply that is under way."""
        super().__init__()
        self.held: bytes | None = None
        """What has not been written yet."""
        self._transport = transport
        self._loop = loop
        self._kept_s = kept_s
        self._hang_up = hang_up
        self._cycle: RequestResponseCycle | None = None
        self._is_head_written = False
        self._has_ended = False
        self._pushed = 0
        """Bytes since the kernel was last asked how many the client has not taken."""

    def begin(self, cycle: "RequestResponseCycle") -> None:
        self._cycle, self._is_head_written = cycle, False

    def end(self) -> None:
        """Drops all that is written from now on: the application doesn't know yet that nobody reads it."""
        self._has_ended = True

    def let_go(self) -> None:
        """Lets go of the lost connection and its request: nothing of them must wait for the garbage collector, which
        would free thousands at once.
        """
        self.held = self._cycle = None
        self._kept_s, self._hang_up = _nothing_is_kept, _nothing_to_close

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self._has_ended or self._transport.is_closing():
            return
        part = self._with_kept_lines(bytes(data))
        if self.held is None:
            self.held = part
            self._loop.call_soon(self.flush)
        else:
            held, self.held = self.held, None
            self._transport.writelines((held, part))

    def keeps_up(self) -> bool:
        """Whether the client has taken nearly all that was pushed."""
        if self._transport.get_write_buffer_size():
            return False
        if self._pushed > _UNASKED:
            if unsent_bytes(self._transport) > _MOST_UNSENT:
                return False
            self._pushed = 0
        return True

    def is_gone(self) -> bool:
        """Whether the client has gone."""
        return self._cycle is None or self._cycle.disconnected or self._has_ended or self._transport.is_closing()

    def abort(self) -> None:
        """Cuts the client off."""
        self._transport.abort()

    def push(self, data: bytes) -> bool:
        """Writes a whole chunk of the reply under way, in this step of the loop.

        Returns False, with nothing written, if the client must first take what came before, or has gone.
        """
        cycle = self._cycle
        if cycle is None or cycle.disconnected or not cycle.chunked_encoding or cycle.response_complete:
            return False
        if self._has_ended or cycle.flow.write_paused or self._transport.is_closing():
            return False
        if self.held is not None:
            self.flush()
        self._transport.write(data)
        self._pushed += len(data)
        return True

    def flush(self) -> None:
        if self.held is not None:
            held, self.held = self.held, None
            if not self._transport.is_closing():
                self._transport.write(held)

    def is_closing(self) -> bool:
        return self._transport.is_closing()

    def close(self) -> None:
        self.flush()
        self._hang_up()

    def _with_kept_lines(self, part: bytes) -> bytes:
        """The connection isn't kept if the request is not complete, as the rest won't be read."""
        cycle = self._cycle
        if cycle is None or self._is_head_written or not cycle.response_started:
            return part
        self._is_head_written = True
        kept_s = self._kept_s()
        if not cycle.keep_alive:
            # uvicorn has said so.
            return part
        cycle.keep_alive = not cycle.more_body
        # In the same place as in plain answers, so that nobody can tell the two apart.
        status, end, more = part.partition(b"\r\n")
        return b"".join((status, end, kept_for(kept_s if cycle.keep_alive else 0), more))


def _nothing_is_kept() -> int:
    return 0


def _nothing_to_close() -> None:
    pass
