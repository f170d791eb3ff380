"""What a stream has brought and the loader has not taken yet: whole transactions behind a position, each proved."""

import asyncio
from collections import deque
from collections.abc import Sequence

from app.core.continuity import FeedPosition
from app.core.records import Record
from app.formats.feed_events import Bookmark, NoEventError, Transaction
from app.formats.feed_values import chained_records
from app.upstream.stream import digest_in, position_in

MAX_RECORDS = 20_000
"""A stream that is further ahead of the loader is not read further."""

_AT_ONCE = 100
"""How many records are hashed in one step, which takes a millisecond or two."""


class Received:
    """Transactions from `base` (which is applied) to `tail`."""

    def __init__(self, base: FeedPosition) -> None:
        self.base = self.tail = base
        self.digest: int | None = None
        """The digest of the image at the tail, if a bookmark has stated it."""
        self.proved_at: float | None = None
        """The clock's time when the tail, or a position before it, was last the store's head; None: never yet."""
        self._transactions: deque[Sequence[Record]] = deque()
        self._records = 0
        self._room = asyncio.Event()

    async def take(self, event: Transaction) -> None:
        """Waits for room. Raises NoEventError for a transaction that does not follow."""
        if event.first_offset != self.tail.offset + 1 or event.token != f"{self.tail.epoch}:{event.last_offset}":
            raise NoEventError(
                f"offset {self.tail.offset} is followed by `{event.token}`, which begins at offset {event.first_offset}"
            )
        records: list[Record] = []
        for record in chained_records(event, self.tail.hash):
            records.append(record)
            if not len(records) % _AT_ONCE:
                await asyncio.sleep(0)
        while self._records >= MAX_RECORDS:
            self._room.clear()
            await self._room.wait()
        self._transactions.append(records)
        self._records += len(records)
        self.tail, self.digest = FeedPosition(self.tail.epoch, records[-1].offset, records[-1].hash), None

    def confirm(self, event: Bookmark, now: float) -> None:
        """Raises NoEventError for a bookmark of another state. `now` is the clock's time."""
        position = position_in(event)
        if position != self.tail:
            raise NoEventError(f"a bookmark is for `{event.token}`, but the changes before it lead to another state")
        self.digest = digest_in(event)
        self.proved_at = now - max(0, event.age_ms) / 1000

    def behind(self, applied_offset: int, limit: int) -> tuple[bytes | None, list[Record]]:
        """The hash at the offset, None if it is not known here, and whole transactions behind it.

        Everything up to the offset is dropped.
        """
        while self._transactions and self._transactions[0][-1].offset <= applied_offset:
            gone = self._transactions.popleft()
            self._records -= len(gone)
            self.base = FeedPosition(self.base.epoch, gone[-1].offset, gone[-1].hash)
        self._room.set()
        if applied_offset != self.base.offset:
            return None, []
        records: list[Record] = []
        for each in self._transactions:
            if records and len(records) + len(each) > limit:
                break
            records += each
        return self.base.hash, records
