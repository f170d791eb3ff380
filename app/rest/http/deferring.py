"""A connection that may be kept waiting for the budget of unauthenticated clients (`unauthenticated`)."""

from abc import abstractmethod
from functools import partial
from typing import Any

from app.rest.http import bounds
from app.rest.http.connection import TimedConnection
from app.rest.http.connections import contained


class DeferringConnection(TimedConnection):
    def __init__(self, *uvicorn_s: Any, **named: Any) -> None:  # noqa: ANN401 - uvicorn's
        super().__init__(*uvicorn_s, **named)
        self.deferred = b""
        """What has been received and not been looked at yet."""

    @abstractmethod
    def serve_deferred(self, data: bytes) -> None: ...

    def defer(self, data: bytes) -> None:
        waiting = self.shared.unauthenticated
        if not self.reads():
            self.discard(data)
        elif not waiting.hold(len(data)):
            self.refuse(bounds.OVERLOADED)
        elif self.deferred:
            self.deferred += data
            self.flow.pause_reading()
        else:
            self.deferred = data
            waiting.enqueue(partial(contained, self, self._serve_deferred), self.loop)

    def _serve_deferred(self) -> None:
        data = self._take_deferred()
        if data and not self.transport.is_closing():
            self.flow.resume_reading()
            self.shows_known = False
            self.serve_deferred(data)

    def _take_deferred(self) -> bytes:
        data, self.deferred = self.deferred, b""
        self.shared.unauthenticated.release(len(data))
        return data

    def eof_received(self) -> bool | None:  # type: ignore[override]  # asyncio's
        # Who has said all is answered before the connection is closed; TLS has no such half of a connection.
        return True if self.deferred and self.scheme == "http" else None

    def connection_lost(self, exc: Exception | None) -> None:
        self._take_deferred()
        super().connection_lost(exc)

    def time_out(self) -> None:
        # INVARIANT: no client is cut off for the time that it is kept waiting.
        if not self.deferred:
            super().time_out()

    def expects_request(self) -> bool:
        return bool(self.deferred) or super().expects_request()
