"""Runtime's `AclStore`: the mutations of a group, one after the other, in one transaction under the head's lock."""

import asyncio
import logging
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
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
)
from app.core.records import (
    AccessControlEntryRecord,
    ConfigRecord,
    Record,
    RemoveAccessControlEntryRecord,
)
from app.core.token import Token
from app.formats.database_url import DatabaseUrl
from app.store.engine import StoreTimeouts
from app.store.faults import OutageLog
from app.store.rows import SLICE, PriorValues, in_slices
from app.store.writing.journal import FeedTransaction, FeedWriter
from app.store.writing.selection import select_ended, select_matches

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

_Frame = tuple[int, int, StandardAcl, datetime, str, bytes, str | None]
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
    """Changes rows of `acl` and `config`, and drafts the records that the journal is to append.

    INVARIANT: a refused mutation leaves neither; whether it must be refused is known before its first change.
    """

    def __init__(self, transaction: FeedTransaction) -> None:
        self.drafts: list[Record] = []
        self.prior: dict[int, PriorValues] = {}
        """By the draft's offset."""
        self.digest_change = 0
        self._transaction = transaction
        self._head = transaction.head
        self._worked = 0
        self._ids_to_come = _random_ids()

    async def apply(self, mutations: Iterable[Mutation]) -> list[Outcome | ApiException]:
        outcomes: list[Outcome | ApiException] = []
        creates: list[CreateAcls] = []
        for mutation in mutations:
            if isinstance(mutation, CreateAcls):
                creates.append(mutation)
                continue
            outcomes.extend(await self._create(creates))
            creates = []
            if isinstance(mutation, DeleteAcls):
                outcomes.append(await self._delete(mutation))
            elif isinstance(mutation, ExpireAcls):
                outcomes.append(await self._expire(mutation))
            else:
                outcomes.append(await self._alter(mutation))
        outcomes.extend(await self._create(creates))
        return outcomes

    async def _create(self, run: Sequence[CreateAcls]) -> list[Outcome | ApiException]:
        if not run:
            return []
        keys = [await self._keys(mutation) for mutation in run]
        there = await self._there(run, keys)
        outcomes: list[Outcome | ApiException] = []
        changed: dict[UUID, StandardAcl] = {}
        for mutation, its_keys in zip(run, keys, strict=True):
            planned: list[_Planned] = []
            results = await self._refusal(mutation) or await self._plan(mutation, its_keys, there, planned)
            if isinstance(results, ApiException):
                outcomes.append(results)
            else:
                there.update((key, acl) for key, acl, _ in planned)
                changed.update((acl.id, acl) for _, acl, before in planned if before is not None)
                await self._draft_creates(planned, mutation)
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

    async def _keys(self, mutation: CreateAcls) -> list[bytes]:
        keys: list[bytes] = []
        async for some in in_slices(mutation.acls):
            keys.extend(acl.binding.natural_key for acl in some)
        await self._breathe(len(keys))
        return keys

    async def _there(self, run: Sequence[CreateAcls], keys: Sequence[Sequence[bytes]]) -> dict[bytes, StandardAcl]:
        wanted: dict[bytes, AclBinding] = {}
        for mutation, its_keys in zip(run, keys, strict=True):
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

    async def _draft_creates(self, planned: Sequence[_Planned], mutation: CreateAcls) -> None:
        async for some in in_slices(planned):
            for key, acl, before in some:
                offset = self._next_offset()
                self.drafts.append(AccessControlEntryRecord(*self._frame(offset, acl, mutation)))
                self.digest_change += acl_digest(acl)
                if before is None:
                    self._transaction.add(acl, key, self.drafts[-1])
                else:
                    self.digest_change -= acl_digest(before)
                    self.prior[offset] = (True, *before.terms, None)

    async def _delete(self, mutation: DeleteAcls) -> DeleteAclsOutcome | ApiException:
        refusal = await self._refusal(mutation)
        if refusal is not None:
            return refusal
        matches = await select_matches(self._transaction, mutation.filters, MAX_RECORDS_PER_USER_OP)
        if matches is None:
            return InvalidRequestException(
                f"Cannot remove more than {MAX_RECORDS_PER_USER_OP} acls in a single delete operation.",
            )
        acls = {acl.id: acl for found in matches for acl in found}
        await self._remove(acls, mutation)
        return DeleteAclsOutcome(matches, self._token_for(mutation), len(acls))

    async def _expire(self, mutation: ExpireAcls) -> ExpireAclsOutcome:
        # INVARIANT: ended ACLs are selected under the head's lock, so only one of several writers removes each.
        ended = await select_ended(self._transaction, self._head.recorded_at, mutation.at_most)
        await self._remove({acl.id: acl for acl in ended}, mutation)
        return ExpireAclsOutcome(len(ended))

    async def _remove(self, acls: Mapping[UUID, StandardAcl], mutation: DeleteAcls | ExpireAcls) -> None:
        if acls:
            await self._transaction.execute(_DELETE, list(acls))
        async for some in in_slices(list(acls.values())):
            for acl in some:
                frame = self._frame(self._next_offset(), acl, mutation)
                self.prior[frame[0]] = (True, *acl.terms, None)
                self.drafts.append(RemoveAccessControlEntryRecord(*frame))
                self.digest_change -= acl_digest(acl)

    async def _alter(self, mutation: AlterConfigs) -> AlterConfigsOutcome | ApiException:
        refusal = await self._refusal(mutation)
        if refusal is not None:
            return refusal
        drafted = len(self.drafts)
        # As in Kafka's controller, a property that already has the value makes no record.
        for name, value in mutation.changes:
            before = await self._transaction.fetchval(_CONFIG_VALUE, name)
            if before == value:
                continue
            offset = self._next_offset()
            if value is None:
                await self._transaction.execute(_UNSET_CONFIG, name)
            else:
                await self._transaction.execute(_SET_CONFIG, name, value, offset)
            self.prior[offset] = (before is not None, None, None, before)
            frame = (self._head.recorded_at, mutation.actor, b"", mutation.comment)
            self.drafts.append(ConfigRecord(offset, 0, name, value, *frame))
            self.digest_change += config_digest(name, value) - config_digest(name, before)
        return AlterConfigsOutcome((), self._token_for(mutation), len(self.drafts) - drafted)

    async def _refusal(self, mutation: CreateAcls | DeleteAcls | AlterConfigs) -> ApiException | None:
        if mutation.guard is None:
            return None
        current = self._token()
        return guard_refusal(mutation.guard, current, await self._transaction.epochs(mutation.guard.epoch))

    def _frame(self, offset: int, acl: StandardAcl, mutation: CreateAcls | DeleteAcls | ExpireAcls) -> _Frame:
        return offset, 0, acl, self._head.recorded_at, mutation.actor, b"", mutation.comment

    def _token_for(self, mutation: CreateAcls | DeleteAcls | AlterConfigs) -> Token | None:
        return None if mutation.guard is None else self._token()

    def _token(self) -> Token:
        head = self._transaction.head_to_write() if self.drafts else self._transaction.head
        return Token(head.epoch, self._next_offset() - 1)

    def _next_offset(self) -> int:
        return self._head.last_offset + len(self.drafts) + 1


def _statements(rows: Sequence[T]) -> Iterator[Sequence[T]]:
    return (rows[start : start + _ROWS_PER_STATEMENT] for start in range(0, len(rows), _ROWS_PER_STATEMENT))


def _random_ids() -> Iterator[UUID]:
    """As uuid4 makes them, but for one system call each time."""
    while True:
        noise = os.urandom(16 * _IDS_AT_ONCE)
        for at in range(0, len(noise), 16):
            yield UUID(bytes=noise[at : at + 16], version=4)
