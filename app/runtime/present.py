"""The image in use as of now: an ALLOW ends at its second by the store's time, whatever else is under way."""

from datetime import datetime
from math import inf

from app.core.image import AuthorizerImage
from app.core.store_time import StoreTime
from app.runtime.options import RuntimeOptions

CLOCK_SET_S = 2.0
"""The store's time is known better than this, as slower polls fail. What changes it by more has set a clock."""


class PresentImage:
    """Decisions get their image from `image` alone. It is replaced in one step of the event loop."""

    def __init__(self, image: AuthorizerImage, store_time: StoreTime, options: RuntimeOptions) -> None:
        self._image = image
        self._store_time = store_time
        self._clock = options.clock.monotonic
        self._ends_at: float | None = None
        """When the next ALLOW ends, by the clock."""

    @property
    def image(self) -> AuthorizerImage:
        """Another object once an ALLOW of it has ended."""
        # INVARIANT: the clock is read before each decision, so that a process that was frozen denies first.
        if self._ends_at is not None and self._clock() >= self._ends_at:
            self._move(self._image.index.ends.first or 0)
        return self._image

    def replace(self, image: AuthorizerImage) -> None:
        # On one index the time never goes back: what has passed there is not searched for again.
        self._image = image.as_of(self._image.now) if image.index is self._image.index else image
        self._move()

    def looked(self, store_time: datetime, asked_at: float) -> float:
        """Takes the store's time from the answer to a question asked when the clock was at `asked_at`.

        Returns by how many seconds it differs from the count so far: 0 if there was none.
        """
        now = self._clock()
        before = self._store_time.at_most(now)
        self._store_time.polled(store_time, asked_at, now)
        if self._image.now == inf:
            self._move()
        self._find_next_end()
        return 0.0 if before == inf else self._store_time.at_most(now) - before

    @property
    def is_ahead(self) -> bool:
        """Whether ALLOWs are taken for ended by a time of the store's clock that it has been set back from."""
        return self._image.now < inf and self._image.now - self._store_time.at_most(self._clock()) > CLOCK_SET_S

    def set_back(self) -> None:
        """Take the image back to the store's time.

        INVARIANT: all steps of its `end_for_good` were taken, so nothing that has ended comes back.
        """
        self._image = self._image.set_back(self._store_time.at_most(self._clock()))
        self._find_next_end()

    def next_end_s(self) -> float:
        """Seconds until the next ALLOW ends, by the clock."""
        return inf if self._ends_at is None else self._ends_at - self._clock()

    def _move(self, reached: float = 0.0) -> None:
        """`reached` has passed by the clock, whatever rounding says."""
        image, now = self._image, max(reached, self._store_time.at_most(self._clock()))
        if now < inf:
            now = max(now, image.now) if image.now < inf else now
            image.index.ends.passed(now)
        self._image = image.as_of(now)
        self._find_next_end()

    def _find_next_end(self) -> None:
        first = self._image.index.ends.first
        self._ends_at = None if first is None else self._store_time.clock_at(first)
