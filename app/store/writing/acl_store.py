"""Runtime's `AclStore`: the mutations of a group, one after the other, in one transaction under the head's lock."""

import asyncio
import logging
import os
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import TypeVar
from uuid import UUID

from app.core.continuity import KnownHistory
from app.core.digest import acl_digest, config_digest
from app.core.kafka.bindings import AclBinding, StandardAcl
from app.core.kafka.errors import ApiException, InvalidRequestException, PolicyViolationException
from app.core.mutations import (
    MAX_RECORDS_PER_USER_OP,
    AlterConfigs,
    AlterConfigsOutcome,
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
    MAX_TRANSACTION_BYTES,
    AccessControlEntryRecord,
    ConfigRecord,
    Record,
    RemoveAccessControlEntryRecord,
    record_bytes,
)
from app.core.token import Token
from app.formats.database_url import DatabaseUrl
from app.store.engine import StoreTimeouts
from app.store.faults import OutageLog
from app.store.rows import SLICE, PriorValues, in_slices
from app.store.writing.journal import FeedTransaction, FeedWriter
from app.store.writing.selection import TooLongMatches, TooManyMatches, select_ended, select_matches

_log = logging.getLogger(__name__)

T = TypeVar("T")

_ROWS_PER_STATEMENT = 500
_IDS_AT_ONCE = 64

_THERE = "SELECT natural_key, id, expires_at, owner FROM acl WHERE natural_key = ANY($1::bytea[])"

_CHANGE = """UPDATE acl SET expires_at = r.expires_at, owner = r.owner
FROM unnest($1::uuid[], $2::timestamptz[], $3::text[]) AS r(id, expires_at, owner) WHERE acl.id = r.id"""
_DELETE = "DELETE FROM acl WHERE id = ANY($1::uuid[])"

_SET_CONFIG = """INSERT INTO config (name, value, changed_offset) VALUES ($1, $2, $3)
ON CONFLICT (name) DO UPDATE SET value = excluded.value, changed_offset = excluded.changed_offset"""
_CONFIG_VALUE = "SELECT value FROM config WHERE name = $1"
_UNSET_CONFIG = "DELETE FROM config WHERE name = $1"

_FEWER_ACLS = "create fewer ACLs in one call"
_NARROWER_FILTERS = "delete fewer ACLs in one call, with filters that match fewer"
_FEWER_PROPERTIES = "change fewer properties in one call, or give shorter values"

_AclRecord = type[AccessControlEntryRecord | RemoveAccessControlEntryRecord]
_Planned = tuple[bytes, StandardAcl, StandardAcl | None]  # natural key, the ACL as it is to be, and as it was


class PostgresAclStore:
    def __init__(self, url: DatabaseUrl, timeouts: StoreTimeouts | None = None) -> None:
        self._feed = FeedWriter(url, timeouts or StoreTimeouts(), "writer")
        # A database that can be read may still be full, or read-only.
        self._outages = OutageLog(url, lambda extra: _log.warning("updates_in_trouble", extra=extra))

    async def write(self, mutations: Iterable[Mutation], known: KnownHistory) -> GroupOutcome:
        with self._outages.logged():
            async with self._feed.transaction(known) as transaction:
                group = Group(transaction)
                outcomes = await group.apply(mutations)
                await transaction.append(group.drafts, group.digest_change, group.prior)
        return GroupOutcome(outcomes, transaction.head.epoch, transaction.head.last_offset)

    async def close(self) -> None:
        await self._feed.close()


class Group:
    """Changes rows of `acl` and `config`, and drafts the records that the journal is to append as one transaction.

    INVARIANT: a refused mutation leaves neither, nor does one that does not fit; both is known before its first change.
    """

    def __init__(self, transaction: FeedTransaction) -> None:
        self.drafts: list[Record] = []
        self.prior: dict[int, PriorValues] = {}
        """By the draft's offset."""
        self.digest_change = 0
        self._transaction = transaction
        self._head = transaction.head
        self._bytes = 0
        """The size of the drafts, as canonical records."""
        self._is_full = False
        """Whether a mutation did not fit, so that it and all behind it belong in the next transaction."""
        self._worked = 0
        self._ids_to_come = _random_ids()

    async def apply(self, mutations: Iterable[Mutation]) -> list[Outcome | ApiException]:
        """The outcomes of the first mutations: all, or those before the first one that does not fit any more."""
        outcomes: list[Outcome | ApiException] = []
        run = _Creates()
        for mutation in mutations:
            if isinstance(mutation, CreateAcls):
                await self._add_keys(mutation, run)
                if run.characters < MAX_TRANSACTION_BYTES:
                    continue
            outcomes.extend(await self._create(run))
            run = _Creates()
            outcome = None if self._is_full or isinstance(mutation, CreateAcls) else await self._change(mutation)
            if self._is_full:
                return outcomes
            if outcome is not None:
                outcomes.append(outcome)
        outcomes.extend(await self._create(run))
        return outcomes

    async def _change(self, mutation: DeleteAcls | ExpireAcls | AlterConfigs) -> Outcome | ApiException | None:
        """None if it does not fit."""
        match mutation:
            case DeleteAcls():
                return await self._delete(mutation)
            case ExpireAcls():
                return await self._expire(mutation)
            case AlterConfigs():
                return await self._alter(mutation)

    async def _add_keys(self, mutation: CreateAcls, run: "_Creates") -> None:
        keys: list[bytes] = []
        async for some in in_slices(mutation.acls):
            keys.extend(acl.binding.natural_key for acl in some)
            run.characters += sum(_characters(acl.binding) for acl in some)
        await self._breathe(len(keys))
        run.mutations.append(mutation)
        run.keys.append(keys)

    async def _create(self, run: "_Creates") -> list[Outcome | ApiException]:
        """The outcomes of those that fit."""
        if not run.mutations:
            return []
        there = await self._there(run)
        outcomes: list[Outcome | ApiException] = []
        changed: dict[UUID, StandardAcl] = {}
        for mutation, its_keys in zip(run.mutations, run.keys, strict=True):
            planned: list[_Planned] = []
            results = await self._refusal(mutation) or await self._plan(mutation, its_keys, there, planned)
            if not isinstance(results, ApiException):
                acls = [acl for _, acl, _ in planned]
                drafts = await self._make_drafts(AccessControlEntryRecord, acls, mutation)
                results = await self._reserve(drafts, _FEWER_ACLS) or results
                if self._is_full:
                    break
            if isinstance(results, ApiException):
                outcomes.append(results)
            else:
                there.update((key, acl) for key, acl, _ in planned)
                changed.update((acl.id, acl) for _, acl, before in planned if before is not None)
                await self._write_creates(planned, drafts)
                outcomes.append(CreateAclsOutcome(results, self._token_for(mutation), len(planned)))
            await self._breathe(len(its_keys))
        for some in _statements([(acl.id, *acl.terms) for acl in changed.values()]):
            await self._transaction.execute(_CHANGE, *map(list, zip(*some, strict=True)))
        return outcomes

    async def _breathe(self, items: int) -> None:
        """Gives the event loop a turn after every SLICE items, across all lists."""
        self._worked += items
        if self._worked >= SLICE:
            self._worked = 0
            await asyncio.sleep(0)

    async def _there(self, run: "_Creates") -> dict[bytes, StandardAcl]:
        wanted: dict[bytes, AclBinding] = {}
        for mutation, its_keys in zip(run.mutations, run.keys, strict=True):
            wanted.update((key, acl.binding) for key, acl in zip(its_keys, mutation.acls, strict=True))
        there: dict[bytes, StandardAcl] = {}
        for some in _statements(list(wanted)):
            for row in await self._transaction.fetch(_THERE, some):
                key, acl_id = row["natural_key"], UUID(bytes=row["id"].bytes)
                there[key] = StandardAcl(acl_id, wanted[key], row["expires_at"], row["owner"])
        return there

    async def _plan(
        self,
        mutation: CreateAcls,
        keys: Sequence[bytes],
        there: Mapping[bytes, StandardAcl],
        planned: list[_Planned],
    ) -> list[CreatedAcl | ApiException] | ApiException:
        """The entries of the outcome. Fills `planned` with what this createAcls makes or changes, in order."""
        results: list[CreatedAcl | ApiException] = []
        now: dict[bytes, StandardAcl] = {}
        async for some in in_slices(list(zip(mutation.acls, keys, strict=True))):
            for new, key in some:
                refusal = new.expiry_refusal(self._head.recorded_at)
                if refusal is not None:
                    results.append(refusal)
                    continue
                known = now.get(key) or there.get(key)
                acl = new.over(known or StandardAcl(next(self._ids_to_come), new.binding), self._head.recorded_at)
                results.append(CreatedAcl(acl.id, created=known is None))
                if acl is known:
                    continue
                if len(planned) == MAX_RECORDS_PER_USER_OP:
                    return PolicyViolationException("Unable to perform excessively large batch operation.")
                planned.append((key, acl, known))
                now[key] = acl
        return results

    async def _write_creates(self, planned: Sequence[_Planned], drafts: Sequence[Record]) -> None:
        async for some in in_slices(list(zip(planned, drafts, strict=True))):
            for (key, acl, before), draft in some:
                self.drafts.append(draft)
                self.digest_change += acl_digest(acl)
                if before is None:
                    self._transaction.add(acl, key, draft)
                else:
                    self.digest_change -= acl_digest(before)
                    self.prior[draft.offset] = (True, *before.terms, None)

    async def _delete(self, mutation: DeleteAcls) -> Outcome | ApiException | None:
        refusal = await self._refusal(mutation)
        if refusal is not None:
            return refusal
        matches = await select_matches(
            self._transaction, mutation.filters, MAX_RECORDS_PER_USER_OP, MAX_TRANSACTION_BYTES
        )
        if isinstance(matches, TooManyMatches):
            return InvalidRequestException(
                f"Cannot remove more than {MAX_RECORDS_PER_USER_OP} acls in a single delete operation.",
            )
        if isinstance(matches, TooLongMatches):
            return size_refusal(matches.bytes, _NARROWER_FILTERS)
        acls = list({acl.id: acl for found in matches for acl in found}.values())
        drafts = await self._make_drafts(RemoveAccessControlEntryRecord, acls, mutation)
        refusal = await self._reserve(drafts, _NARROWER_FILTERS)
        if refusal is not None or self._is_full:
            return refusal
        await self._remove(acls, drafts)
        return DeleteAclsOutcome(matches, self._token_for(mutation), len(acls))

    async def _expire(self, mutation: ExpireAcls) -> Outcome | ApiException | None:
        # INVARIANT: ended ACLs are selected under the head's lock, so only one of several writers removes each.
        ended = await select_ended(self._transaction, self._head.recorded_at, mutation.at_most, MAX_TRANSACTION_BYTES)
        drafts = await self._make_drafts(RemoveAccessControlEntryRecord, ended, mutation)
        sizes = await _measure(drafts)
        # As many as this transaction still holds; the next step removes the others.
        fitting = bisect_right(list(accumulate(sizes)), MAX_TRANSACTION_BYTES - self._bytes)
        if sizes and not fitting and self._bytes:
            self._is_full = True
            return None
        self._bytes += sum(sizes[:fitting])
        await self._remove(ended[:fitting], drafts[:fitting])
        return ExpireAclsOutcome(fitting)

    async def _remove(self, acls: Sequence[StandardAcl], drafts: Sequence[Record]) -> None:
        if acls:
            await self._transaction.execute(_DELETE, [acl.id for acl in acls])
        async for some in in_slices(list(zip(acls, drafts, strict=True))):
            for acl, draft in some:
                self.drafts.append(draft)
                self.prior[draft.offset] = (True, *acl.terms, None)
                self.digest_change -= acl_digest(acl)

    async def _alter(self, mutation: AlterConfigs) -> Outcome | ApiException | None:
        refusal = await self._refusal(mutation)
        if refusal is not None:
            return refusal
        drafts: list[ConfigRecord] = []
        values: dict[str, str | None] = {}
        before: list[str | None] = []
        frame = (self._head.recorded_at, mutation.actor, b"", mutation.comment)
        # As in Kafka's controller, a property that already has the value makes no record.
        for name, value in mutation.changes:
            present = values[name] if name in values else await self._transaction.fetchval(_CONFIG_VALUE, name)
            if present == value:
                continue
            values[name] = value
            before.append(present)
            drafts.append(ConfigRecord(self._next_offset() + len(drafts), 0, name, value, *frame))
        refusal = await self._reserve(drafts, _FEWER_PROPERTIES)
        if refusal is not None or self._is_full:
            return refusal
        for draft, present in zip(drafts, before, strict=True):
            await self._write_config(draft, present)
        return AlterConfigsOutcome((), self._token_for(mutation), len(drafts))

    async def _write_config(self, draft: ConfigRecord, before: str | None) -> None:
        if draft.value is None:
            await self._transaction.execute(_UNSET_CONFIG, draft.name)
        else:
            await self._transaction.execute(_SET_CONFIG, draft.name, draft.value, draft.offset)
        self.prior[draft.offset] = (before is not None, None, None, before)
        self.drafts.append(draft)
        self.digest_change += config_digest(draft.name, draft.value) - config_digest(draft.name, before)

    async def _make_drafts(
        self, kind: _AclRecord, acls: Sequence[StandardAcl], mutation: CreateAcls | DeleteAcls | ExpireAcls
    ) -> list[Record]:
        """The records that this mutation would make of these ACLs."""
        drafts: list[Record] = []
        first, frame = self._next_offset(), (self._head.recorded_at, mutation.actor, b"", mutation.comment)
        async for some in in_slices(acls):
            drafts.extend(kind(first + at, 0, acl, *frame) for at, acl in enumerate(some, len(drafts)))
        return drafts

    async def _reserve(self, drafts: Sequence[Record], way_out: str) -> PolicyViolationException | None:
        """Why no transaction holds these, which are one mutation's. Counts them if this one does, else it is full."""
        size = sum(await _measure(drafts))
        if size > MAX_TRANSACTION_BYTES:
            return size_refusal(size, way_out)
        self._is_full = self._bytes + size > MAX_TRANSACTION_BYTES
        self._bytes += 0 if self._is_full else size
        return None

    async def _refusal(self, mutation: CreateAcls | DeleteAcls | AlterConfigs) -> ApiException | None:
        if mutation.guard is None:
            return None
        current = self._token()
        return guard_refusal(mutation.guard, current, await self._transaction.epochs(mutation.guard.epoch))

    def _token_for(self, mutation: CreateAcls | DeleteAcls | AlterConfigs) -> Token | None:
        return None if mutation.guard is None else self._token()

    def _token(self) -> Token:
        head = self._transaction.head_to_write() if self.drafts else self._transaction.head
        return Token(head.epoch, self._next_offset() - 1)

    def _next_offset(self) -> int:
        return self._head.last_offset + len(self.drafts) + 1


@dataclass(slots=True)
class _Creates:
    """createAcls calls that stand together, each with the natural keys of its ACLs."""

    mutations: list[CreateAcls] = field(default_factory=list)
    keys: list[list[bytes]] = field(default_factory=list)
    characters: int = 0
    """Of all texts: what can't fit in one transaction is not looked up."""


async def _measure(drafts: Sequence[Record]) -> list[int]:
    sizes: list[int] = []
    async for some in in_slices(drafts):
        sizes.extend(map(record_bytes, some))
    return sizes


def _characters(binding: AclBinding) -> int:
    return len(binding.resource_name) + len(binding.principal) + len(binding.host)


def _statements(rows: Sequence[T]) -> Iterator[Sequence[T]]:
    return (rows[start : start + _ROWS_PER_STATEMENT] for start in range(0, len(rows), _ROWS_PER_STATEMENT))


def _random_ids() -> Iterator[UUID]:
    """As uuid4 makes them, but for one system call each time."""
    while True:
        noise = os.urandom(16 * _IDS_AT_ONCE)
        for at in range(0, len(noise), 16):
            yield UUID(bytes=noise[at : at + 16], version=4)
