"""Trimming the change feed from its oldest end."""

from datetime import timedelta

from app.store.engine import Connection
from app.store.faults import NotMigratedError

MOST_AT_ONCE = 10_000
"""Records that one call removes at most, so that writers never stand in line for long; `trim_acl_record` insists."""

_LOCK_HEAD = "SELECT last_offset, log_start_offset FROM acl_head FOR UPDATE"

_FIRST_YOUNG = """SELECT "offset" FROM acl_record
WHERE "offset" >= $1 AND recorded_at >= clock_timestamp() - $2::interval ORDER BY "offset" LIMIT 1"""

# The last end of a transaction within the stretch; of one that is longer than the stretch, its own end.
_TRANSACTION_END = """SELECT coalesce(
    (SELECT max("offset") FROM acl_record
        WHERE "offset" >= $1 AND "offset" <= least($2::bigint, $3::bigint) AND "offset" = tx_last),
    (SELECT tx_last FROM acl_record WHERE "offset" = $1 AND tx_last <= $2)
)"""

_END_BEFORE_LAST = """SELECT "offset" FROM acl_record
WHERE "offset" < $1 AND "offset" = tx_last ORDER BY "offset" DESC LIMIT 1"""

# Whoever copies an older epoch has lost its thread anyway, and begins anew.
_EXPORTED = """SELECT min(exporter.last_offset) FROM exporter JOIN acl_head USING (epoch)
WHERE told_at >= clock_timestamp() - $1::interval"""

# With the rights of the function's owner: the role that serves may delete no record. It checks anew what is asked.
_TRIM = "SELECT trim_acl_record($1)"


async def trim(
    connection: Connection, keep_age: timedelta | None, keep_count: int | None, exporters_known_for: timedelta
) -> int:
    """See `PostgresChangeFeed.trim`. Runs inside the caller's transaction."""
    head = await connection.fetchrow(_LOCK_HEAD)
    if head is None:
        raise NotMigratedError
    start, last = head["log_start_offset"], head["last_offset"]
    old = start - 1
    if keep_age is not None:
        young = await connection.fetchval(_FIRST_YOUNG, start, keep_age)
        old = last if young is None else young - 1
    if keep_count is not None:
        old = max(old, last - keep_count)
    exported = await connection.fetchval(_EXPORTED, exporters_known_for)
    if exported is not None:
        old = min(old, exported)
    # A follower proves itself by the record at its own offset: without the last transaction every replica would reload.
    old = min(old, await connection.fetchval(_END_BEFORE_LAST, last) or 0)
    end = await connection.fetchval(_TRANSACTION_END, start, old, start + MOST_AT_ONCE - 1)
    return 0 if end is None else int(await connection.fetchval(_TRIM, end))
