"""ACL filters as SQL over the columns that `acl` and `acl_record` have in common.

INVARIANT: a condition says what `AclBindingFilter.matches` does; a test compares the two on random sets.
Filters of one shape (the same fields given) go as arrays into one statement, where `f` is the filter and `a` the row.
"""

from collections.abc import Sequence
from dataclasses import replace

from app.core.kafka.codes import AclOperation, AclPermissionType, PatternType, ResourceType
from app.core.kafka.filters import AclBindingFilter

FILTERS = """unnest($1::int[], $2::smallint[], $3::text[], $4::smallint[], $5::text[], $6::text[], $7::smallint[],
        $8::smallint[])
        AS f(n, resource_type, resource_name, pattern_type, principal, host, operation, permission_type)"""

# A name is covered by each of its prefixes; as the index holds only the first 200 characters of names, at most 201
# look-ups find them all.
HEADS = """CROSS JOIN LATERAL (
        SELECT '*' UNION SELECT left(f.resource_name, length)
        FROM generate_series(0, least(200, char_length(f.resource_name))) AS length
    ) AS prefix(head)"""
UNDER_A_HEAD = "a.resource_type = f.resource_type AND left(a.resource_name, 200) = prefix.head"

Shape = tuple[str, ...]

# 200 is HEAD_LENGTH of the tables: the planner uses an index only for the exact expression that it was made with.
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

_INDEXED = frozenset({"resource_name", "covering", "principal"})  # conditions that an index serves


def shape_of(wanted: AclBindingFilter) -> Shape:
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


def condition_of(shape: Shape) -> str:
    return " AND ".join(_CONDITIONS[name] for name in shape) or "true"


def is_indexed(shape: Shape) -> bool:
    return not _INDEXED.isdisjoint(shape)


def between(shape: Shape, low: str, high: str) -> str:
    """Records between two offsets, both excluded, in a form that only the shape's index serves: a table that grows fast
    has no statistics yet, and PostgreSQL would then scan all records.
    """
    if "principal" in shape:
        row, fixed = "left(a.principal, 200)", "left(f.principal, 200)"
    elif "resource_name" in shape or "covering" in shape:
        head = "prefix.head" if "covering" in shape else "left(f.resource_name, 200)"
        row, fixed = "a.resource_type, left(a.resource_name, 200)", f"f.resource_type, {head}"
    else:
        return f'a."offset" > {low} AND a."offset" < {high}'
    return f'({row}, a."offset") > ({fixed}, {low}) AND ({row}, a."offset") < ({fixed}, {high})'


def columns_of(numbered: Sequence[tuple[int, AclBindingFilter]]) -> list[list[int] | list[str | None]]:
    """The arguments of FILTERS."""
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


def with_types(wanted: AclBindingFilter) -> list[AclBindingFilter]:
    """The indexes on names start with the resource type, so a name without a type is looked up once a type."""
    if wanted.resource_type is not ResourceType.ANY or wanted.resource_name is None:
        return [wanted]
    return [replace(wanted, resource_type=each) for each in ResourceType if each > ResourceType.ANY]
