"""Which stored ACLs the filters of a deleteAcls call mean, asked in SQL."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
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

_TEXT_BYTES = "octet_length(resource_name) + octet_length(principal) + octet_length(host)"

_ORDER = "n, resource_type, resource_name, pattern_type, principal, host, operation, permission_type"

_ENDED = """SELECT * FROM (
    SELECT *, sum(octet_length(resource_name) + octet_length(principal) + octet_length(host))
        OVER (ORDER BY expires_at, id ROWS UNBOUNDED PRECEDING) AS bytes
    FROM (SELECT * FROM acl WHERE expires_at <= $1 ORDER BY expires_at, id LIMIT $2) AS ended
) AS first_ended
WHERE bytes <= $3 ORDER BY expires_at, id"""


class TooManyMatches:
    """There are more matches than may be deleted at once."""


@dataclass(frozen=True, slots=True)
class TooLongMatches:
    """The matches are longer than one transaction may be: their texts alone have at least so many bytes."""

    bytes: int


@cache
def _statement(shape: Shape) -> str:
    columns = ", ".join(f"a.{name}" for name in (*BINDING_COLUMNS, *TERMS_COLUMNS))
    acls = "JOIN acl AS a ON"
    if "covering" in shape:
        # OFFSET 0 holds the planner to look-ups, as it expects many more prefixes than names have.
        acls = f"{HEADS}\n    JOIN LATERAL (SELECT * FROM acl AS a WHERE {UNDER_A_HEAD} OFFSET 0) AS a ON"  # noqa: S608 - names of columns, declared in rows
    found = f"SELECT f.n, a.id, {columns} FROM {FILTERS}\n{acls} {condition_of(shape)} LIMIT $9"  # noqa: S608 - as above
    # If they are too long only one row comes, with the size of all, because their texts could fill the memory.
    sized = f"SELECT *, sum({_TEXT_BYTES}) OVER () AS bytes, row_number() OVER () AS number FROM ({found}) AS found"  # noqa: S608 - as above
    return f"SELECT * FROM ({sized}) AS sized WHERE bytes <= $10 OR number = 1 ORDER BY {_ORDER}"  # noqa: S608 - as above


async def select_matches(
    transaction: FeedTransaction, filters: Sequence[AclBindingFilter], at_most: int, most_bytes: int
) -> list[list[StandardAcl]] | TooManyMatches | TooLongMatches:
    """One list of ACLs a filter, each sorted; both bounds are for all lists together, as the reply holds them."""
    matches: list[list[StandardAcl]] = [[] for _ in filters]
    left, length = at_most, 0
    for shape, numbered in (await _by_shape(filters)).items():
        if not is_indexed(shape):
            # Only a scan of all ACLs finds them, and the session has scans off (`app.store.engine`).
            await transaction.execute("SET LOCAL enable_seqscan = on")
        async for some in in_slices(numbered):
            rows = await transaction.fetch(_statement(shape), *columns_of(some), left + 1, most_bytes - length)
            length += rows[0]["bytes"] if rows else 0
            if length > most_bytes:
                return TooLongMatches(length)
            left -= len(rows)
            if left < 0:
                return TooManyMatches()
            async for found in in_slices(rows):
                for row in found:
                    matches[row["n"]].append(acl_of(row))
    return matches


async def _by_shape(filters: Sequence[AclBindingFilter]) -> dict[Shape, list[tuple[int, AclBindingFilter]]]:
    by_shape: defaultdict[Shape, list[tuple[int, AclBindingFilter]]] = defaultdict(list)
    async for some in in_slices(list(enumerate(filters))):
        for position, wanted in some:
            for typed in with_types(wanted):
                by_shape[shape_of(typed)].append((position, typed))
    return by_shape


async def select_ended(transaction: FeedTransaction, now: datetime, at_most: int, most_bytes: int) -> list[StandardAcl]:
    """The ACLs that have ended by this time, the first to end first, as long as their texts stay within the bytes."""
    return [acl_of(row) for row in await transaction.fetch(_ENDED, now, at_most, most_bytes)]
