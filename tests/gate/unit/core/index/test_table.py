from uuid import UUID

import pytest
from hypothesis import given

from app.core.index.table import AclTable, sort_key
from app.core.kafka.bindings import AclBinding, StandardAcl
from tests.images import numbered
from tests.strategies import binding_lists
from tests.updates import topic


@given(binding_lists)
def test_a_row_reads_back_as_its_acl(acls: list[AclBinding]) -> None:
    table = AclTable()
    stored = numbered(acls)
    rows = [table.add(acl.row) for acl in stored]
    assert [table.acl(at) for at in rows] == stored
    assert [table.key(at) for at in rows] == [sort_key(acl.binding) for acl in stored]
    assert [table.find(acl.id.bytes) for acl in stored] == rows
    assert len(table) == len(stored)


def test_rows_of_removed_acls_are_used_again() -> None:
    table = AclTable()
    first, second, third = (StandardAcl(UUID(int=n), topic(f"t{n}")) for n in (1, 2, 3))
    at = table.add(first.row)
    table.add(second.row)
    table.remove(at)
    assert len(table) == 1
    assert table.find(first.id.bytes) is None
    assert table.add(third.row) == at
    assert table.acl(at) == third
    assert len(table) == 2
    assert table.find(third.id.bytes) == at


def test_ids_that_fall_into_one_shard_are_told_apart() -> None:
    table = AclTable()
    alike = [StandardAcl(UUID(int=n << 64), topic(f"t{n}")) for n in range(50)]
    rows = [table.add(acl.row) for acl in alike]
    for at in rows[::2]:
        table.remove(at)
    assert [table.find(acl.id.bytes) for acl in alike] == [None if n % 2 == 0 else at for n, at in enumerate(rows)]


def test_dismantling_frees_in_short_steps() -> None:
    table = AclTable()
    for acl in numbered(topic(f"t{n}") for n in range(20_001)):
        table.add(acl.row)
    shards = len(table.terms.shards) + len(table.ends.shards)
    assert sum(1 for _ in table.dismantle()) == shards + 3 * 2 + 4096 // 256
    assert (table.names, table.principals, table.hosts) == ([], [], [])


def test_an_id_is_found_among_many_shards() -> None:
    table = AclTable()
    spread = [StandardAcl(UUID(int=n), topic(f"t{n}")) for n in range(300)]
    for acl in spread:
        table.add(acl.row)
    assert table.find(UUID(int=300).bytes) is None
    assert [table.find(acl.id.bytes) for acl in spread] == list(range(300))


@pytest.mark.parametrize("name", ["", "x" * 32_767, "\ue000", "\U0001f600"])
def test_any_name_is_kept_as_it_is(name: str) -> None:
    table = AclTable()
    at = table.add(StandardAcl(UUID(int=1), topic(name)).row)
    assert table.acl(at).binding.resource_name == name
