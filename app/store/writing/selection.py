"""Which stored ACLs the filters of a deleteAcls call mean, asked in SQL."""

from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime
from functools import cache

from app.core.kafka.bindings import StandardAcl
from app.core.kafka.filters import AclBindingFilter
from app.store.filters import (
    FILTERS,
    HEADS,
    UNDER_A_HEAD,
    Shape,
    columns_of,
    condition_of,
    is_indexed,
    shape_of,
    with_types,
)
from app.store.rows import BINDING_COLUMNS, TERMS_COLUMNS, acl_of, in_slices
from app.store.writing.journal import FeedTransaction

_SORTED = """LIMIT $9
) AS found
ORDER BY n, resource_type, resource_name, pattern_type, principal, host, operation, permission_type"""

_ENDED = "SELECT * FROM acl WHERE expires_at <= $1 ORDER BY expires_at, id LIMIT $2"


@cache
def _statement(shape: Shape) -> str:
    columns = ", ".join(f"a.{name}" for name in (*BINDING_COLUMNS, *TERMS_COLUMNS))
    found = f"SELECT * FROM (\n    SELECT f.n, a.id, {columns}"  # noqa: S608 - names of columns, declared in rows
    acls = "JOIN acl AS a ON"
    if "covering" in shape:
        # OFFSET 0 holds the planner to look-ups, as it expects many more prefixes than names have.
        acls = f"{HEADS}\n    JOIN LATERAL (SELECT * FROM acl AS a WHERE {UNDER_A_HEAD} OFFSET 0) AS a ON"  # noqa: S608 - as above
    return "\n".join([found, f"FROM {FILTERS}", acls, condition_of(shape), _SORTED])


async def select_matches(
    transaction: FeedTransaction,
    filters: Sequence[AclBindingFilter],
    at_most: int,
) -> list[list[StandardAcl]] | None:
    """One list of ACLs a filter, each sorted; None if there are more than `at_most` in all lists together."""
    by_shape: defaultdict[Shape, list[tuple[int, AclBindingFilter]]] = defaultdict(list)
    async for some in in_slices(list(enumerate(filters))):
        for position, wanted in some:
            for typed in with_types(wanted):
                by_shape[shape_of(typed)].append((position, typed))
    matches: list[list[StandardAcl]] = [[] for _ in filters]
    left = at_most
    for shape, numbered in by_shape.items():
        if not is_indexed(shape):
            # Only a scan of all ACLs finds them, and the session has scans off (`app.store.engine`).
            await transaction.execute("SET LOCAL enable_seqscan = on")
        async for some in in_slices(numbered):
            rows = await transaction.fetch(_statement(shape), *columns_of(some), left + 1)
            left -= len(rows)
            if left < 0:
                return None
            async for found in in_slices(rows):
                for row in found:
                    matches[row["n"]].append(acl_of(row))
    return matches


async def select_ended(transaction: FeedTransaction, now: datetime, at_most: int) -> list[StandardAcl]:
    """The ACLs that have ended by this time, the first to end first."""
    return [acl_of(row) for row in await transaction.fetch(_ENDED, now, at_most)]
