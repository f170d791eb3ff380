import pytest

from app.core.kafka.codes import AclOperation, ResourceType
from app.core.kafka.errors import InvalidRequestException
from app.core.kafka.operations import (
    ALLOW_MASK,
    DENY_MASK,
    NOT_REQUESTED,
    from_bit_field,
    supported_operations,
    to_bit_field,
    to_int32,
)

IMPLIED = {
    AclOperation.READ: AclOperation.DESCRIBE,
    AclOperation.WRITE: AclOperation.DESCRIBE,
    AclOperation.DELETE: AclOperation.DESCRIBE,
    AclOperation.ALTER: AclOperation.DESCRIBE,
    AclOperation.ALTER_CONFIGS: AclOperation.DESCRIBE_CONFIGS,
}


def test_an_allow_covers_its_operation_and_what_it_implies(subtests: pytest.Subtests) -> None:
    for operation in [each for each in AclOperation if each is not AclOperation.ALL]:
        with subtests.test(operation=operation):
            expected = {operation, IMPLIED.get(operation, operation)}
            assert set(from_bit_field(ALLOW_MASK[operation])) == expected


def test_a_deny_implies_nothing(subtests: pytest.Subtests) -> None:
    for operation in [each for each in AclOperation if each is not AclOperation.ALL]:
        with subtests.test(operation=operation):
            assert from_bit_field(DENY_MASK[operation]) == (operation,)


@pytest.mark.parametrize("mask", [ALLOW_MASK, DENY_MASK])
def test_all_covers_every_operation_even_those_that_are_none(mask: tuple[int, ...]) -> None:
    assert len(mask) == 16
    assert mask[AclOperation.ALL] == 0xFFFF


@pytest.mark.parametrize("resource_type", [ResourceType.ANY, ResourceType.UNKNOWN])
def test_a_type_that_is_no_resource_supports_nothing(resource_type: ResourceType) -> None:
    with pytest.raises(InvalidRequestException, match="Not a concrete resource type"):
        supported_operations(resource_type)


def test_bit_fields_read_back_by_rising_code() -> None:
    operations = (AclOperation.WRITE, AclOperation.READ, AclOperation.TWO_PHASE_COMMIT)
    bits = to_bit_field(operations)
    assert bits == 1 << 3 | 1 << 4 | 1 << 15
    assert from_bit_field(bits) == tuple(sorted(operations))
    assert from_bit_field(bits | 1 << 20) == tuple(sorted(operations))
    assert from_bit_field(0) == ()


@pytest.mark.parametrize(
    ("bits", "int32"),
    [(0, 0), (3576, 3576), (0x7FFF_FFFF, 0x7FFF_FFFF), (1 << 31, NOT_REQUESTED), (0xFFFF_FFFF, -1)],
)
def test_bit_fields_go_out_as_signed_int32(bits: int, int32: int) -> None:
    assert to_int32(bits) == int32
