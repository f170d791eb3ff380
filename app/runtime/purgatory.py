"""Where requests wait until this process' image has reached an offset (Kafka's DelayedOperationPurgatory).

Waiters are in a heap by offset: applying a transaction wakes those that are due and touches no other.
"""

import asyncio
import heapq
import itertools
from uuid import UUID

from app.core.image import AuthorizerImage
from app.core.kafka.errors import OverloadedException, RequestTimedOutException, TokenEpochMismatchException
from app.core.token import Token
from app.metrics.declared import Metrics
from app.runtime.deadlines import answered

_Entry = tuple[int, int, asyncio.Future[None]]

OTHER_EPOCH = "`at_least` is from another epoch of the store; ask again without it"

_PURGE_AT = 1_000


class Purgatory:
    def __init__(self, bound: int, metrics: Metrics) -> None:
        self._bound = bound
        self._metrics = metrics
        self._epoch: UUID | None = None
        self._offset = -1
        self._heaps: dict[UUID, list[_Entry]] = {}
        self._numbers = itertools.count()
        self._closed = False
        # Asking for the running loop costs a system call (Python 3.11), which every update would pay.
        self._loop: asyncio.AbstractEventLoop | None = None

    def has_passed(self, token: Token) -> bool:
        return token.epoch == self._epoch and token.offset <= self._offset

    async def wait_for(self, token: Token, timeout_s: float, other_epoch: str = OTHER_EPOCH) -> None:
        """Raises TimeoutError at the deadline, TokenEpochMismatchException once a poll has confirmed that the store is
        of another epoch or the image has changed to yet another, OverloadedException if too many wait.
        """
        if self.has_passed(token):
            return
        if self._metrics.purgatory_num_delayed_operations >= self._bound:
            raise OverloadedException(
                "too many requests are waiting for an offset; nothing was done, try again shortly"
            )
        await self._delay(token, timeout_s)
        if token.epoch != self._epoch:
            raise TokenEpochMismatchException(other_epoch)
        if not self.has_passed(token):
            raise TimeoutError

    async def wait_for_own(self, token: Token, timeout_s: float) -> None:
        """The same for an update that this process has committed: its epoch may be new to the image, and the bound does
        not apply, as the mutator has its own. Raises TimeoutError, RequestTimedOutException if the store has moved on.
        """
        if self.has_passed(token):
            return
        await self._delay(token, timeout_s)
        if not self.has_passed(token):
            raise RequestTimedOutException(
                "the store changed to another epoch after the update; its outcome is unknown, check before you "
                "repeat it"
            )

    def reached(self, image: AuthorizerImage) -> None:
        if image.epoch is None:
            self._epoch, self._offset = None, -1
            return
        if image.epoch != self._epoch:
            for epoch in [each for each in self._heaps if each != image.epoch]:
                _wake(self._heaps.pop(epoch))
        self._epoch, self._offset = image.epoch, image.offset
        heap = self._heaps.get(image.epoch, [])
        while heap and heap[0][0] <= image.offset:
            _wake([heapq.heappop(heap)])
        self._count_size()

    def askers(self) -> int:
        return next(self._numbers)

    def confirmed(self, image: AuthorizerImage, askers: int) -> None:
        """The store continues this image, by a poll that began after `askers` was called: other epochs are over."""
        self.reached(image)
        for epoch in [each for each in self._heaps if each != self._epoch]:
            heap = self._heaps.pop(epoch)
            _wake([entry for entry in heap if entry[1] < askers])
            later = [entry for entry in heap if entry[1] > askers]
            if later:
                heapq.heapify(later)
                self._heaps[epoch] = later
        self._count_size()

    def distrust(self, epoch: UUID) -> None:
        """The image is of a history that the store has lost: its offset proves nothing until the next image."""
        if epoch == self._epoch:
            self._epoch, self._offset = None, -1

    async def drained(self, timeout_s: float) -> None:
        waiting = [future for heap in self._heaps.values() for _, _, future in heap if not future.done()]
        if waiting:
            await asyncio.wait(waiting, timeout=timeout_s)

    def close(self) -> None:
        self._closed = True
        for heap in self._heaps.values():
            _wake(heap)
        self._heaps.clear()
        self._count_size()

    async def _delay(self, token: Token, timeout_s: float) -> None:
        if self._closed:
            raise TimeoutError
        self._purge()
        self._loop = self._loop or asyncio.get_running_loop()
        future: asyncio.Future[None] = self._loop.create_future()
        heapq.heappush(self._heaps.setdefault(token.epoch, []), (token.offset, next(self._numbers), future))
        self._metrics.purgatory_num_delayed_operations += 1
        self._count_size()
        try:
            await answered(future, timeout_s)
        except TimeoutError:
            # The offset may have come in the same step as the deadline.
            if not self.has_passed(token):
                self._metrics.purgatory_expirations += 1
                raise
        finally:
            self._metrics.purgatory_num_delayed_operations -= 1
        if self._closed and not self.has_passed(token):
            raise TimeoutError

    def _purge(self) -> None:
        if self._metrics.purgatory_size < _PURGE_AT + 2 * self._metrics.purgatory_num_delayed_operations:
            return
        for epoch, heap in list(self._heaps.items()):
            waiting = [entry for entry in heap if not entry[2].done()]
            heapq.heapify(waiting)
            if waiting:
                self._heaps[epoch] = waiting
            else:
                del self._heaps[epoch]

    def _count_size(self) -> None:
        self._metrics.purgatory_size = sum(map(len, self._heaps.values()))


def _wake(entries: list[_Entry]) -> None:
    for _, _, future in entries:
        if not future.done():
            future.set_result(None)
