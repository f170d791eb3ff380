"""The store in memory: runtime's two ports with the same answers as PostgreSQL, and with its faults at will."""

import asyncio
from bisect import bisect_right
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from itertools import accumulate
from typing import Literal
from uuid import UUID, uuid4

from app.core.continuity import Continuity, FeedPosition, KnownHistory, continuity
from app.core.digest import MODULUS, acl_digest, config_digest, digest_of
from app.core.epochs import Epochs, Standing, next_epoch
from app.core.index.table import sort_key
from app.core.kafka.bindings import NO_TERMS, AclRow, AclSlice, StandardAcl
from app.core.kafka.errors import (
    ApiException,
    InvalidRequestException,
    PoisonedRecordException,
    PolicyViolationException,
    RequestTimedOutException,
    StoreUnavailableException,
)
from app.core.mutations import (
    MAX_RECORDS_PER_USER_OP,
    AlterConfigsOutcome,
    BatchOutcome,
    BulkAcl,
    CreateAcls,
    CreateAclsOutcome,
    CreatedAcl,
    DeleteAcls,
    DeleteAclsOutcome,
    ExpireAcls,
    ExpireAclsOutcome,
    GroupOutcome,
    Mutation,
    Outcome,
    guard_refusal,
    size_refusal,
)
from app.core.records import (
    GENESIS_HASH,
    MAX_TRANSACTION_BYTES,
    AccessControlEntryRecord,
    ConfigRecord,
    FeedHead,
    FeedPoll,
    Record,
    RemoveAccessControlEntryRecord,
    record_bytes,
    record_hash,
)
from app.core.token import Token

BIRTH = datetime(2026, 1, 1, tzinfo=UTC)

Step = Literal["begin", "write", "poll", "history", "snapshot", "slice", "wait", "close"]


class Tables:
    """What stands in the database: the ACLs by natural key, the configuration, and the records since the birth."""

    def __init__(self) -> None:
        self.acls: dict[bytes, StandardAcl] = {}
        self.configs: dict[str, str] = {}
        self.records: list[Record] = []
        self.digest = 0

    @property
    def last_offset(self) -> int:
        return len(self.records)

    @property
    def hash(self) -> bytes:
        return self.records[-1].hash if self.records else GENESIS_HASH

    def copy(self) -> "Tables":
        other = Tables()
        other.acls, other.configs, other.records = dict(self.acls), dict(self.configs), list(self.records)
        other.digest = self.digest
        return other

    def rows(self) -> list[AclRow]:
        return [acl.row for acl in self.listed()]

    def listed(self) -> list[StandardAcl]:
        return sorted(self.acls.values(), key=lambda acl: sort_key(acl.binding))

    def replay(self, record: Record) -> None:
        """Take a record as it is; neither its place nor its hash is looked at."""
        self.records.append(record)
        if isinstance(record, ConfigRecord):
            before = config_digest(record.name, self.configs.pop(record.name, None))
            if record.value is not None:
                self.configs[record.name] = record.value
            self.digest = (self.digest + config_digest(record.name, record.value) - before) % MODULUS
            return
        key = record.acl.binding.natural_key
        there = self.acls.pop(key, None)
        self.digest -= 0 if there is None else acl_digest(there)
        if isinstance(record, AccessControlEntryRecord):
            self.acls[key] = record.acl
            self.digest += acl_digest(record.acl)
        self.digest %= MODULUS

    def draft(self, mutation: Mutation, now: datetime) -> tuple[Outcome | ApiException, list[Record]]:
        """What the mutation answers, and its records, still without transaction and hash."""
        if isinstance(mutation, CreateAcls):
            return self._create(mutation, now)
        if isinstance(mutation, DeleteAcls):
            return self._delete(mutation)
        if isinstance(mutation, ExpireAcls):
            return self._expire(mutation, now)
        changed = [(name, value) for name, value in mutation.changes if self.configs.get(name) != value]
        frame = (BIRTH, mutation.actor, b"", mutation.comment)
        return AlterConfigsOutcome(), [ConfigRecord(0, 0, name, value, *frame) for name, value in changed]

    def _create(self, mutation: CreateAcls, now: datetime) -> tuple[Outcome | ApiException, list[Record]]:
        there = dict(self.acls)
        results: list[CreatedAcl | ApiException] = []
        written: list[StandardAcl] = []
        for new in mutation.acls:
            refusal = new.expiry_refusal(now)
            if refusal is not None:
                results.append(refusal)
                continue
            key = new.binding.natural_key
            known = there.get(key)
            acl = there[key] = new.over(known or StandardAcl(uuid4(), new.binding), now)
            results.append(CreatedAcl(acl.id, created=known is None))
            if acl is not known:
                written.append(acl)
        if len(written) > MAX_RECORDS_PER_USER_OP:
            return PolicyViolationException("Unable to perform excessively large batch operation."), []
        frame = (BIRTH, mutation.actor, b"", mutation.comment)
        return CreateAclsOutcome(results), [AccessControlEntryRecord(0, 0, acl, *frame) for acl in written]

    def _delete(self, mutation: DeleteAcls) -> tuple[Outcome | ApiException, list[Record]]:
        acls = sorted(self.acls.values(), key=lambda acl: sort_key(acl.binding))
        matches = [[acl for acl in acls if each.matches(acl.binding)] for each in mutation.filters]
        if sum(map(len, matches)) > MAX_RECORDS_PER_USER_OP:
            refusal = "Cannot remove more than 10000 acls in a single delete operation."
            return InvalidRequestException(refusal), []
        size = sum(len("".join(acl.binding.words).encode()) for some in matches for acl in some)
        if size > MAX_TRANSACTION_BYTES:
            return size_refusal(size, "ask for fewer"), []
        gone = {acl.id: acl for some in matches for acl in some}
        frame = (BIRTH, mutation.actor, b"", mutation.comment)
        return DeleteAclsOutcome(matches), [RemoveAccessControlEntryRecord(0, 0, acl, *frame) for acl in gone.values()]

    def _expire(self, mutation: ExpireAcls, now: datetime) -> tuple[Outcome, list[Record]]:
        ended = [acl for acl in self.listed() if acl.expires_at is not None and acl.expires_at <= now]
        gone = sorted(ended, key=lambda acl: (acl.expires_at, acl.id))[: mutation.at_most]
        frame = (BIRTH, mutation.actor, b"", mutation.comment)
        return ExpireAclsOutcome(len(gone)), [RemoveAccessControlEntryRecord(0, 0, acl, *frame) for acl in gone]


def _fitting(
    mutation: Mutation, outcome: Outcome | ApiException, records: list[Record], room: int
) -> tuple[Outcome | ApiException, list[Record]] | None:
    """What the mutation comes to in a transaction that holds so many more bytes; None if it belongs in the next one."""
    if isinstance(mutation, ExpireAcls):
        records = records[: bisect_right(list(accumulate(map(record_bytes, records))), room)] or records[:1]
    size = sum(map(record_bytes, records))
    if size > MAX_TRANSACTION_BYTES:
        return size_refusal(size, "ask for fewer"), []
    return (outcome, records) if size <= room else None


def slice_of(acls: Sequence[StandardAcl]) -> AclSlice:
    """A slice of a snapshot that holds these."""
    terms = {acl.id.bytes: acl.terms for acl in acls if acl.terms != NO_TERMS}
    return AclSlice([acl.row for acl in acls], terms, digest_of(acls, {}))


@dataclass(frozen=True, slots=True)
class _Snapshot:
    store: "FakeStore"
    head: FeedHead
    configs: Mapping[str, str]
    acls: Sequence[StandardAcl]

    async def slices(self) -> AsyncIterator[AclSlice]:
        size = self.store.rows_per_slice
        for number, start in enumerate(range(0, len(self.acls), size)):
            await self.store.reach("slice")
            if self.store.fail_after_slices == number:
                raise StoreUnavailableException("the connection broke within the snapshot")
            if self.store.poisoned_snapshot:
                raise PoisonedRecordException(-1, "a row of the snapshot can't be read")
            yield slice_of(self.acls[start : start + size])


class FakeStore:
    """`AclStore`, `BulkStore`, and the first replica's `ChangeFeed`; `another_feed` gives other replicas theirs."""

    def __init__(self, cluster_id: str = "fake-cluster") -> None:
        self.cluster_id = cluster_id
        self.epochs = Epochs.only(uuid4())
        self.tables = Tables()
        self.log_start_offset = 1
        self.rows_per_slice = 500
        self.groups: list[list[Mutation]] = []
        """Every group that was to be written, refused ones too."""
        self.tries = 0
        """How often a write was begun, also when no group came of it."""
        self.batches: list[dict[bytes, BulkAcl]] = []
        """The same of a bulk load."""
        self.closed: list[str] = []
        # Faults. Those that are not switches stay until they are set back.
        self.unreachable = False
        self.fail_after_slices: int | None = None
        self.poisoned_snapshot = False
        self.digest_unknown = False
        self.poisoned_offset: int | None = None
        """A record that can't be read: looks that come to it raise `poison`."""
        self.poison: type[PoisonedRecordException] = PoisonedRecordException
        self.notify_lost = False
        self.commit_unknown: Literal["kept", "lost"] | None = None
        self.group_fault: Callable[[Mutation], Exception | None] = lambda _: None
        """What a group fails with because of this mutation."""
        self.poll_fault: Exception | None = None
        self.clock_ahead = timedelta(0)
        self.says_no_time = False
        self.question_takes_s = self.answer_takes_s = 0.0
        """How long a poll is on its way to the store, and its answer back."""
        self.wrong_hash: bytes | None = None
        """What every record's hash is said to be, against the head's and the snapshot's word."""
        self._gates: dict[str, asyncio.Event] = {}
        self._feeds: list[FakeFeed] = []
        self.feed = self.another_feed()

    def another_feed(self) -> "FakeFeed":
        feed = FakeFeed(self)
        self._feeds.append(feed)
        return feed

    # faults

    def hang(self, step: Step) -> None:
        """From now on this step does not end, until `release`."""
        self._gates.setdefault(step, asyncio.Event())

    @property
    def hanging(self) -> set[str]:
        return set(self._gates)

    def release(self, step: Step) -> None:
        self._gates.pop(step).set()

    async def reach(self, step: Step) -> None:
        """What every step begins with: a wait, a hang if one is set, a fault if the store is unreachable."""
        await asyncio.sleep(0)
        gate = self._gates.get(step)
        if gate is not None:
            await gate.wait()
        if self.unreachable and step != "close":
            raise StoreUnavailableException("PostgreSQL can't be reached; retry")

    def disconnect(self) -> None:
        """Every listening connection is lost: waits return, and hints that were on their way are gone."""
        for feed in self._feeds:
            feed.news.set()

    def restore(self, offset: int, *, new_epoch: bool = True) -> None:
        """A backup, or a standby that was behind, takes over: what came after this offset is gone."""
        kept, self.tables, later = self.tables.records[:offset], Tables(), self.epoch
        self.epochs = self.epochs.upto(offset)
        for record in kept:
            self.tables.replay(record)
        if new_epoch:
            self.begin_epoch(later)

    @property
    def epoch(self) -> UUID:
        return self.epochs.last

    @epoch.setter
    def epoch(self, epoch: UUID) -> None:
        """Another store's, which knows of no earlier one."""
        self.epochs = Epochs.only(epoch)

    def begin_epoch(self, *known: UUID, first_offset: int | None = None) -> None:
        """Tokens are of another epoch from now on, later than these too."""
        first_offset = self.tables.last_offset if first_offset is None else first_offset
        self.epochs = self.epochs.begun(next_epoch(BIRTH, (self.epoch, *known), uuid4()), first_offset)

    def prove(self, known: KnownHistory) -> None:
        """What a writer does first, under the head's lock."""
        position = known.position
        if position is not None:
            self._begin_epoch_on(position, self._continuity(position))

    def begin_epoch_if_lost(self, lost: FeedPosition) -> None:
        found = self._continuity(lost)
        if found is not Continuity.UNPROVED:
            self._begin_epoch_on(lost, found)

    def _begin_epoch_on(self, known: FeedPosition, found: Continuity) -> None:
        if found is Continuity.PROVED:
            return
        self.begin_epoch(
            known.epoch, first_offset=None if found is Continuity.LOST else self.epochs.rows[-1].first_offset
        )

    @property
    def position(self) -> FeedPosition:
        """The head, as a process knows it that has seen it."""
        return FeedPosition(self.epoch, self.tables.last_offset, self.tables.hash)

    def _continuity(self, known: FeedPosition) -> Continuity:
        return continuity(known, self.epochs, self.tables.last_offset, self.hash_at(known.offset))

    def trim(self, log_start_offset: int) -> None:
        """Records before this offset are no longer in the feed."""
        self.log_start_offset = log_start_offset

    def append(self, records: Sequence[Record]) -> None:
        """One transaction with these records as they are, whole or not, chained or not."""
        for record in records:
            self.tables.replay(record)
        self._notify()

    def chained(self, drafts: Sequence[Record]) -> list[Record]:
        """The drafts as the next transaction of the feed."""
        tables, tx_last, previous = self.tables, self.tables.last_offset + len(drafts), self.tables.hash
        records = []
        for offset, draft in enumerate(drafts, tables.last_offset + 1):
            at = BIRTH + timedelta(microseconds=tx_last)
            record = replace(draft, offset=offset, tx_last=tx_last, recorded_at=at)
            previous = record_hash(previous, record)
            records.append(replace(record, hash=previous))
        return records

    # AclStore

    async def write(self, mutations: Iterable[Mutation], known: KnownHistory) -> GroupOutcome:
        self.tries += 1
        await self.reach("begin")
        group = list(mutations)
        self.groups.append(group)
        await self.reach("write")
        self.prove(known)
        outcome = self.commit(group)
        known.proved(self.position)
        return outcome

    def commit(self, mutations: Sequence[Mutation]) -> GroupOutcome:
        """The same in one step, for tests that write behind everyone's back."""
        for mutation in mutations:
            fault = self.group_fault(mutation)
            if fault is not None:
                raise fault
        within = self.tables.copy()
        drafts: list[Record] = []
        outcomes: list[Outcome | ApiException] = []
        room = MAX_TRANSACTION_BYTES
        for mutation in mutations:
            guard = mutation.guard
            refusal = (
                None if guard is None else guard_refusal(guard, Token(self.epoch, within.last_offset), self.epochs)
            )
            if refusal is not None:
                outcomes.append(refusal)
                continue
            fitting = _fitting(mutation, *within.draft(mutation, self.now()), room)
            if fitting is None:
                break
            outcome, some = fitting
            room -= sum(map(record_bytes, some))
            for draft in some:
                within.replay(draft)
            drafts += some
            if guard is not None and not isinstance(outcome, ApiException | ExpireAclsOutcome):
                outcome = replace(outcome, token=Token(self.epoch, within.last_offset))
            outcomes.append(outcome if isinstance(outcome, ApiException) else replace(outcome, records=len(some)))
        if self.commit_unknown != "lost":
            self.append(self.chained(drafts))
        if self.commit_unknown is not None:
            raise RequestTimedOutException("the connection broke before COMMIT was answered")
        return GroupOutcome(outcomes, self.epoch, self.tables.last_offset)

    async def close(self) -> None:
        await self.reach("close")
        self.closed.append("store")

    # BulkStore

    async def add(
        self, acls: Mapping[bytes, BulkAcl], actor: str, known: KnownHistory, comment: str | None = None
    ) -> BatchOutcome:
        self.batches.append(dict(acls))
        await self.reach("write")
        self.prove(known)
        kept = {key: self.tables.acls[key] for key in acls if key in self.tables.acls}
        came = {record.acl.id: record.offset for record in self.tables.records if not isinstance(record, ConfigRecord)}
        frame = (BIRTH, actor, b"", comment)
        new = [AccessControlEntryRecord(0, 0, each.stored, *frame) for key, each in acls.items() if key not in kept]
        creates = CreateAcls([acls[key].acl for key in kept], actor, None, comment)
        again, changed = self.tables.draft(creates, self.now())
        for each in again.results if isinstance(again, CreateAclsOutcome) else ():
            if isinstance(each, ApiException):
                raise each
        size = max(sum(map(record_bytes, new)), sum(map(record_bytes, changed)))
        if size > MAX_TRANSACTION_BYTES:
            raise size_refusal(size, "ask for fewer")
        before = self.tables.last_offset
        if self.commit_unknown != "lost" and new:
            self.append(self.chained(new))
        last_created = self.tables.last_offset
        if self.commit_unknown != "lost" and changed:
            self.append(self.chained(changed))
        if self.commit_unknown is not None:
            raise RequestTimedOutException("the connection broke before COMMIT was answered")
        own = [came[acl.id] for key, acl in kept.items() if acl.id == acls[key].id]
        found = [came[acl.id] for key, acl in kept.items() if acl.id != acls[key].id]
        last_offset = self.tables.last_offset
        known.proved(self.position)
        return BatchOutcome([*own, *range(before + 1, last_created + 1)], found, len(changed), self.epochs, last_offset)

    # ChangeFeed, for whoever needs only one

    def snapshot(self) -> AbstractAsyncContextManager[_Snapshot]:
        return self.feed.snapshot()

    @property
    def chain(self) -> Sequence[str]:
        return self.feed.chain

    def rewind(self, applied_offset: int) -> None:
        self.feed.rewind(applied_offset)

    def resume(self, position: FeedPosition, epochs: Epochs | None, age_s: float) -> bool:
        return self.feed.resume(position, epochs, age_s)

    async def poll(self, applied_offset: int, limit: int) -> FeedPoll:
        return await self.feed.poll(applied_offset, limit)

    async def history(self, offset: int, limit: int) -> FeedPoll:
        return await self.feed.history(offset, limit)

    async def wait(self, timeout_s: float) -> None:
        await self.feed.wait(timeout_s)

    def now(self) -> datetime:
        """The store's clock: at its birth when the loop's is at 0."""
        try:
            passed = asyncio.get_running_loop().time()
        except RuntimeError:
            passed = 0.0
        return BIRTH + timedelta(seconds=passed) + self.clock_ahead

    @property
    def holds_ended(self) -> bool:
        return any(acl.expires_at is not None and acl.expires_at <= self.now() for acl in self.tables.acls.values())

    @property
    def head(self) -> FeedHead:
        tables = self.tables
        digest = None if self.digest_unknown else tables.digest
        position = self.epoch, tables.last_offset, tables.hash
        return FeedHead(self.cluster_id, *position, self.log_start_offset, digest, self.epochs)

    def hash_at(self, offset: int) -> bytes | None:
        if self.wrong_hash is not None:
            return self.wrong_hash
        if offset == self.tables.last_offset:
            return self.tables.hash
        if offset == 0:
            return GENESIS_HASH
        kept = self.log_start_offset <= offset <= self.tables.last_offset
        return self.tables.records[offset - 1].hash if kept else None

    def _notify(self) -> None:
        if not self.notify_lost:
            self.disconnect()


class FakeFeed:
    """One replica's `ChangeFeed`; `store` may be swapped for another database."""

    def __init__(self, store: FakeStore) -> None:
        self.store = store
        self.news = asyncio.Event()
        self.chain: Sequence[str] = ()
        self.polls: list[tuple[int, int]] = []
        self.resumed: list[FeedPosition] = []
        self.rewound: list[int] = []
        self.is_resumed_at_once = False
        """What `resume` returns: as another service's feed, or as the store's own."""
        self.asked_by: list[Sequence[str]] = []
        """Who asked for a position, each time."""

    def rewind(self, applied_offset: int) -> None:
        self.rewound.append(applied_offset)

    def resume(self, position: FeedPosition, epochs: Epochs | None, age_s: float) -> bool:  # noqa: ARG002 - for other feeds
        self.resumed.append(position)
        return self.is_resumed_at_once

    @asynccontextmanager
    async def snapshot(self) -> AsyncIterator[_Snapshot]:
        store = self.store
        await store.reach("snapshot")
        yield _Snapshot(store, store.head, dict(store.tables.configs), store.tables.listed())

    async def poll(self, applied_offset: int, limit: int) -> FeedPoll:
        self.polls.append((applied_offset, limit))
        store = self.store
        if store.question_takes_s:
            await asyncio.sleep(store.question_takes_s)
        await store.reach("poll")
        if store.poll_fault is not None:
            raise store.poll_fault
        hash_at = store.hash_at(applied_offset)
        records = [] if hash_at is None else self._behind(applied_offset, limit)
        for record in records:
            if record.offset == store.poisoned_offset:
                raise store.poison(record.offset, "the record can't be read")
        poll = FeedPoll(store.head, hash_at, records, None if store.says_no_time else store.now(), store.holds_ended)
        if store.answer_takes_s:
            await asyncio.sleep(store.answer_takes_s)
        return poll

    async def history(self, offset: int, limit: int) -> FeedPoll:
        await self.store.reach("history")
        is_kept = offset + 1 >= self.store.log_start_offset
        return FeedPoll(self.store.head, self.store.hash_at(offset), self._behind(offset, limit) if is_kept else [])

    async def begin_epoch_if_lost(self, lost: FeedPosition) -> None:
        await self.store.reach("write")
        self.store.begin_epoch_if_lost(lost)

    async def standing_of(self, position: Token, asked_by: Sequence[str] = ()) -> Standing:
        await self.store.reach("poll")
        self.asked_by.append(asked_by)
        store = self.store
        standing = store.epochs.judge(position, store.tables.last_offset, store.now())
        if standing is Standing.AHEAD:
            store.begin_epoch(position.epoch)
            return Standing.LOST
        return standing

    async def wait(self, timeout_s: float) -> None:
        await self.store.reach("wait")
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self.news.wait()
        self.news.clear()

    async def close(self) -> None:
        await self.store.reach("close")
        self.store.closed.append("feed")

    def _behind(self, offset: int, limit: int) -> list[Record]:
        """Whole transactions: as many as fit the limit, or one."""
        every = self.store.tables.records[offset:]
        if not every:
            return []
        upto = max(offset + limit, every[0].tx_last)
        return [record for record in every if record.offset <= upto and record.tx_last <= upto]
