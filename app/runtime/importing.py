"""Bulk loading: bindings become batches, batches become transactions, and an outage in between is waited out.

While one batch is written, the next is prepared.
"""

import asyncio
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import islice, takewhile
from uuid import uuid4

from app.core.backoff import Backoff
from app.core.continuity import KnownHistory
from app.core.kafka.bindings import NewAcl
from app.core.kafka.errors import RequestTimedOutException, StoreUnavailableException, TokenEpochMismatchException
from app.core.kafka.validation import MAX_OWNER
from app.core.mutations import BatchOutcome, BulkAcl
from app.core.records import GENESIS_HASH, MAX_TRANSACTION_BYTES, AccessControlEntryRecord, record_bytes
from app.core.token import Token
from app.formats.clock import SYSTEM_CLOCK, Clock
from app.runtime.deadlines import bounded, stop
from app.runtime.ports import BulkStore

_SLICE = 100  # bindings prepared in one step: about a millisecond, during which PostgreSQL's answer waits
_ANY_TIME = datetime.fromtimestamp(0, UTC)
_TERMS_BYTES = 20 + 4 * MAX_OWNER
"""The most that an end and an owner, which an existing ACL may keep, add to a record."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportOptions:
    """Times are in seconds."""

    batch_acls: int = 1_000
    """A replica applies a batch in one step of its event loop, and other writers wait for its end. Of ACLs with long
    names fewer come in one: no more than a transaction holds."""
    acls_per_s: int = 15_000
    """New ACLs at most, 0 for no bound: replicas need several times what a COPY does, and updates made meanwhile wait
    until they have caught up."""
    write_timeout_s: float = 30.0
    """For one batch; past it the outcome is unknown. The store's own limits should come first."""
    give_up_s: float = 60.0  # of nothing but failures
    first_backoff_s: float = 0.1
    max_backoff_s: float = 2.0
    close_timeout_s: float = 2.5
    clock: Clock = SYSTEM_CLOCK


@dataclass(slots=True)
class ImportCounts:
    read: int = 0  # bindings whose batch is in the store: the sum of the next three
    created: int = 0
    there: int = 0  # ACLs that were in the store before this import met them
    changed: int = 0  # of those, the ones that were given another end or owner
    repeated: int = 0  # bindings that had already come in the same import
    token: Token | None = None  # where the feed stood after the last batch
    trouble: str | None = None  # why the present batch has to be tried again
    interrupted: bool = False  # whether the import was stopped before its end


@dataclass(slots=True)
class _Batch:
    acls: dict[bytes, BulkAcl] = field(default_factory=dict)
    read: int = 0
    bytes: int = 0
    """The most that its records can have."""


class Importer:
    """`counts` can be read at any time, and `report` is called whenever they have changed. `run` is called once."""

    def __init__(
        self,
        store: BulkStore,
        actor: str,
        report: Callable[[ImportCounts], None],
        options: ImportOptions | None = None,
        comment: str | None = None,
    ) -> None:
        self.counts = ImportCounts()
        self._store = store
        self._actor = actor
        self._comment = comment
        self._report = report
        self._options = options or ImportOptions()
        self._backoff = Backoff(self._options.first_backoff_s, self._options.max_backoff_s, self._options.clock.jitter)
        self._stopped = asyncio.Event()
        self._own = OffsetRanges()
        self._leftover: list[NewAcl] = []
        """What was read, but did not fit in the batch before."""
        self._known = KnownHistory()
        self._next_at = 0.0  # the clock's time before which the next batch would be too fast

    @property
    def stopping(self) -> bool:
        return self._stopped.is_set()

    def stop(self) -> None:
        self._stopped.set()

    async def run(self, acls: Iterable[NewAcl]) -> None:
        """Raises StoreUnavailableException or RequestTimedOutException at once for the first batch, later after
        `give_up_s` of nothing else; TokenEpochMismatchException if the store has lost what was written meanwhile; and
        whatever `acls`, which must be valid, raises. Of equal ACLs, the last one's terms hold.
        """
        source = iter(acls)
        following = asyncio.create_task(self._next(source))
        try:
            batch = await following
            following = asyncio.create_task(self._next(source))
            # Even with nothing to write: this finds out the feed's offset, and whether there is a store.
            while await self._write(batch):
                batch = await following
                if not batch.read:
                    return
                following = asyncio.create_task(self._next(source))
            self.counts.interrupted = True
        finally:
            await stop(following)
            with suppress(TimeoutError):
                await bounded(self._store.close(), self._options.close_timeout_s)

    async def _next(self, source: Iterator[NewAcl]) -> _Batch:
        """As many as an option and a transaction of the feed allow."""
        batch = _Batch()
        while batch.read < self._options.batch_acls:
            some = self._leftover or list(islice(source, min(_SLICE, self._options.batch_acls - batch.read)))
            taken = sum(takewhile(bool, (self._add(acl, batch) for acl in some)))
            self._leftover = some[taken:]
            await asyncio.sleep(0)
            if self._leftover or not some:
                break
        return batch

    def _add(self, acl: NewAcl, batch: _Batch) -> bool:
        """Whether the batch still holds it."""
        new = BulkAcl(uuid4(), acl)
        record = AccessControlEntryRecord(0, 0, new.stored, _ANY_TIME, self._actor, GENESIS_HASH, self._comment)
        size = record_bytes(record) + _TERMS_BYTES
        if batch.read and batch.bytes + size > MAX_TRANSACTION_BYTES:
            return False
        key = acl.binding.natural_key
        before = batch.acls.get(key)
        batch.acls[key] = new if before is None else BulkAcl(before.id, before.acl.then(acl))
        batch.bytes += size
        batch.read += 1
        return True

    async def _write(self, batch: _Batch) -> bool:
        """False if the import was stopped before the batch was written."""
        failing_since: float | None = None
        while not self._stopped.is_set():
            try:
                began_at = self._options.clock.monotonic()
                outcome = await bounded(
                    self._store.add(batch.acls, self._actor, self._known, self._comment), self._options.write_timeout_s
                )
            except (StoreUnavailableException, RequestTimedOutException, TimeoutError) as fault:
                now = self._options.clock.monotonic()
                failing_since = now if failing_since is None else failing_since
                if self.counts.token is None or now - failing_since > self._options.give_up_s:
                    raise
                self.counts.trouble = str(fault) or "PostgreSQL does not answer in time"
                self._report(self.counts)
                await self._rest(self._backoff.next_s())
            else:
                self._backoff.reset()
                self._count(batch, outcome)
                await self._slow_down(began_at, len(outcome.created))
                return True
        return False

    async def _slow_down(self, began_at: float, created: int) -> None:
        if self._options.acls_per_s:
            self._next_at = max(self._next_at, began_at) + created / self._options.acls_per_s
            await self._rest(self._next_at - self._options.clock.monotonic())

    async def _rest(self, seconds: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._stopped.wait()

    def _count(self, batch: _Batch, outcome: BatchOutcome) -> None:
        counts = self.counts
        if counts.token is not None and not outcome.epochs.has(counts.token, outcome.last_offset):
            raise TokenEpochMismatchException(
                f"the store's history changed during the import (a failover or a restore): it is at `{outcome.token}` "
                f"and does not continue `{counts.token}`, so some of the import may have been lost"
            )
        again = sum(offset in self._own for offset in outcome.found)
        self._own.add(outcome.created)
        counts.read += batch.read
        counts.created += len(outcome.created)
        counts.there += len(outcome.found) - again
        counts.changed += outcome.changed
        counts.repeated += again + batch.read - len(batch.acls)
        counts.token = outcome.token
        counts.trouble = None
        self._report(counts)


class OffsetRanges:
    """Rising offsets, kept as ranges: few even for millions, as long as few other writers come between."""

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._ends: list[int] = []

    def add(self, offsets: Sequence[int]) -> None:
        for offset in sorted(offsets):
            if self._ends and offset == self._ends[-1]:
                self._ends[-1] = offset + 1
            elif not self._ends or offset > self._ends[-1]:
                self._starts.append(offset)
                self._ends.append(offset + 1)

    def __contains__(self, offset: int) -> bool:
        at = bisect_right(self._starts, offset) - 1
        return at >= 0 and offset < self._ends[at]
