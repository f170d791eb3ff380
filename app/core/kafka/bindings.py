"""ACL bindings and stored ACLs (KIP-140, KIP-290), as values.

`AclBinding` is what a caller names: seven fields. `StandardAcl` is what the store keeps: a binding with its UUID.
"""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from uuid import UUID

from app.core.kafka.codes import AclOperation, AclPermissionType, PatternType, ResourceType

AclRow = tuple[bytes, int, int, int, int, str, str, str]
"""A stored ACL as the snapshot hands it over: id (16 bytes), resource type, pattern type, operation and
permission type as codes, resource name, principal, host."""


@dataclass(frozen=True, slots=True)
class AclBinding:
    """The seven fields of an ACL (KIP-140). Two ACLs are the same if these are."""

    resource_type: ResourceType
    resource_name: str
    pattern_type: PatternType
    principal: str
    host: str
    operation: AclOperation
    permission_type: AclPermissionType

    @property
    def words(self) -> tuple[str, str, str, str, str, str, str]:
        return (
            self.resource_type.name,
            self.resource_name,
            self.pattern_type.name,
            self.principal,
            self.host,
            self.operation.name,
            self.permission_type.name,
        )

    @staticmethod
    def from_words(words: Iterable[str]) -> "AclBinding":
        """The binding that has these `words`. Raises KeyError for a name that is none of Kafka's."""
        resource_type, name, pattern_type, principal, host, operation, permission_type = words
        return AclBinding(
            ResourceType[resource_type],
            name,
            PatternType[pattern_type],
            principal,
            host,
            AclOperation[operation],
            AclPermissionType[permission_type],
        )

    @property
    def natural_key(self) -> bytes:
        """SHA-256 over the seven fields, typed and length-prefixed: equal if and only if the bindings are."""
        return hashlib.sha256(canonical_fields(self)).digest()


@dataclass(frozen=True, slots=True)
class StandardAcl:
    """An ACL of the store: its UUID and its binding (KIP-801)."""

    id: UUID
    binding: AclBinding

    def __str__(self) -> str:
        b = self.binding
        return (
            f"StandardAcl(resourceType={b.resource_type.name}, resourceName={b.resource_name}, "
            f"patternType={b.pattern_type.name}, principal={b.principal}, host={b.host}, "
            f"operation={b.operation.name}, permissionType={b.permission_type.name})"
        )

    @property
    def row(self) -> AclRow:
        b = self.binding
        return (
            self.id.bytes,
            int(b.resource_type),
            int(b.pattern_type),
            int(b.operation),
            int(b.permission_type),
            b.resource_name,
            b.principal,
            b.host,
        )

    @staticmethod
    def from_row(row: AclRow) -> "StandardAcl":
        acl_id, resource_type, pattern_type, operation, permission_type, name, principal, host = row
        binding = AclBinding(
            ResourceType.from_code(resource_type),
            name,
            PatternType.from_code(pattern_type),
            principal,
            host,
            AclOperation.from_code(operation),
            AclPermissionType.from_code(permission_type),
        )
        return StandardAcl(UUID(bytes=acl_id), binding)


def canonical_fields(binding: AclBinding) -> bytes:
    """The seven fields as bytes: four codes, then each text with its UTF-8 length (4 bytes) before it."""
    parts = [bytes((binding.resource_type, binding.pattern_type, binding.operation, binding.permission_type))]
    for text in (binding.resource_name, binding.principal, binding.host):
        raw = text.encode()
        parts.append(len(raw).to_bytes(4, "big"))
        parts.append(raw)
    return b"".join(parts)
