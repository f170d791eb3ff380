"""The ACLs and properties of a moment: the present ones, with everything recorded since undone.

An ACL's first record after the moment says how it was then: absent if the record created it, with the prior terms if
it changed them, and as deleted if it deleted it. An ACL without such a record is as it is now.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cache
from uuid import UUID

import asyncpg
from asyncpg.cursor import Cursor

from app.core.index.table import SortKey
from app.core.kafka.bindings import StandardAcl, rfc3339
from app.core.kafka.configs import CONFIG_NAMES
from app.core.kafka.errors import InvalidRequestException, OffsetOutOfRangeException
from app.core.kafka.filters import AclBindingFilter
from app.core.past import KnownSince, Moment, PastScope, PastState, StoreHead
from app.core.token import Token
from app.store.engine import Connection
from app.store.filters import (
    FILTERS,
    HEADS,
    UNDER_A_HEAD,
    Shape,
    between,
    columns_of,
    condition_of,
    shape_of,
    with_types,
)
from app.store.reading.changes import known_since, offset_at, read_head
from app.store.rows import BINDING_COLUMNS, TERMS_COLUMNS, acl_of, in_slices

MOST = 20_000
"""ACLs, or records behind the moment, that one question may touch."""
_RECENT = MOST
"""Records behind the moment, up to which a list reads all of them for each of its pages."""
_FEW = 2_000
_ROWS_AT_ONCE = 500  # what is read in one step of the event loop, of a millisecond or two
_HEAD_LENGTH = 200

_TIME_OF = 'SELECT recorded_at FROM acl_record WHERE "offset" = $1'

_CONFIGS = """SELECT known.name, before."offset" AS set_at, before.config_value AS set_to, after."offset" AS changed_at,
    after.was_there, after.prior_value, config.value AS present
FROM unnest($1::text[]) AS known(name)
LEFT JOIN LATERAL (
    SELECT "offset", config_value FROM acl_record WHERE config_name = known.name AND "offset" <= $2
    ORDER BY "offset" DESC LIMIT 1
) AS before ON true
LEFT JOIN LATERAL (
    SELECT "offset", was_there, prior_value FROM acl_record WHERE config_name = known.name AND "offset" > $2
    ORDER BY "offset" ASC LIMIT 1
) AS after ON true
LEFT JOIN config ON config.name = known.name"""

_RECORD = """acl_id, "offset", kind, resource_type, pattern_type, operation, permission_type, resource_name, principal,
    host, expires_at, owner, was_there, prior_expires_at, prior_owner"""

# Where a stretch ends: after this many rows of either table. If the moment is recent, the records of before, which may
# be thousands for each ACL, do not count.
_ACL_BOUND = """SELECT resource_type, left(resource_name, 200) AS head FROM acl
WHERE (resource_type, left(resource_name, 200)) >= ($1, $2) ORDER BY resource_type, left(resource_name, 200)
OFFSET $3 LIMIT 1"""
_RECORD_BOUND = """SELECT resource_type, left(resource_name, 200) AS head FROM acl_record
WHERE (resource_type, left(resource_name, 200)) >= ($1, $2)
ORDER BY resource_type, left(resource_name, 200), "offset" OFFSET $3 LIMIT 1"""
_ACL_BEHIND = """SELECT resource_type, left(resource_name, 200) AS head FROM acl
WHERE (resource_type, left(resource_name, 200)) > ($1, $2) ORDER BY resource_type, left(resource_name, 200) LIMIT 1"""
_RECORD_BEHIND = """SELECT resource_type, left(resource_name, 200) AS head FROM acl_record
WHERE (resource_type, left(resource_name, 200)) > ($1, $2)
ORDER BY resource_type, left(resource_name, 200), "offset" LIMIT 1"""
_STRETCH_ACLS = """SELECT * FROM acl
WHERE (resource_type, left(resource_name, 200)) >= ($1, $2)
    AND (resource_type, left(resource_name, 200)) < ($3, $4) AND created_offset <= $5 LIMIT $6"""
_STRETCH_RECORDS = """SELECT DISTINCT ON (acl_id) *, count(*) OVER () AS looked FROM (
    SELECT * FROM acl_record
    WHERE (resource_type, left(resource_name, 200)) >= ($1, $2)
        AND (resource_type, left(resource_name, 200)) < ($3, $4) AND "offset" > $5 LIMIT $6
) AS since ORDER BY acl_id, "offset" """
# Found by their offsets, and not by their names.
_RECENT_RECORDS = """SELECT DISTINCT ON (acl_id) *, count(*) OVER () AS looked FROM (
    SELECT * FROM acl_record WHERE "offset" > $5 ORDER BY "offset" LIMIT $6
) AS since
WHERE (resource_type, left(resource_name, 200)) >= ($1, $2)
    AND (resource_type, left(resource_name, 200)) < ($3, $4)
ORDER BY acl_id, "offset" """

_Key = tuple[int, str]
_END: _Key = (32_767, "")
_NEVER = (1 << 63) - 1


async def read_state(connection: Connection, at: Moment, scope: PastScope) -> PastState:
    """In one snapshot of the database; raises as runtime's `PastStore` says."""
    head = await read_head(connection)
    offset, now = await _resolved(connection, head, at)
    then = _Then(connection, offset)
    await then.take(scope.filters, MOST)
    found = dict(then.acls)
    try:
        await then.take(scope.if_few, _FEW)
        found = then.acls
    except InvalidRequestException:
        # There are too many of them.
        pass
    overrides = await _configs(connection, head, offset)
    return PastState(head.cluster_id, head.epochs.token_of(offset), now, list(found.values()), overrides)


async def read_stretch(connection: Connection, at: Moment, after: SortKey | None, rows: int) -> PastState:
    head = await read_head(connection)
    offset, now = await _resolved(connection, head, at)
    start = (0, "") if after is None else (after[0], after[1][:_HEAD_LENGTH])
    is_recent = head.last_offset - offset <= _RECENT
    end = await _end_of_stretch(connection, start, rows, is_recent=is_recent)
    then = _Then(connection, offset)
    await then.take_stretch(start, end, is_recent=is_recent)
    overrides = await _configs(connection, head, offset)
    upto = None if end == _END else (*end, 0, "", "", 0, 0)
    return PastState(head.cluster_id, head.epochs.token_of(offset), now, list(then.acls.values()), overrides, upto)


async def _end_of_stretch(connection: Connection, start: _Key, rows: int, *, is_recent: bool) -> _Key:
    """The key after about this many rows, or after the first name if it has more. INVARIANT: it is after the start."""
    found = [await connection.fetchrow(_ACL_BOUND, *start, rows)]
    if not is_recent:
        found.append(await connection.fetchrow(_RECORD_BOUND, *start, rows))
    end = _first(found)
    if end > start:
        return end
    found = [await connection.fetchrow(_ACL_BEHIND, *start)]
    if not is_recent:
        found.append(await connection.fetchrow(_RECORD_BEHIND, *start))
    return _first(found)


def _first(rows: Iterable[asyncpg.Record | None]) -> _Key:
    return min(((row["resource_type"], row["head"]) for row in rows if row is not None), default=_END)


async def _resolved(connection: Connection, head: StoreHead, at: Moment) -> tuple[int, float]:
    """The offset and the time of a moment."""
    oldest = await known_since(connection, head)
    if isinstance(at, Token):
        head.check(at, "at")
        if at.offset < oldest.token.offset:
            raise _forgotten(oldest)
        return at.offset, 0.0 if at.offset == 0 else (await connection.fetchval(_TIME_OF, at.offset)).timestamp()
    if at > head.store_time:
        raise InvalidRequestException(f"`at` is in the future: it is {rfc3339(head.store_time)} by the store's clock")
    offset = await offset_at(connection, head, at)
    if offset < oldest.token.offset:
        raise _forgotten(oldest)
    return offset, at.timestamp()


def _forgotten(oldest: KnownSince) -> OffsetOutOfRangeException:
    time = "" if oldest.recorded_at is None else f", of {oldest.recorded_at.isoformat().replace('+00:00', 'Z')}"
    return OffsetOutOfRangeException(
        f"the state at that time is no longer kept; the oldest state that is known is `{oldest.token}`{time}",
        str(oldest.token),
    )


async def _configs(connection: Connection, head: StoreHead, offset: int) -> dict[str, str]:
    """Raises OffsetOutOfRangeException if a writer of an older version has not recorded what was before."""
    found: dict[str, str] = {}
    for row in await connection.fetch(_CONFIGS, list(CONFIG_NAMES), offset):
        if row["set_at"] is not None:
            value = row["set_to"]
        elif row["changed_at"] is None:
            value = row["present"]
        elif head.log_start_offset == 1:
            value = None
        elif row["was_there"] is None:
            raise _forgotten(
                KnownSince(
                    head.epochs.token_of(row["changed_at"]),
                    await connection.fetchval(_TIME_OF, row["changed_at"]),
                )
            )
        else:
            value = row["prior_value"]
        if value is not None:
            found[row["name"]] = value
    return found


class _Then:
    """Gathers the ACLs as of an offset."""

    def __init__(self, connection: Connection, offset: int) -> None:
        self.acls: dict[UUID, StandardAcl] = {}
        self._connection = connection
        self._offset = offset

    async def take(self, filters: Iterable[AclBindingFilter], most: int) -> None:
        by_shape: defaultdict[Shape, list[AclBindingFilter]] = defaultdict(list)
        for wanted in dict.fromkeys(filters):
            for typed in with_types(wanted):
                by_shape[shape_of(typed)].append(typed)
        for shape, some in by_shape.items():
            arguments = columns_of(list(enumerate(some)))
            present = await self._connection.cursor(_present(shape), *arguments, self._offset, most + 1)
            rows = await _all(present)
            since = await self._connection.cursor(_since(shape), *arguments, self._offset, _NEVER, most + 1)
            await self._merge(rows, await _all(since), most)

    async def take_stretch(self, start: _Key, end: _Key, *, is_recent: bool) -> None:
        arguments = (*start, *end, self._offset, MOST + 1)
        present = await self._connection.cursor(_STRETCH_ACLS, *arguments)
        rows = await _all(present)
        since = await self._connection.cursor(_RECENT_RECORDS if is_recent else _STRETCH_RECORDS, *arguments)
        await self._merge(rows, await _all(since), MOST)

    async def _merge(self, present: Sequence[asyncpg.Record], since: Sequence[asyncpg.Record], most: int) -> None:
        if len(present) > most or (since and since[0]["looked"] > most):
            raise InvalidRequestException(
                f"`at`: the question touches more than {most:,} ACLs, or changes since that time; ask about less"
            )
        changed = dict[UUID, StandardAcl | None]()
        async for some in in_slices(since):
            changed.update((row["acl_id"], _before(row)) for row in some)
        async for some in in_slices(present):
            for row in some:
                if row["id"] not in changed:
                    self.acls[row["id"]] = acl_of(row)
        self.acls.update((acl.id, acl) for acl in changed.values() if acl is not None)


async def _all(cursor: Cursor) -> list[asyncpg.Record]:
    rows: list[asyncpg.Record] = []
    while some := await cursor.fetch(_ROWS_AT_ONCE):
        rows += some
    return rows


def _before(first: asyncpg.Record) -> StandardAcl | None:
    """The ACL as it was before its first record after the moment."""
    acl = acl_of(first, "acl_id")
    if first["kind"] == "RemoveAccessControlEntryRecord":
        return acl
    # A writer of an older version leaves this null, and makes only new ACLs.
    return (
        replace(acl, expires_at=first["prior_expires_at"], owner=first["prior_owner"]) if first["was_there"] else None
    )


@cache
def _present(shape: Shape) -> str:
    heads = f"{HEADS} JOIN LATERAL (SELECT * FROM acl AS a WHERE {UNDER_A_HEAD} OFFSET 0) AS a ON"  # noqa: S608 - below
    columns = ", ".join(f"a.{name}" for name in ("id", *BINDING_COLUMNS, *TERMS_COLUMNS))
    acls = heads if "covering" in shape else "JOIN acl AS a ON"
    condition = condition_of(shape)
    return f"SELECT {columns} FROM {FILTERS} {acls} {condition} AND a.created_offset <= $9 LIMIT $10"  # noqa: S608 - parts of statements, declared in filters


@cache
def _since(shape: Shape) -> str:
    heads, condition = "", condition_of(shape)
    if "covering" in shape:
        heads, condition = HEADS, f"{UNDER_A_HEAD} AND {condition}"
    # One more than is allowed for each filter and prefix: if any row is left out, `looked` is too many.
    return f"""SELECT DISTINCT ON (acl_id) {_RECORD}, looked FROM (
    SELECT a.*, count(*) OVER () AS looked FROM {FILTERS} {heads}
    CROSS JOIN LATERAL (
        SELECT * FROM acl_record AS a WHERE {condition} AND {between(shape, "$9", "$10")}
        ORDER BY a."offset" ASC LIMIT $11
    ) AS a
) AS since ORDER BY acl_id, "offset" ASC"""  # noqa: S608 - parts of statements, declared in filters
