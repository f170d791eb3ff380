"""What changed: records found by filter, actor, comment and time, newest first, a bounded part at a time."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from functools import cache

import asyncpg

from app.core.kafka.bindings import AclTerms
from app.core.kafka.errors import OffsetOutOfRangeException
from app.core.kafka.filters import AclBindingFilter
from app.core.past import Change, ChangesPage, ChangesQuestion, KnownSince, Moment, PriorState, StoreHead
from app.core.token import Token
from app.store.engine import Connection
from app.store.epochs import read_epochs
from app.store.faults import NotMigratedError
from app.store.filters import (
    FILTERS,
    HEADS,
    UNDER_A_HEAD,
    Shape,
    between,
    columns_of,
    condition_of,
    is_indexed,
    shape_of,
    with_types,
)
from app.store.rows import in_slices, record_of

_STRETCH = 20_000
"""How many records are scanned at once if no index selects them."""
_STRETCHES = 5
_MICROSECOND = timedelta(microseconds=1)

_HEAD = """SELECT cluster_id, last_offset, log_start_offset, clock_timestamp() AS store_time,
    NOT pg_is_in_recovery() AS is_of_primary
FROM acl_head"""

# Times rise with offsets. If the clock was set back, this finds one of the moments that had this time.
_OFFSET_AT = """WITH RECURSIVE search(low, high) AS (
    SELECT $1::bigint, $2::bigint
    UNION ALL
    SELECT CASE WHEN r.recorded_at <= $3 THEN r."offset" ELSE low END,
        CASE WHEN r.recorded_at <= $3 THEN high ELSE r."offset" - 1 END
    FROM search JOIN acl_record AS r ON r."offset" = (low + high + 1) / 2
    WHERE low < high
)
SELECT low FROM search WHERE low = high"""

_RECORDED_AT = 'SELECT recorded_at FROM acl_record WHERE "offset" = $1'

_SAID = "($12::text IS NULL OR a.actor = $12) AND ($13::text IS NULL OR position($13 IN a.comment) > 0)"


async def read_head(connection: Connection) -> StoreHead:
    """In two statements: the connection is in a transaction that is one snapshot of the database."""
    row = await connection.fetchrow(_HEAD)
    if row is None:
        raise NotMigratedError
    return StoreHead(
        row["cluster_id"],
        await read_epochs(connection),
        row["last_offset"],
        row["log_start_offset"],
        row["store_time"],
        row["is_of_primary"],
    )


async def offset_at(connection: Connection, head: StoreHead, time: datetime) -> int:
    """The last offset at this time; the one before the log's start if all records there are later."""
    found = await connection.fetchval(_OFFSET_AT, head.log_start_offset - 1, head.last_offset, time)
    if found is None:
        raise OffsetOutOfRangeException("the change log has a gap, so no time can be found in it")
    return int(found)


async def known_since(connection: Connection, head: StoreHead) -> KnownSince:
    """The empty store while the whole log is kept, else the state after the log's first record."""
    if head.log_start_offset == 1:
        return KnownSince(head.epochs.token_of(0), None)
    start = head.log_start_offset
    return KnownSince(head.epochs.token_of(start), await connection.fetchval(_RECORDED_AT, start))


async def read_changes(connection: Connection, question: ChangesQuestion) -> ChangesPage:
    """In one snapshot of the database. Raises what `StoreHead.check` raises."""
    head = await read_head(connection)
    since = await _last_before(connection, head, question.since)
    until = head.last_offset if question.until is None else await _last_at(connection, head, question.until)
    high = until + 1 if question.before is None else min(until + 1, question.before)
    low = max(since, head.log_start_offset - 1)
    rows, before = await _rows(connection, question, low, high)
    changes: list[Change] = []
    async for some in in_slices(rows):
        changes.extend(change_of(row) for row in some)
    return ChangesPage(changes, before, await known_since(connection, head), head.token, head.epochs)


def change_of(row: asyncpg.Record) -> Change:
    record = record_of(row)
    prior = PriorState(AclTerms(row["prior_expires_at"], row["prior_owner"]), row["prior_value"])
    # A writer of an older version leaves this null: its ACLs are always new ones.
    return Change(record, prior if row["was_there"] else None)


async def _last_before(connection: Connection, head: StoreHead, moment: Moment | None) -> int:
    if moment is None:
        return 0
    if isinstance(moment, Token):
        head.check(moment, "since")
        return moment.offset
    return await offset_at(connection, head, moment - _MICROSECOND)


async def _last_at(connection: Connection, head: StoreHead, moment: Moment) -> int:
    if isinstance(moment, Token):
        head.check(moment, "until")
        return moment.offset
    return await offset_at(connection, head, moment)


async def _rows(
    connection: Connection, question: ChangesQuestion, low: int, high: int
) -> tuple[Sequence[asyncpg.Record], int | None]:
    """The rows between the two offsets, and below which one to go on; None: there are no more."""
    limit, wanted = question.limit, with_types(question.acl_filter)
    shape = shape_of(wanted[0])
    with_configs = question.with_configs and question.acl_filter == AclBindingFilter()
    arguments = columns_of(list(enumerate(wanted)))
    more = (limit + 1, question.actor, question.comment)
    found: list[asyncpg.Record] = []
    for _ in range(1 if is_indexed(shape) else _STRETCHES):
        lowest = low if is_indexed(shape) else max(low, high - 1 - _STRETCH)
        found += await connection.fetch(_statement(shape, with_configs=with_configs), *arguments, lowest, high, *more)
        if len(found) > limit:
            return found[:limit], int(found[limit - 1]["offset"])
        high = lowest + 1
        if lowest == low:
            return found, None
    return found, high


@cache
def _statement(shape: Shape, *, with_configs: bool) -> str:
    condition = condition_of(shape)
    if not with_configs:
        condition = f"a.acl_id IS NOT NULL AND {condition}"
    heads = ""
    if "covering" in shape:
        heads, condition = HEADS, f"{UNDER_A_HEAD} AND {condition}"
    # The inner order is the index's, so that no more rows are read than the page has.
    return f"""SELECT * FROM (
    SELECT a.* FROM {FILTERS}
    {heads}
    CROSS JOIN LATERAL (
        SELECT * FROM acl_record AS a WHERE {condition}
            AND {between(shape, "$9", "$10")} AND {_SAID}
        ORDER BY a."offset" DESC LIMIT $11
    ) AS a
) AS found ORDER BY "offset" DESC LIMIT $11"""  # noqa: S608 - parts of statements, declared in filters
