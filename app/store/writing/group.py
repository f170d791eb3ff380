"""The mutations of one group, applied one after the other inside one transaction under the head's lock."""

import asyncio
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from uuid import UUID

from app.core.kafka.bindings import StandardAcl
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
from app.store.engine import Connection
from app.store.rows import ACL_COLUMNS, SLICE, acl_values, in_slices, insert_statement
from app.store.writing.journal import LockedHead
from app.store.writing.selection import select_matches

_ROWS_PER_STATEMENT = 500
_IDS_AT_ONCE = 64

_IDS_OF_KEYS = "SELECT natural_key, id FROM acl WHERE natural_key = ANY($1::bytea[])"

ACL_CONSTANTS = ("created_at",)
_INSERT = insert_statement("acl", ACL_COLUMNS, ACL_CONSTANTS)
_DELETE = "DELETE FROM acl WHERE id = ANY($1::uuid[])"

_SET_CONFIG = """INSERT INTO config (name, value, changed_offset) VALUES ($1, $2, $3)
ON CONFLICT (name) DO UPDATE SET value = excluded.value, changed_offset = excluded.changed_offset"""
_CONFIG_VALUE = "SELECT value FROM config WHERE name = $1"
_UNSET_CONFIG = "DELETE FROM config WHERE name = $1"


class Group:
    """Changes rows of `acl` and `config`, and drafts the records that the journal is to append.

    INVARIANT: a refused mutation leaves neither; whether it must be refused is known before its first change.
    """

    def __init__(self, connection: Connection, head: LockedHead) -> None:
        self.drafts: list[Record] = []
        self._connection = connection
        self._head = head
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
            else:
                outcomes.append(await self._alter(mutation))
        outcomes.extend(await self._create(creates))
        return outcomes

    async def _create(self, run: Sequence[CreateAcls]) -> list[Outcome | ApiException]:
        keys = [await self._keys(mutation) for mutation in run]
        ids = await self._ids({key for some in keys for key in some})
        outcomes: list[Outcome | ApiException] = []
        rows: list[tuple[object, ...]] = []
        for mutation, its_keys in zip(run, keys, strict=True):
            new: dict[bytes, StandardAcl] = {}
            outcome = self._refusal(mutation) or await self._plan(mutation, its_keys, ids, new)
            if isinstance(outcome, CreateAclsOutcome):
                ids.update((key, acl.id) for key, acl in new.items())
                rows.extend(await self._draft_creates(new, mutation.actor))
                if mutation.guard is not None:
                    outcome = replace(outcome, token=self._token())
            outcomes.append(outcome)
            await self._breathe(len(its_keys))
        for start in range(0, len(rows), _ROWS_PER_STATEMENT):
            columns = map(list, zip(*rows[start : start + _ROWS_PER_STATEMENT], strict=True))
            await self._connection.execute(_INSERT, *columns, self._head.recorded_at)
        return outcomes

    async def _breathe(self, items: int) -> None:
        """Gives the event loop a turn after every SLICE items, in whatever lists they come."""
        self._worked += items
        if self._worked >= SLICE:
            self._worked = 0
            await asyncio.sleep(0)

    async def _keys(self, mutation: CreateAcls) -> list[bytes]:
        keys: list[bytes] = []
        async for some in in_slices(mutation.bindings):
            keys.extend(binding.natural_key for binding in some)
        await self._breathe(len(keys))
        return keys

    async def _ids(self, keys: Iterable[bytes]) -> dict[bytes, UUID]:
        wanted = list(keys)
        ids: dict[bytes, UUID] = {}
        for start in range(0, len(wanted), _ROWS_PER_STATEMENT):
            rows = await self._connection.fetch(_IDS_OF_KEYS, wanted[start : start + _ROWS_PER_STATEMENT])
            ids.update((row["natural_key"], UUID(bytes=row["id"].bytes)) for row in rows)
        return ids

    async def _plan(
        self,
        mutation: CreateAcls,
        keys: Sequence[bytes],
        ids: Mapping[bytes, UUID],
        new: dict[bytes, StandardAcl],
    ) -> CreateAclsOutcome | ApiException:
        """Fills `new` with the ACLs that this createAcls makes, in order."""
        results: list[CreatedAcl] = []
        async for some in in_slices(list(zip(mutation.bindings, keys, strict=True))):
            for binding, key in some:
                if key in ids or key in new:
                    results.append(CreatedAcl(ids[key] if key in ids else new[key].id, created=False))
                    continue
                if len(new) == MAX_RECORDS_PER_USER_OP:
                    return PolicyViolationException("Unable to perform excessively large batch operation.")
                new[key] = StandardAcl(next(self._ids_to_come), binding)
                results.append(CreatedAcl(new[key].id, created=True))
        return CreateAclsOutcome(results)

    async def _draft_creates(self, new: Mapping[bytes, StandardAcl], actor: str) -> list[tuple[object, ...]]:
        rows: list[tuple[object, ...]] = []
        async for some in in_slices(list(new.items())):
            for key, acl in some:
                offset = self._next_offset()
                self.drafts.append(AccessControlEntryRecord(offset, 0, acl, self._head.recorded_at, actor, b""))
                rows.append(acl_values(acl, key, offset, actor))
        return rows

    async def _delete(self, mutation: DeleteAcls) -> DeleteAclsOutcome | ApiException:
        refusal = self._refusal(mutation)
        if refusal is not None:
            return refusal
        matches = await select_matches(self._connection, mutation.filters, MAX_RECORDS_PER_USER_OP)
        if matches is None:
            return InvalidRequestException(
                f"Cannot remove more than {MAX_RECORDS_PER_USER_OP} acls in a single delete operation.",
            )
        union = {acl.id: acl for found in matches for acl in found}
        if union:
            await self._connection.execute(_DELETE, list(union))
        async for some in in_slices(list(union.values())):
            for acl in some:
                offset = self._next_offset()
                record = RemoveAccessControlEntryRecord(offset, 0, acl, self._head.recorded_at, mutation.actor, b"")
                self.drafts.append(record)
        return DeleteAclsOutcome(matches, None if mutation.guard is None else self._token())

    async def _alter(self, mutation: AlterConfigs) -> AlterConfigsOutcome:
        # As in Kafka's controller, a property that has the value already makes no record.
        for name, value in mutation.changes:
            if await self._connection.fetchval(_CONFIG_VALUE, name) == value:
                continue
            offset = self._next_offset()
            if value is None:
                await self._connection.execute(_UNSET_CONFIG, name)
            else:
                await self._connection.execute(_SET_CONFIG, name, value, offset)
            self.drafts.append(ConfigRecord(offset, 0, name, value, self._head.recorded_at, mutation.actor, b""))
        return AlterConfigsOutcome()

    def _refusal(self, mutation: CreateAcls | DeleteAcls) -> ApiException | None:
        return None if mutation.guard is None else guard_refusal(mutation.guard, self._token())

    def _token(self) -> Token:
        return Token(self._head.epoch, self._next_offset() - 1)

    def _next_offset(self) -> int:
        return self._head.last_offset + len(self.drafts) + 1


def _random_ids() -> Iterator[UUID]:
    """As uuid4 makes them, but for one system call each time."""
    while True:
        noise = os.urandom(16 * _IDS_AT_ONCE)
        for at in range(0, len(noise), 16):
            yield UUID(bytes=noise[at : at + 16], version=4)
