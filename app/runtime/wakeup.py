"""What makes the loader poll the feed: a hint from the store, a nudge from this process, or time."""

import asyncio

from app.core.backoff import Backoff
from app.runtime.deadlines import stop
from app.runtime.ports import ChangeFeed

_GRACE_S = 1.0
_SOON_S = 0.05
_FREE_HINTS = 3
_FIRST_REST_S = 0.002
_LONGEST_REST_S = 0.25


class WakeUp:
    """The wait for hints goes on while the loader works, so that no hint falls between two waits."""

    def __init__(self, feed: ChangeFeed) -> None:
        self._feed = feed
        self._nudged = asyncio.Event()
        self._hint: asyncio.Task[None] | None = None
        self._hint_began = 0.0
        self._hint_within_s = 0.0
        self._idle_hints = 0
        self._backoff = Backoff(_FIRST_REST_S, _LONGEST_REST_S)

    def nudge(self) -> None:
        """For a caller that waits for an offset: the hint may be lost."""
        self._nudged.set()

    def found_records(self) -> None:
        self._idle_hints = 0
        self._backoff.reset()

    async def wait(self, within_s: float) -> None:
        """Returns on a hint, on a nudge, or after `within_s`.

        Hints that keep coming at once and without news (no listening connection can be opened) are followed by ever
        longer rests, which a nudge ends.
        """
        if self._hint is None:
            self._hint = asyncio.create_task(self._feed.wait(within_s), name="klamm-hint")
            self._hint_began = asyncio.get_running_loop().time()
            self._hint_within_s = within_s
        hint = self._hint
        nudge = asyncio.create_task(self._nudged.wait(), name="klamm-nudge")
        try:
            await asyncio.wait({hint, nudge}, timeout=within_s, return_when=asyncio.FIRST_COMPLETED)
            rest_s = await self._settle(hint)
            if rest_s and not nudge.done():
                await asyncio.wait({nudge}, timeout=rest_s)
        finally:
            nudge.cancel()
            self._nudged.clear()

    async def close(self) -> None:
        if self._hint is not None:
            await stop(self._hint)

    async def _settle(self, hint: asyncio.Task[None]) -> float:
        """Clears away a wait that has ended, or that hangs. Returns the rest that is due, in seconds."""
        took_s = asyncio.get_running_loop().time() - self._hint_began
        if hint.done() or took_s > self._hint_within_s + _GRACE_S:
            self._hint = None
            await stop(hint)
            if took_s < _SOON_S:
                self._idle_hints += 1
                if self._idle_hints > _FREE_HINTS:
                    return self._backoff.next_s()
        return 0.0
