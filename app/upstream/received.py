"""What a stream has brought and the loader has not taken yet: whole transactions behind a position, each proved."""

import asyncio
from collections import deque
from collections.abc import Sequence

from app.core.records import Record
from app.formats.feed_events import Bookmark, NoEventError, Transaction
from app.formats.feed_values import chained_records
from app.upstream.stream import digest_in, position_in

MAX_RECORDS = 20_000
"""A stream that is further ahead of the loader is not read further."""

_AT_ONCE = 100
"""How many records are hashed in one step, which takes a millisecond or two."""


class Received:
    """Transactions behind `base_offset`, up to which all is applied; they end at `offset`. Each has its hash."""

    def __init__(self, offset: int, hash_: bytes) -> None:
        self.base_offset = self.offset = offset
        self.base_hash = self.hash = hash_
        self.digest: int | None = None
        """The digest of the image at `offset`, if a bookmark has stated it."""
        self._transactions: deque[Sequence[Record]] = deque()
        self._records = 0
        self._room = asyncio.Event()

    async def proved(self, event: Transaction) -> Sequence[Record]:
        """Its records, once there is room for them. Raises NoEventError if their hash does not follow."""
        records: list[Record] = []
        for record in chained_records(event, self.hash):
            records.append(record)
            if not len(records) % _AT_ONCE:
                await asyncio.sleep(0)
        while self._records >= MAX_RECORDS:
            self._room.clear()
            await self._room.wait()
        return records

    def append(self, records: Sequence[Record]) -> None:
        self._transactions.append(records)
        self._records += len(records)
        self.offset, self.hash, self.digest = records[-1].offset, records[-1].hash, None

    def confirm(self, event: Bookmark) -> None:
        """Takes the digest. Raises NoEventError for a bookmark of another state."""
        position = position_in(event)
        if (position.offset, position.hash) != (self.offset, self.hash):
            raise NoEventError(f"a bookmark is for `{event.token}`, but the changes before it lead to another state")
        self.digest = digest_in(event)

    def behind(self, applied_offset: int, limit: int) -> tuple[bytes | None, list[Record]]:
        """The hash at the offset, None if it is not known here, and whole transactions behind it.

        Everything up to the offset is dropped.
        """
        while self._transactions and self._transactions[0][-1].offset <= applied_offset:
            gone = self._transactions.popleft()
            self._records -= len(gone)
            self.base_offset, self.base_hash = gone[-1].offset, gone[-1].hash
        self._room.set()
        if applied_offset != self.base_offset:
            return None, []
        records: list[Record] = []
        for each in self._transactions:
            if records and len(records) + len(each) > limit:
                break
            records += each
        return self.base_hash, records

    def ends_at(self, offset: int) -> bool:
        """Whether this is the offset of a state that was received: the one behind which all began, or a later one."""
        return offset == self.base_offset or any(each[-1].offset == offset for each in self._transactions)
