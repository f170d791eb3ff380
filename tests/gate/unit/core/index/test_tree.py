"""The index beyond what tests/laws/test_laws.py draws: large patterns, sharing, what is found and what is not."""

from uuid import UUID

import pytest

from app.core.index.overlays import Changes, OverlayDict
from app.core.index.tree import AclIndex
from app.core.kafka.bindings import AclBinding, AclTerms
from app.core.kafka.codes import AclOperation, AclPermissionType, PatternType, ResourceType
from tests.dumps import dump
from tests.images import index_of, numbered
from tests.updates import topic


def crowd(principals: int, name: str = "orders") -> list[AclBinding]:
    return [
        topic(name, f"User:{n:04d}")._replace(operation=operation, permission_type=permission)
        for n in range(principals)
        for operation, permission in (
            (AclOperation.READ, AclPermissionType.ALLOW),
            (AclOperation.WRITE, AclPermissionType.DENY),
        )
    ]


def test_a_pattern_with_a_crowd_of_principals_comes_and_goes_without_a_trace() -> None:
    stored = numbered([*crowd(100), topic("orders"), topic("other")])
    index = index_of(stored[-2:])
    before = dump(index)
    for acl in stored[:-2]:
        index.add(acl.row)
    assert dump(index) == dump(index_of(stored))
    for acl in stored[:-2]:
        assert index.find(acl.binding) == acl
        index.remove(acl.binding)
        assert index.find(acl.binding) is None
    assert dump(index) == before


@pytest.mark.parametrize("where", ["empty index", "other name", "other principal", "other host", "other operation"])
def test_removing_what_is_not_there_is_an_error_and_changes_nothing(where: str) -> None:
    asked = topic("orders")
    there = {
        "empty index": [],
        "other name": [topic("order")],
        "other principal": [topic("orders", "User:bob")],
        "other host": [asked._replace(host="10.0.0.1")],
        "other operation": [asked._replace(operation=AclOperation.ALL)],
    }[where]
    index = index_of(numbered(there))
    before = dump(index)
    assert index.find(asked) is None
    with pytest.raises(KeyError):
        index.remove(asked)
    with pytest.raises(KeyError):
        index.set_terms(asked, AclTerms(owner="team"))
    assert dump(index) == before


def test_an_overlay_loses_only_what_is_there() -> None:
    overlay = OverlayDict({"a": 1}, Changes())
    del overlay["a"]
    for gone in ("a", "b"):
        with pytest.raises(KeyError):
            del overlay[gone]
    assert (list(overlay), len(overlay)) == ([], 0)


def test_an_acl_is_found_by_its_id() -> None:
    stored = numbered(crowd(3))
    index = index_of(stored)
    assert [index.get(acl.id.bytes) for acl in stored] == stored
    assert index.get(UUID(int=0).bytes) is None
    assert len(index) == 6


def test_a_name_is_covered_by_any_acl_on_it_whoever_it_speaks_of(subtests: pytest.Subtests) -> None:
    for acl, covered in [
        (topic("orders"), ["orders"]),
        (topic("*"), ["orders", "ord", "o", "", "*"]),
        (topic("o", pattern_type=PatternType.PREFIXED), ["orders", "ord", "o"]),
        (topic("*", pattern_type=PatternType.PREFIXED), ["*"]),
        (topic("orders")._replace(resource_type=ResourceType.GROUP), []),
        (topic("orders")._replace(permission_type=AclPermissionType.DENY, host="10.0.0/8"), ["orders"]),
    ]:
        with subtests.test(acl=acl, covered=covered):
            index = index_of(numbered([acl]))
            asked = ("orders", "ord", "o", "", "*")
            assert [name for name in asked if index.covers(ResourceType.TOPIC, name)] == covered
            index.remove(acl)
            assert not any(index.covers(ResourceType.TOPIC, name) for name in asked)


def test_equal_names_principals_and_masks_are_one_object() -> None:
    index = AclIndex()
    for acl in numbered(crowd(3)):
        # Each row comes with strings of its own, as a snapshot's rows do.
        acl_id, *codes, name, principal, host = acl.row
        index.add((acl_id, *codes, name[:1] + name[1:], "".join(principal), host))  # type: ignore[arg-type]  # four codes
    assert len({id(name) for name in index.table.names}) == 1
    assert len({id(principal) for principal in index.table.principals}) == 3


def test_dismantling_frees_everything_in_short_steps() -> None:
    index = index_of(numbered([*crowd(100), *(topic(f"t{n}") for n in range(600))]))
    assert sum(1 for _ in index.dismantle()) > 500
    assert len(index.table.names) == 0
