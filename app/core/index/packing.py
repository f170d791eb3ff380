"""The four codes of an ACL packed into 16 bits. Only this module knows the layout."""

from enum import IntEnum

from app.core.kafka.codes import AclOperation, AclPermissionType, PatternType, ResourceType

PATTERN_TYPES = (int(PatternType.LITERAL), int(PatternType.PREFIXED))
"""Those that an ACL may have: others are for filters."""

_PATTERN_TYPE_AT, _OPERATION_AT, _PERMISSION_TYPE_AT, _BITS = 4, 7, 12, 16
_RESOURCE_TYPE = (1 << _PATTERN_TYPE_AT) - 1
_PATTERN_TYPE = (1 << _OPERATION_AT - _PATTERN_TYPE_AT) - 1
_OPERATION = (1 << _PERMISSION_TYPE_AT - _OPERATION_AT) - 1
_PERMISSION_TYPE = (1 << _BITS - _PERMISSION_TYPE_AT) - 1


def insist_on_room(codes: type[IntEnum], highest: int) -> None:
    """Raise ValueError if there is a code above the highest that there is room for."""
    if max(codes) > highest:
        raise ValueError(
            f"{codes.__name__} has the code {max(codes)}, but only codes up to {highest} fit: make more room"
        )


# INVARIANT: no code overflows into its neighbour's bits, where a DENY would be read as an ALLOW.
insist_on_room(ResourceType, _RESOURCE_TYPE)
insist_on_room(PatternType, _PATTERN_TYPE)
insist_on_room(AclOperation, _OPERATION)
insist_on_room(AclPermissionType, _PERMISSION_TYPE)


def pack_codes(resource_type: int, pattern_type: int, operation: int, permission_type: int) -> int:
    return (
        resource_type
        | pattern_type << _PATTERN_TYPE_AT
        | operation << _OPERATION_AT
        | permission_type << _PERMISSION_TYPE_AT
    )


def unpack_codes(packed: int) -> tuple[int, int, int, int]:
    return (
        packed & _RESOURCE_TYPE,
        packed >> _PATTERN_TYPE_AT & _PATTERN_TYPE,
        packed >> _OPERATION_AT & _OPERATION,
        packed >> _PERMISSION_TYPE_AT,
    )


def operation_in(packed: int) -> int:
    return packed >> _OPERATION_AT & _OPERATION


def permission_type_in(packed: int) -> int:
    return packed >> _PERMISSION_TYPE_AT
