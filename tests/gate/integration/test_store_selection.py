"""Filters in SQL mean what they mean in core, and find their way by index."""

from collections.abc import Sequence

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.core.continuity import KnownHistory
from app.core.index.table import sort_key
from app.core.kafka.bindings import AclBinding
from app.core.kafka.codes import PatternType, ResourceType
from app.core.kafka.filters import AclBindingFilter
from app.store.engine import Connection
from app.store.filters import columns_of, shape_of, with_types
from app.store.reading import snapshot
from app.store.writing import selection
from app.store.writing.acl_store import PostgresAclStore
from app.store.writing.head import UNKNOWN_SERVER, lock_head
from app.store.writing.journal import FeedTransaction
from app.store.writing.selection import select_matches
from tests.strategies import binding_lists, filters
from tests.updates import create, delete, matches, topic

LONG = "é" * 250
"""Longer than what the index knows of a name."""


async def insert(database: Connection, bindings: Sequence[AclBinding]) -> None:
    rows = [
        (
            *(b.resource_type, b.pattern_type, b.operation, b.permission_type),
            *(b.resource_name, b.principal, b.host, b.natural_key),
        )
        for b in bindings
    ]
    await database.executemany(
        """INSERT INTO acl (id, resource_type, pattern_type, operation, permission_type, resource_name, principal, host,
            natural_key, created_offset, created_at, created_by)
        VALUES (gen_random_uuid(), $1, $2, $3, $4, $5, $6, $7, $8, 1, now(), 'User:admin')""",
        rows,
    )


async def check(database: Connection, bindings: Sequence[AclBinding], wanted: Sequence[AclBindingFilter]) -> None:
    """SQL against `AclBindingFilter.matches`, each list in order."""
    transaction = database.transaction()
    await transaction.start()
    await insert(database, bindings)
    head = await lock_head(database, KnownHistory(), UNKNOWN_SERVER)
    found = await select_matches(FeedTransaction(database, head), wanted, 10_000, 1 << 30)
    await transaction.rollback()

    assert isinstance(found, list)
    assert [[acl.binding for acl in some] for some in found] == [
        sorted(filter(each.matches, bindings), key=sort_key) for each in wanted
    ]


@settings(suppress_health_check=list(HealthCheck))
@given(bindings=binding_lists, wanted=st.lists(filters, min_size=1, max_size=12))
async def test_sql_and_core_agree_on_random_sets(
    database: Connection, bindings: list[AclBinding], wanted: list[AclBindingFilter]
) -> None:
    await check(database, bindings, wanted)


async def test_sql_and_core_agree_on_names_longer_than_the_index_knows(database: Connection) -> None:
    cuts = (0, 1, 199, 200, 201, 249, 250)
    prefixes = [topic(LONG[:cut], pattern_type=PatternType.PREFIXED) for cut in cuts]
    literals = [topic(LONG[:cut]) for cut in cuts]
    others = [
        topic(LONG + "x", pattern_type=PatternType.PREFIXED),
        topic(LONG[:200] + "x", pattern_type=PatternType.PREFIXED),
        topic("é" * 16_383, pattern_type=PatternType.PREFIXED),
        topic("*"),
        topic("*", pattern_type=PatternType.PREFIXED),
        topic("**", pattern_type=PatternType.PREFIXED),
        topic("a", "User:" + LONG),
        topic("a", "User:" + LONG + "x"),
    ]
    names = [LONG, LONG + "x", LONG[:200], LONG[:201], LONG[:200] + "xy", "é" * 16_383, "*", "**x", ""]
    wanted = [
        AclBindingFilter(resource_type=resource_type, resource_name=name, pattern_type=pattern_type)
        for name in names
        for pattern_type in (PatternType.MATCH, PatternType.ANY, PatternType.LITERAL, PatternType.PREFIXED)
        for resource_type in (ResourceType.ANY, ResourceType.TOPIC, ResourceType.GROUP)
    ]
    wanted += [AclBindingFilter(principal="User:" + LONG), AclBindingFilter(principal="User:" + LONG[:200])]

    await check(database, [*prefixes, *literals, *others], wanted)


async def test_a_call_of_very_many_filters_is_answered(store: PostgresAclStore) -> None:
    names = [f"t{n}" for n in range(3_000)]
    await store.write([create(*map(topic, names))], KnownHistory())

    outcome = await store.write([delete(*[AclBindingFilter(resource_name=name) for name in names])], KnownHistory())

    assert [len(found) for found in matches(outcome.outcomes[0])] == [1] * 3_000


@pytest.mark.parametrize(
    ("wanted", "index"),
    [
        (AclBindingFilter(principal="User:p77"), "ix_acl_principal"),
        (AclBindingFilter(ResourceType.TOPIC, "t77", PatternType.LITERAL), "ix_acl_resource"),
        (AclBindingFilter(ResourceType.TOPIC, "t77-and-more", PatternType.MATCH), "ix_acl_resource"),
        (AclBindingFilter(resource_name="t77", pattern_type=PatternType.MATCH), "ix_acl_resource"),
    ],
)
async def test_filters_fit_an_index(database: Connection, wanted: AclBindingFilter, index: str) -> None:
    await database.execute("SET enable_seqscan = off")
    (typed, *_) = with_types(wanted)
    statement, columns = selection._statement(shape_of(typed)), columns_of([(0, typed)])

    plan = await database.fetch("EXPLAIN " + statement, *columns, 10_001, 1 << 24)

    assert index in "\n".join(row[0] for row in plan)


async def test_a_snapshot_need_not_sort_everything_at_once(database: Connection) -> None:
    await database.execute("SET enable_seqscan = off")

    plan = "\n".join(row[0] for row in await database.fetch("EXPLAIN " + snapshot._ACLS))

    assert "Incremental Sort" in plan
    assert "ix_acl_resource" in plan
