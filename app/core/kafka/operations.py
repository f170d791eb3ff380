"""Which operations a resource type supports, what an ACL's operation covers, and Kafka's bit fields (KIP-430).

In every bit field here the bit's number is the operation's code.
"""

from collections.abc import Iterable
from functools import lru_cache

from app.core.kafka.codes import AclOperation, ResourceType
from app.core.kafka.errors import InvalidRequestException

NOT_REQUESTED = -2147483648
"""The INT32 in a response if authorized operations were not asked for (KIP-430)."""

_Op = AclOperation

_SUPPORTED: dict[ResourceType, tuple[AclOperation, ...]] = {
    ResourceType.TOPIC: (
        _Op.READ,
        _Op.WRITE,
        _Op.CREATE,
        _Op.DELETE,
        _Op.ALTER,
        _Op.DESCRIBE,
        _Op.DESCRIBE_CONFIGS,
        _Op.ALTER_CONFIGS,
    ),
    ResourceType.GROUP: (_Op.READ, _Op.DELETE, _Op.DESCRIBE, _Op.DESCRIBE_CONFIGS, _Op.ALTER_CONFIGS),
    ResourceType.CLUSTER: (
        _Op.CREATE,
        _Op.ALTER,
        _Op.DESCRIBE,
        _Op.CLUSTER_ACTION,
        _Op.DESCRIBE_CONFIGS,
        _Op.ALTER_CONFIGS,
        _Op.IDEMPOTENT_WRITE,
    ),
    ResourceType.TRANSACTIONAL_ID: (_Op.WRITE, _Op.DESCRIBE, _Op.TWO_PHASE_COMMIT),
    ResourceType.DELEGATION_TOKEN: (_Op.DESCRIBE,),
    ResourceType.USER: (_Op.CREATE_TOKENS, _Op.DESCRIBE_TOKENS),
}

_IMPLIED: dict[AclOperation, AclOperation] = {
    _Op.READ: _Op.DESCRIBE,
    _Op.WRITE: _Op.DESCRIBE,
    _Op.DELETE: _Op.DESCRIBE,
    _Op.ALTER: _Op.DESCRIBE,
    _Op.ALTER_CONFIGS: _Op.DESCRIBE_CONFIGS,
}


def supported_operations(resource_type: ResourceType) -> tuple[AclOperation, ...]:
    """The operations that mean something on this type, by rising code (`AclEntry.supportedOperations`).

    Raises InvalidRequestException for ANY and UNKNOWN.
    """
    operations = _SUPPORTED.get(resource_type)
    if operations is None:
        raise InvalidRequestException("Not a concrete resource type")
    return operations


def to_bit_field(operations: Iterable[AclOperation]) -> int:
    bits = 0
    for operation in operations:
        bits |= 1 << operation
    return bits


@lru_cache(maxsize=1024)
def from_bit_field(bits: int) -> tuple[AclOperation, ...]:
    """The operations whose bit is set, by rising code. Bits that stand for no operation are left out."""
    return tuple(operation for operation in AclOperation if bits >> operation & 1)


def to_int32(bits: int) -> int:
    """The bit field as Kafka's signed INT32 (`Utils.to32BitField`)."""
    return (bits & 0xFFFF_FFFF ^ 0x8000_0000) - 0x8000_0000


def _covered(operation: AclOperation) -> int:
    return to_bit_field(AclOperation) if operation is _Op.ALL else 1 << operation


def _allowed(operation: AclOperation) -> int:
    implied = _IMPLIED.get(operation)
    return _covered(operation) if implied is None else _covered(operation) | 1 << implied


ALLOW_MASK: tuple[int, ...] = tuple(_allowed(operation) for operation in AclOperation)
"""By the code of an ALLOW ACL's operation: the requested operations that it allows, implied ones included (KIP-140)."""

DENY_MASK: tuple[int, ...] = tuple(_covered(operation) for operation in AclOperation)
"""By the code of a DENY ACL's operation: the requested operations that it forbids. A DENY implies nothing."""
