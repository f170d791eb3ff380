"""The newest transactions of the feed, in memory: each is encoded once, for all readers.

Readers are served from here as far back as it goes; what is older comes from the store.
"""

import weakref
from bisect import bisect_right
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import compress, islice
from operator import attrgetter
from uuid import UUID

from app.core.image import AuthorizerImage
from app.core.kafka.filters import AclBindingFilter
from app.core.records import MAX_TRANSACTION_BYTES, ConfigRecord, Record, record_bytes
from app.core.token import Token
from app.formats.feed_events import encode
from app.formats.feed_values import record_fields, transaction_json
from app.runtime.pace import Pace, each_paced
from app.runtime.watch.lines import SLICE_BYTES, Line, Part

MAX_RECORDS = 10_000
MAX_BYTES = 16 * 1024 * 1024
"""Of lines that are kept, and of lines that were dropped while readers are being sent them."""
_MOST_BESIDES = 128
"""Bytes of a canonical record besides its texts."""


@dataclass(slots=True, eq=False)
class Entry:
    """A transaction, and the digest of the image after it.

    `epoch` is the one in which it was written. `line` is None until it is encoded; `end` counts the bytes of all lines
    up to its own. `held` are those of its line, until then the characters of its texts.
    """

    epoch: UUID
    records: Sequence[Record]
    digest: int | None
    held: int
    line: Line | None = None
    end: int = 0

    @property
    def first(self) -> int:
        return self.records[0].offset

    @property
    def last(self) -> int:
        return self.records[-1].offset


class RecentTransactions:
    """Transactions without a gap, up to the newest image."""

    def __init__(self) -> None:
        self.first = 0
        """The offset after which readers can go on from memory, plus 1."""
        self.oldest_offset = -1
        """Readers can't go on from before this offset: a transaction up to it is too long to be sent, or can't be read.

        -1 while no such transaction is known.
        """
        self._entries: deque[Entry] = deque()
        self._records = 0
        self._encoded = 0
        self._bytes = 0
        self._held = 0
        self._part: tuple[int, Part] | None = None
        """The offset last asked for, and what follows it: nearly all readers are at the same one."""
        self._dropped: list[weakref.ref[Line]] = []
        """Long lines that readers may still be being sent, oldest first."""

    def reset(self, image: AuthorizerImage) -> None:
        self._note_dropped(entry.line for entry in self._entries)
        self.first, self.oldest_offset = image.offset + 1, -1
        self._entries.clear()
        self._records = self._encoded = self._held = 0
        self._part = None

    @property
    def is_encoded(self) -> bool:
        return self._encoded == len(self._entries)

    def append(self, epoch: UUID, transaction: Sequence[Record], digest: int | None) -> None:
        entry = Entry(epoch, transaction, digest, sum(map(_characters, transaction)))
        self._entries.append(entry)
        self._records += len(transaction)
        self._held += entry.held

    def trim(self, *, is_read: bool) -> None:
        """Drops the oldest that exceed the bounds; the last one stays, however large, if there are readers."""
        kept = 1 if is_read else 0
        while len(self._entries) > kept and (self._records > MAX_RECORDS or self._held > MAX_BYTES):
            self._drop_first()

    def _drop_first(self) -> None:
        gone = self._entries.popleft()
        self._records -= len(gone.records)
        self._held -= gone.held
        self._encoded -= gone.line is not None
        self.first = gone.last + 1
        self._note_dropped([gone.line])

    def _note_dropped(self, lines: Iterable[Line | None]) -> None:
        """Withdraws the oldest of the lines that only readers still hold, if they are too many bytes."""
        long = [weakref.ref(line) for line in lines if line is not None and len(line.json) > SLICE_BYTES]
        if not long:
            return
        dropped, self._dropped, held = [*self._dropped, *long], [], 0
        for ref in reversed(dropped):
            line = ref()
            if line is None:
                continue
            held += len(line.json)
            # The newest stays, however long it is.
            if self._dropped and held > MAX_BYTES:
                line.is_withdrawn = True
            else:
                self._dropped.insert(0, ref)

    async def encode(self) -> None:
        """Encodes what is not encoded yet, in short steps; for one caller at a time.

        A transaction that is too long to be sent is dropped, with all before it.
        """
        pace = Pace()
        while not self.is_encoded:
            entry = self._entries[self._encoded]
            line = None if await is_too_long(entry.records) else await transaction_line(entry.epoch, entry.records)
            if self._encoded < len(self._entries) and self._entries[self._encoded] is entry:
                if line is None:
                    self.refuse_before(entry.last)
                    while self.first <= entry.last:
                        self._drop_first()
                    continue
                entry.line = line
                self._held += len(line.json) - entry.held
                entry.held = len(line.json)
                self._bytes += entry.held
                entry.end = self._bytes
                self._encoded += 1
                self._part = None
            await pace.breathe()

    def refuse_before(self, offset: int) -> None:
        self.oldest_offset = max(self.oldest_offset, offset)

    def after(self, offset: int) -> Iterator[Entry]:
        """The encoded transactions behind the offset, in order; it must be at least `first` - 1."""
        newest_first: list[Entry] = []
        for entry in islice(reversed(self._entries), len(self._entries) - self._encoded, None):
            if entry.last <= offset:
                break
            newest_first.append(entry)
        return reversed(newest_first)

    def has_after(self, offset: int) -> bool:
        """Whether an encoded transaction is behind the offset."""
        return self._encoded > 0 and self._entries[self._encoded - 1].last > offset

    def part(self, offset: int) -> Part | None:
        """What follows the offset, which must be at least `first` - 1; None if nothing encoded does."""
        if self._part is None or self._part[0] != offset:
            part = self._new_part(offset)
            if part is None:
                return None
            self._part = offset, part
        return self._part[1]

    def _new_part(self, offset: int) -> Part | None:
        lines: list[Line] = []
        size, newest = 0, None
        for entry in self.after(offset):
            if entry.line is None or (lines and size + len(entry.line.json) > SLICE_BYTES):
                break
            if newest is not None and newest.epoch != entry.epoch:
                # Readers are told of the epoch first.
                break
            lines.append(entry.line)
            size += len(entry.line.json)
            newest = entry
        if newest is None:
            return None
        last = newest.records[-1]
        return Part(lines, size, newest.epoch, newest.last, (last.hash, newest.digest), last.recorded_at)

    def is_behind(self, offset: int, max_bytes: int) -> bool:
        """Whether more bytes than this wait behind the first transaction after the offset, or it has been dropped."""
        if offset + 1 < self.first:
            return True
        following = bisect_right(self._entries, offset, 0, self._encoded, key=_last)
        return following < self._encoded and self._bytes - self._entries[following].end > max_bytes


_last = attrgetter("last")


async def is_too_long(records: Sequence[Record]) -> bool:
    """Whether a transaction is longer than any may be: a version without this bound has written it.

    No reader would take its line, so readers are told to pass it by a snapshot.
    """
    if 4 * sum(map(_characters, records)) + _MOST_BESIDES * len(records) <= MAX_TRANSACTION_BYTES:
        return False
    return sum(await each_paced(records, record_bytes)) > MAX_TRANSACTION_BYTES


async def transaction_line(
    epoch: UUID, records: Sequence[Record], acl_filter: AclBindingFilter | None = None
) -> Line | None:
    """The event with those of a transaction's records that the filter lets through; ConfigRecords are shown to all.

    None if it lets nothing through.
    """
    are_shown = await each_paced(records, lambda record: _is_shown(record, acl_filter))
    shown = list(compress(records, are_shown))
    if not shown:
        return None
    with_offset = len(shown) < len(records)
    parts = await each_paced(shown, lambda each: encode(record_fields(each, with_offset=with_offset)))
    return Line("transaction", str(Token(epoch, records[-1].offset)), transaction_json(epoch, records, parts))


def _is_shown(record: Record, acl_filter: AclBindingFilter | None) -> bool:
    return acl_filter is None or isinstance(record, ConfigRecord) or acl_filter.matches(record.acl.binding)


def _characters(record: Record) -> int:
    said = len(record.actor) + len(record.comment or "")
    if isinstance(record, ConfigRecord):
        return said + len(record.name) + len(record.value or "")
    binding, owner = record.acl.binding, record.acl.owner
    return said + len(binding.resource_name) + len(binding.principal) + len(binding.host) + len(owner or "")
