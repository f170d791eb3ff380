import operator
from datetime import UTC, datetime
from itertools import combinations
from typing import Any
from uuid import UUID

from hypothesis import given

from app.core.kafka.bindings import AclBinding, NewAcl, StandardAcl, canonical_fields
from app.core.kafka.codes import AclOperation, AclPermissionType, PatternType, ResourceType
from tests.strategies import binding_lists, bindings

BINDING = AclBinding(
    ResourceType.TOPIC,
    "orders",
    PatternType.PREFIXED,
    "User:alice",
    "10.0.0.1",
    AclOperation.READ,
    AclPermissionType.DENY,
)
ACL_ID = UUID("5a6f9f10-94c5-4a1c-9a70-0d5b6f3c2e11")


def test_an_acl_prints_as_in_kafkas_audit_log() -> None:
    assert str(StandardAcl(ACL_ID, BINDING)) == (
        "StandardAcl(resourceType=TOPIC, resourceName=orders, patternType=PREFIXED, principal=User:alice, "
        "host=10.0.0.1, operation=READ, permissionType=DENY)"
    )


@given(bindings)
def test_a_row_reads_back_to_its_acl(binding: AclBinding) -> None:
    acl = StandardAcl(ACL_ID, binding)
    assert StandardAcl.from_row(acl.row) == acl


def test_the_natural_key_never_changes() -> None:
    """It stands in the store: another value would orphan every stored ACL."""
    assert canonical_fields(BINDING) == (
        bytes((2, 4, 3, 2)) + b"\0\0\0\x06orders" + b"\0\0\0\x0aUser:alice" + b"\0\0\0\x0810.0.0.1"
    )
    assert BINDING.natural_key.hex() == "75648557a6e4d5f8f5c3e0e688a2a53d0a11fdac86936297529eeb3405e2e195"


@given(binding_lists)
def test_natural_keys_are_equal_if_and_only_if_the_bindings_are(acls: list[AclBinding]) -> None:
    assert len({acl.natural_key for acl in acls}) == len(acls)


def test_moving_text_between_fields_makes_another_key() -> None:
    spellings = [
        BINDING._replace(resource_name=name, principal=principal, host=host)
        for name, principal, host in (("ab", "c", "d"), ("a", "bc", "d"), ("a", "b", "cd"), ("abcd", "", ""))
    ]
    assert all(a.natural_key != b.natural_key for a, b in combinations(spellings, 2))


def test_every_field_is_part_of_the_key() -> None:
    others: dict[str, Any] = {
        "resource_type": ResourceType.GROUP,
        "resource_name": "Orders",
        "pattern_type": PatternType.LITERAL,
        "principal": "User:Alice",
        "host": "*",
        "operation": AclOperation.WRITE,
        "permission_type": AclPermissionType.ALLOW,
    }
    assert set(AclBinding._fields) == set(others)
    for name, value in others.items():
        assert BINDING._replace(**{name: value}).natural_key != BINDING.natural_key


def test_only_bindings_equal_a_binding() -> None:
    again = BINDING._replace(resource_name="".join(BINDING.resource_name))
    fields: object = tuple(BINDING)
    assert again == BINDING
    assert hash(again) == hash(BINDING)
    assert fields != BINDING
    assert operator.ne(BINDING, fields)
    assert not operator.eq(BINDING, fields)
    assert fields not in {BINDING: 1}


def test_terms_that_are_given_later_stand_and_those_that_are_not_stay() -> None:
    end, later_end = (datetime(year, 1, 1, tzinfo=UTC) for year in (2030, 2031))
    first = NewAcl(BINDING, end, "a")
    for later, both in [
        (NewAcl(BINDING), first),
        (NewAcl(BINDING, owner="b"), NewAcl(BINDING, end, "b")),
        (NewAcl(BINDING, owner=None), NewAcl(BINDING, end, None)),
        (NewAcl(BINDING, later_end), NewAcl(BINDING, later_end, "a")),
        (NewAcl(BINDING, None), NewAcl(BINDING, None, "a")),
    ]:
        assert first.then(later) == both
        assert NewAcl(BINDING).then(later) == later
