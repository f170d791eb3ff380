"""Where requests wait until this process' image has reached an offset (Kafka's DelayedOperationPurgatory).

Waiters are in a heap by offset for each epoch: applying a transaction wakes those that are due and touches no other.
"""

import asyncio
import heapq
import itertools
from uuid import UUID

from app.core.epochs import Standing, is_later
from app.core.image import AuthorizerImage
from app.core.kafka.errors import (
    OverloadedException,
    RequestTimedOutException,
    TokenEpochInvalidException,
    TokenEpochMismatchException,
)
from app.core.records import FeedPoll
from app.core.token import Token
from app.metrics.declared import Metrics
from app.runtime.deadlines import answered

_Entry = tuple[int, int, asyncio.Future[Standing]]

OTHER_EPOCH = "`{name}` is not a part of the store's history: the store was restored to before it; ask again without it"
INVALID_EPOCH = (
    "the epoch of `{name}` lies more than a day in the future, so no store has begun it; ask again without it"
)

_PURGE_AT = 1_000


class Purgatory:
    def __init__(self, bound: int, metrics: Metrics) -> None:
        self._bound = bound
        self._metrics = metrics
        self._image: AuthorizerImage | None = None
        """The newest image; None before the first, and while it is known to be of a history that was lost."""
        self._heaps: dict[UUID, list[_Entry]] = {}
        self._numbers = itertools.count()
        self._closed = False
        # Asking for the running loop costs a system call (Python 3.11), which every update would pay.
        self._loop: asyncio.AbstractEventLoop | None = None

    def has_passed(self, token: Token) -> bool:
        return self._image is not None and self._image.has(token)

    async def wait_for(self, token: Token, timeout_s: float, name: str = "at_least") -> None:
        """Raises TimeoutError at the deadline, OverloadedException if too many wait.

        TokenEpochMismatchException, TokenEpochInvalidException: a poll of the store that began after this call has
        proved that the token is no part of its history.
        """
        if self.has_passed(token):
            return
        if self._metrics.purgatory_num_delayed_operations >= self._bound:
            raise OverloadedException(
                "too many requests are waiting for an offset; nothing was done, try again shortly"
            )
        match await self._delay(token, timeout_s):
            case Standing.LOST:
                raise TokenEpochMismatchException(OTHER_EPOCH.format(name=name))
            case Standing.INVALID:
                raise TokenEpochInvalidException(INVALID_EPOCH.format(name=name))

    async def wait_for_own(self, token: Token, timeout_s: float) -> None:
        """The same for an update that this process has committed: its epoch may be new to the image, and the bound does
        not apply, as the mutator has its own. Raises TimeoutError, RequestTimedOutException if the store has moved on.
        """
        if self.has_passed(token):
            return
        if await self._delay(token, timeout_s) is not Standing.PART:
            raise RequestTimedOutException(
                "the store was restored to before the update; its outcome is unknown, check before you repeat it"
            )

    def reached(self, image: AuthorizerImage) -> None:
        self._image = image if image.loading_complete else None
        for epoch in list(self._heaps):
            self._wake_passed(epoch, image)
        self._count_size()

    def next_ticket(self) -> int:
        return next(self._numbers)

    def confirmed(self, poll: FeedPoll, ticket: int) -> None:
        """Refuses whose token is no part of the history, by a poll that began after `next_ticket` gave this number.

        INVARIANT: only the head of the store itself proves that a token is lost.
        """
        if not poll.is_of_primary:
            return
        for epoch in [each for each in self._heaps if each != poll.head.epoch]:
            left: list[_Entry] = []
            for entry in self._heaps.pop(epoch):
                standing = _standing(Token(epoch, entry[0]), poll)
                if entry[1] < ticket and standing in (Standing.LOST, Standing.INVALID):
                    _wake(entry, standing)
                else:
                    left.append(entry)
            if left:
                heapq.heapify(left)
                self._heaps[epoch] = left
        self._count_size()

    def invalidate_epoch(self, epoch: UUID) -> None:
        """The image, if it is of this epoch, is of a lost history: its offset proves nothing until the next image."""
        if self._image is not None and self._image.epoch == epoch:
            self._image = None

    async def drained(self, timeout_s: float) -> None:
        waiting = [future for heap in self._heaps.values() for _, _, future in heap if not future.done()]
        if waiting:
            await asyncio.wait(waiting, timeout=timeout_s)

    def close(self) -> None:
        self._closed = True
        for heap in self._heaps.values():
            for entry in heap:
                _wake(entry, Standing.AHEAD)
        self._heaps.clear()
        self._count_size()

    async def _delay(self, token: Token, timeout_s: float) -> Standing:
        """PART, LOST or INVALID. Raises TimeoutError."""
        if self._closed:
            raise TimeoutError
        self._purge()
        self._loop = self._loop or asyncio.get_running_loop()
        future: asyncio.Future[Standing] = self._loop.create_future()
        heapq.heappush(self._heaps.setdefault(token.epoch, []), (token.offset, next(self._numbers), future))
        self._metrics.purgatory_num_delayed_operations += 1
        self._count_size()
        try:
            standing = await answered(future, timeout_s)
        except TimeoutError:
            # The offset may have come in the same step as the deadline.
            if not self.has_passed(token):
                self._metrics.purgatory_expirations += 1
                raise
            return Standing.PART
        finally:
            self._metrics.purgatory_num_delayed_operations -= 1
        if standing is Standing.AHEAD or (standing is Standing.PART and not self.has_passed(token)):
            # Closed, or the image went back meanwhile.
            raise TimeoutError
        return standing

    def _wake_passed(self, epoch: UUID, image: AuthorizerImage) -> None:
        heap = self._heaps[epoch]
        while heap and image.has(Token(epoch, heap[0][0])):
            _wake(heapq.heappop(heap), Standing.PART)
        if not heap:
            del self._heaps[epoch]

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


def _standing(token: Token, poll: FeedPoll) -> Standing:
    head = poll.head
    standing = head.epochs.judge(token, head.last_offset, poll.store_time)
    if standing is Standing.AHEAD and token.epoch != head.epoch and not is_later(token.epoch, head.epoch):
        # The first epoch of another store, which can't begin in this one.
        return Standing.LOST
    return standing


def _wake(entry: _Entry, standing: Standing) -> None:
    if not entry[2].done():
        entry[2].set_result(standing)
