"""The store's time from an upstream (docs/watch.md, "The store's time"), and when to ask for it again."""

import asyncio
from contextlib import suppress
from datetime import datetime
from math import inf

from app.core.backoff import Backoff
from app.core.kafka.errors import StoreUnavailableException
from app.core.store_time import StoreTime
from app.core.token import Token
from app.formats.feed_events import Bookmark, NoEventError
from app.upstream.chain import FollowerChain
from app.upstream.connection import Connection, RefusedError
from app.upstream.stream import opened

_ANEW_S = 300.0
"""After this long, the count of the store's time may be 0.15 s ahead."""
_SLOW_S = 1.0
"""An upstream that took longer to tell the time is asked again, as an ALLOW would end that much too early."""
_PATIENCE_S = 1.0
_FIRST_BACKOFF_S, _LONGEST_BACKOFF_S = 2.0, 20.0


class UpstreamTime:
    """The count goes on whatever the upstream does; each answer only makes it more exact."""

    def __init__(self, connection: Connection, chain: FollowerChain) -> None:
        self._connection = connection
        self._chain = chain
        self._clock = connection.options.clock.monotonic
        self._store_time = StoreTime()
        self._asked_at = self._ask_at = -inf
        self._backoff = Backoff(_FIRST_BACKOFF_S, _LONGEST_BACKOFF_S, connection.options.clock.jitter)

    def shown(self) -> datetime | None:
        """The store's time, at most; None before anything is known."""
        return self._store_time.shown(self._clock())

    def hear(self, store_time: datetime | None, asked_at: float) -> None:
        """Takes the first event's time as from the question; later ones only if they are ahead of the count."""
        if store_time is None:
            return
        now = self._clock()
        if asked_at <= self._asked_at:
            self._store_time.heard(store_time, now)
            return
        self._asked_at = asked_at
        if now - asked_at <= _SLOW_S:
            self._ask_at = asked_at + _ANEW_S
            self._backoff.reset()
        else:
            self._ask_at = now
        self._store_time.answered(store_time, asked_at, now)

    def is_due(self) -> bool:
        return self._clock() >= self._ask_at

    async def ask(self, url: str, held: Token) -> None:
        """Asks again, as the count slowly runs ahead of the store. Takes a second at most."""
        with suppress(StoreUnavailableException, RefusedError, NoEventError, TimeoutError):
            async with asyncio.timeout(_PATIENCE_S):
                stream = await opened(self._connection, url, held, self._chain.asking())
                try:
                    while not isinstance(event := await stream.next(), Bookmark):
                        pass
                    self.hear(event.store_time, stream.asked_at)
                finally:
                    await stream.close()
        if self.is_due():
            # The stream's events wait meanwhile, so an upstream without a good answer is asked ever more rarely.
            self._ask_at = self._clock() + self._backoff.next_s()
