"""Sessions of browsers that were ended before their time, by id: every worker of a service knows them."""

import time
from collections.abc import Awaitable, Callable

KEPT_S = 8 * 3600
"""As long as a session may last at all (`console.sessions.LIFETIME_S`)."""
MOST = 10_000


class EndedSessions:
    """`share` tells the other workers of an id; it returns when they know it.

    INVARIANT: no ended session is ever taken for one that goes on. If too many end, all end that there are.
    """

    def __init__(self, share: Callable[[str], Awaitable[None]] | None = None) -> None:
        self._share = share
        self._forgotten_at: dict[str, float] = {}
        self._all_until = 0.0
        """Sessions that began by then have ended."""

    async def end(self, session_id: str) -> None:
        self.add(session_id, time.time())
        if self._share is not None:
            await self._share(session_id)

    def add(self, session_id: str, now: float) -> None:
        """`now` is in seconds since 1970."""
        if len(self._forgotten_at) >= MOST:
            self._forgotten_at = {each: at for each, at in self._forgotten_at.items() if at > now}
        if len(self._forgotten_at) >= MOST:
            self._all_until = now
            self._forgotten_at.clear()
        self._forgotten_at[session_id] = now + KEPT_S

    def has(self, session_id: str, began_at: float) -> bool:
        return began_at <= self._all_until or session_id in self._forgotten_at

    @property
    def has_any(self) -> bool:
        return bool(self._forgotten_at or self._all_until)

    def to_list(self) -> list[object]:
        """For a worker that is started."""
        return [self._all_until, *self._forgotten_at]

    def take(self, ended: list[object]) -> None:
        """Adds what `to_list` has made."""
        until, *ids = ended
        if isinstance(until, float):
            self._all_until = max(self._all_until, until)
        for each in ids:
            self.add(str(each), time.time())
