"""Which stored ACLs the filters of a deleteAcls call mean, asked in SQL.

INVARIANT: the answer is that of `AclBindingFilter.matches`; a test compares the two on random sets.
Filters of one shape (the same fields given) go as arrays into one statement.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from functools import cache

from app.core.kafka.bindings import StandardAcl
from app.core.kafka.codes import AclOperation, AclPermissionType, PatternType, ResourceType
from app.core.kafka.filters import AclBindingFilter
from app.store.engine import Connection
from app.store.rows import BINDING_COLUMNS, TERMS_COLUMNS, acl_of, in_slices

_FILTERS = """FROM unnest($1::int[], $2::smallint[], $3::text[], $4::smallint[], $5::text[], $6::text[], $7::smallint[],
        $8::smallint[])
        AS f(n, resource_type, resource_name, pattern_type, principal, host, operation, permission_type)"""
_ALL_ACLS = "JOIN acl AS a ON"
# A name is covered by each of its prefixes; as the index knows names by their first 200 characters only, at most 201
# look-ups find them all. OFFSET 0 holds the planner to look-ups, as it expects many more prefixes than names have.
_COVERING_ACLS = """CROSS JOIN LATERAL (
        SELECT '*' UNION SELECT left(f.resource_name, length)
        FROM generate_series(0, least(200, char_length(f.resource_name))) AS length
    ) AS prefix(head)
    JOIN LATERAL (
        SELECT * FROM acl
        WHERE acl.resource_type = f.resource_type AND left(acl.resource_name, 200) = prefix.head
        OFFSET 0
    ) AS a ON"""
_SORTED = """LIMIT $9
) AS found
ORDER BY n, resource_type, resource_name, pattern_type, principal, host, operation, permission_type"""

# 200 is HEAD_LENGTH of the tables: the planner takes an index only for the very expression that it was made with.
_CONDITIONS = {
    "resource_type": "a.resource_type = f.resource_type",
    "resource_name": "left(a.resource_name, 200) = left(f.resource_name, 200) AND a.resource_name = f.resource_name",
    "covering": """CASE a.pattern_type WHEN 4 THEN starts_with(f.resource_name, a.resource_name)
        ELSE a.resource_name IN (f.resource_name, '*') END""",
    "pattern_type": "a.pattern_type = f.pattern_type",
    "principal": "left(a.principal, 200) = left(f.principal, 200) AND a.principal = f.principal",
    "host": "a.host = f.host",
    "operation": "a.operation = f.operation",
    "permission_type": "a.permission_type = f.permission_type",
}

_ENDED = "SELECT * FROM acl WHERE expires_at <= $1 ORDER BY expires_at, id LIMIT $2"

_INDEXED = frozenset({"resource_name", "covering", "principal"})  # conditions that an index serves


def _shape(wanted: AclBindingFilter) -> tuple[str, ...]:
    given = {
        "resource_type": wanted.resource_type is not ResourceType.ANY,
        "resource_name": wanted.resource_name is not None and wanted.pattern_type is not PatternType.MATCH,
        "covering": wanted.resource_name is not None and wanted.pattern_type is PatternType.MATCH,
        "pattern_type": wanted.pattern_type not in (PatternType.ANY, PatternType.MATCH),
        "principal": wanted.principal is not None,
        "host": wanted.host is not None,
        "operation": wanted.operation is not AclOperation.ANY,
        "permission_type": wanted.permission_type is not AclPermissionType.ANY,
    }
    return tuple(name for name, is_given in given.items() if is_given)


@cache
def _statement(shape: tuple[str, ...]) -> str:
    conditions = " AND ".join(_CONDITIONS[name] for name in shape) or "true"
    columns = ", ".join(f"a.{name}" for name in (*BINDING_COLUMNS, *TERMS_COLUMNS))
    found = f"SELECT * FROM (\n    SELECT f.n, a.id, {columns}"  # noqa: S608 - names of columns, declared in rows
    return "\n".join([found, _FILTERS, _COVERING_ACLS if "covering" in shape else _ALL_ACLS, conditions, _SORTED])


def _columns(numbered: Sequence[tuple[int, AclBindingFilter]]) -> list[list[int] | list[str | None]]:
    filters = [wanted for _, wanted in numbered]
    return [
        [n for n, _ in numbered],
        [int(each.resource_type) for each in filters],
        [each.resource_name for each in filters],
        [int(each.pattern_type) for each in filters],
        [each.principal for each in filters],
        [each.host for each in filters],
        [int(each.operation) for each in filters],
        [int(each.permission_type) for each in filters],
    ]


async def select_matches(
    connection: Connection,
    filters: Sequence[AclBindingFilter],
    at_most: int,
) -> list[list[StandardAcl]] | None:
    """One list of ACLs a filter, each sorted; None if there are more than `at_most` in all lists together."""
    by_shape: defaultdict[tuple[str, ...], list[tuple[int, AclBindingFilter]]] = defaultdict(list)
    async for some in in_slices(list(enumerate(filters))):
        for position, wanted in some:
            for typed in _with_types(wanted):
                by_shape[_shape(typed)].append((position, typed))
    matches: list[list[StandardAcl]] = [[] for _ in filters]
    left = at_most
    for shape, numbered in by_shape.items():
        if not _INDEXED.intersection(shape):
            # Only a scan of all ACLs finds them, and the session has scans off (`app.store.engine`).
            await connection.execute("SET LOCAL enable_seqscan = on")
        async for some in in_slices(numbered):
            rows = await connection.fetch(_statement(shape), *_columns(some), left + 1)
            left -= len(rows)
            if left < 0:
                return None
            async for found in in_slices(rows):
                for row in found:
                    matches[row["n"]].append(acl_of(row))
    return matches


async def select_ended(connection: Connection, now: datetime, at_most: int) -> list[StandardAcl]:
    """Those that have ended by this time, which ended first, first."""
    return [acl_of(row) for row in await connection.fetch(_ENDED, now, at_most)]


def _with_types(wanted: AclBindingFilter) -> list[AclBindingFilter]:
    # The index on names starts with the resource type, so a name without a type is looked up once a type.
    if wanted.resource_type is not ResourceType.ANY or wanted.resource_name is None:
        return [wanted]
    return [replace(wanted, resource_type=each) for each in ResourceType if each > ResourceType.ANY]
