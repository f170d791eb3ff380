"""Places for what one reader alone is sent (a snapshot, a page of older records), shared out among callers."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import NamedTuple

from app.core.kafka.errors import OverloadedException
from app.runtime.options import RuntimeOptions
from app.runtime.watch.lines import Line

_GIVES_WAY_S = 1.0
"""Who has waited for so long makes another one give way: of a caller that has more places than its share, or slow."""
_SLOW_BYTES_PER_S = 256 * 1024
"""A client that takes less is slow."""
_QUICK_BYTES_PER_S = 4 * 1024 * 1024
"""A client that takes so much is soon done, and is left its place even if its caller has more than its share."""


class PlaceOwner(NamedTuple):
    name: str
    """Callers without a name are one caller: nothing that they say of themselves is proved."""
    is_own: bool = False
    """The service itself: it reads into a file, and is never cut."""


class ReaderPlace:
    def __init__(self, caller: PlaceOwner, now: float) -> None:
        self.caller = caller
        self.is_cut = False
        """Whether it must be given back now."""
        self._began = now
        self._sent = 0
        self._lines: Sequence[Line] = ()

    def keep(self, lines: Sequence[Line]) -> None:
        """Notes what is sent next, when all that was sent before has been taken."""
        self._sent += sum(line.sent for line in self._lines)
        self._lines = lines

    def cut(self) -> None:
        self.is_cut = True
        for line in self._lines:
            line.is_withdrawn = True

    def bytes_per_s(self, now: float) -> float:
        return (self._sent + sum(line.sent for line in self._lines)) / max(now - self._began, _GIVES_WAY_S)

    def is_to_give_way(self, now: float, *, is_surplus: bool) -> bool:
        """`is_surplus`: its caller has more than its share."""
        least = _QUICK_BYTES_PER_S if is_surplus else _SLOW_BYTES_PER_S
        return now - self._began > _GIVES_WAY_S and self.bytes_per_s(now) < least


class _Waiter(NamedTuple):
    caller: PlaceOwner
    place: asyncio.Future[ReaderPlace]


class Places:
    """INVARIANT: while somebody waits, no caller gets a place while another one that waits has fewer."""

    def __init__(
        self, count: int, options: RuntimeOptions, *, queue: int | None = None, wait_s: float | None = None
    ) -> None:
        """At most `queue` wait, each for `wait_s` at most; None: as many as there are, for as long as it takes."""
        self._count = count
        self._clock = options.clock.monotonic
        self._queue = queue
        self._wait_s = wait_s
        self._held: set[ReaderPlace] = set()
        self._waiting: list[_Waiter] = []

    @asynccontextmanager
    async def place(self, caller: PlaceOwner) -> AsyncIterator[ReaderPlace]:
        """Raises OverloadedException if too many wait, or it has waited too long."""
        if len(self._held) < self._count and not self._waiting:
            place = self._new_place(caller)
        else:
            place = await self._next_place(caller)
        try:
            yield place
        finally:
            self.give_back(place)

    def give_back(self, place: ReaderPlace) -> None:
        """It may be given back before the end, if what is left to send is short."""
        self._held.discard(place)
        self._hand_out()

    def _new_place(self, caller: PlaceOwner) -> ReaderPlace:
        place = ReaderPlace(caller, self._clock())
        self._held.add(place)
        return place

    async def _next_place(self, caller: PlaceOwner) -> ReaderPlace:
        self._make_room(caller)
        waiter = _Waiter(caller, asyncio.get_running_loop().create_future())
        self._waiting.append(waiter)
        try:
            async with asyncio.timeout(self._wait_s):
                while not waiter.place.done():
                    await asyncio.wait([waiter.place], timeout=_GIVES_WAY_S)
                    if not waiter.place.done():
                        self._make_way(caller)
        except TimeoutError:
            if not waiter.place.done():
                raise too_many() from None
        except asyncio.CancelledError:
            if waiter.place.done() and waiter.place.exception() is None:
                self.give_back(waiter.place.result())
            raise
        finally:
            if waiter in self._waiting:
                self._waiting.remove(waiter)
        return waiter.place.result()

    def _make_room(self, caller: PlaceOwner) -> None:
        """Refuses the last one of the caller that has most in the queue, if that is full. Raises OverloadedException if
        that is this caller.
        """
        if self._queue is None or len(self._waiting) < self._queue:
            return
        counts = Counter(waiter.caller for waiter in self._waiting)
        most, count = counts.most_common(1)[0]
        if count <= counts[caller] + 1:
            raise too_many()
        last = next(waiter for waiter in reversed(self._waiting) if waiter.caller == most)
        self._waiting.remove(last)
        last.place.set_exception(too_many())

    def _make_way(self, caller: PlaceOwner) -> None:
        coming = sum(place.is_cut for place in self._held)
        if coming >= len(self._waiting):
            return
        now, counts = self._clock(), Counter(place.caller for place in self._held if not place.is_cut)
        # What comes free may be this caller's.
        share = counts[caller] + coming + 1
        able = [
            place
            for place in self._held
            if not (place.is_cut or place.caller.is_own)
            and place.is_to_give_way(now, is_surplus=counts[place.caller] > share)
        ]
        if able:
            min(able, key=lambda place: (-counts[place.caller], place.bytes_per_s(now))).cut()

    def _hand_out(self) -> None:
        while self._waiting and len(self._held) < self._count:
            counts = Counter(place.caller for place in self._held)
            waiter = min(self._waiting, key=lambda waiter: counts[waiter.caller])
            self._waiting.remove(waiter)
            if not waiter.place.done():
                waiter.place.set_result(self._new_place(waiter.caller))


def too_many() -> OverloadedException:
    return OverloadedException("too many snapshots are being sent; nothing was done, try again shortly")
