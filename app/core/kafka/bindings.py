"""ACL bindings and stored ACLs (KIP-140, KIP-290), as values.

`AclBinding` is what a caller names: seven fields. `NewAcl` is a binding with the terms that it is to have, and
`StandardAcl` what the store keeps: a binding with its UUID and its terms.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import Enum
from typing import Final, Literal, NamedTuple
from uuid import UUID

from app.core.kafka.codes import AclOperation, AclPermissionType, PatternType, ResourceType
from app.core.kafka.errors import InvalidRequestException

AclRow = tuple[bytes, int, int, int, int, str, str, str]
"""A stored ACL as the snapshot hands it over: id (16 bytes), resource type, pattern type, operation and
permission type as codes, resource name, principal, host."""


class AclTerms(NamedTuple):
    """When an ACL ends (UTC, whole seconds; None: never), and its owner, if one was given."""

    expires_at: datetime | None = None
    owner: str | None = None


NO_TERMS: Final = AclTerms()


class Keep(Enum):
    """Stands for a term that a caller has not given: an existing ACL keeps its own."""

    KEEP = "keep"


KEEP: Final = Keep.KEEP


class AclBinding(NamedTuple):  # noqa: PLW1641 - its hash is the tuple's
    """The seven fields of an ACL (KIP-140). Two ACLs are the same if these are."""

    resource_type: ResourceType
    resource_name: str
    pattern_type: PatternType
    principal: str
    host: str
    operation: AclOperation
    permission_type: AclPermissionType

    def __eq__(self, other: object) -> bool:
        # INVARIANT: no other tuple equals an ACL, whatever is in it.
        return other.__class__ is AclBinding and tuple.__eq__(self, other)

    def __ne__(self, other: object) -> bool:
        return not self == other

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
        """The binding that has these `words`. Raises KeyError for a word that is not Kafka's."""
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
    expires_at: datetime | None = None
    owner: str | None = None

    @property
    def terms(self) -> AclTerms:
        return AclTerms(self.expires_at, self.owner) if self.has_terms else NO_TERMS

    @property
    def has_terms(self) -> bool:
        return self.expires_at is not None or self.owner is not None

    def __str__(self) -> str:
        b = self.binding
        return (
            f"StandardAcl(resourceType={b.resource_type.name}, resourceName={b.resource_name}, "
            f"patternType={b.pattern_type.name}, principal={b.principal}, host={b.host}, "
            f"operation={b.operation.name}, permissionType={b.permission_type.name})"
        )

    @property
    def row(self) -> AclRow:
        resource_type, name, pattern_type, principal, host, operation, permission_type = self.binding
        codes = int(resource_type), int(pattern_type), int(operation), int(permission_type)
        return self.id.bytes, *codes, name, principal, host

    @staticmethod
    def from_row(row: AclRow, terms: AclTerms = NO_TERMS) -> "StandardAcl":
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
        return StandardAcl(UUID(bytes=acl_id), binding, *terms)


class NewAcl(NamedTuple):
    """An ACL as requested from createAcls. Terms that were not given are none, or those of the existing ACL."""

    binding: AclBinding
    expires_at: datetime | Literal[Keep.KEEP] | None = KEEP
    owner: str | Literal[Keep.KEEP] | None = KEEP

    def expiry_refusal(self, now: datetime) -> InvalidRequestException | None:
        """Why it can't be made at this time of the store."""
        if self.expires_at is KEEP or self.expires_at is None or self.expires_at > now:
            return None
        return InvalidRequestException(
            f"`expires_at` must be in the future: {rfc3339(self.expires_at)} is not after {rfc3339(now)}, the time by "
            "the store's clock"
        )

    @property
    def says_terms(self) -> bool:
        return self.expires_at is not KEEP or self.owner is not KEEP

    def then(self, later: "NewAcl") -> "NewAcl":
        """The same ACL, with the terms that `later` gives over its own."""
        return NewAcl(
            self.binding,
            self.expires_at if later.expires_at is KEEP else later.expires_at,
            self.owner if later.owner is KEEP else later.owner,
        )

    def terms_over(self, terms: AclTerms) -> AclTerms:
        """The terms that an ACL with `terms` gets; for a new ACL `terms` is NO_TERMS."""
        return AclTerms(
            terms.expires_at if self.expires_at is KEEP else self.expires_at,
            terms.owner if self.owner is KEEP else self.owner,
        )

    def over(self, acl: StandardAcl, now: datetime) -> StandardAcl:
        """The stored ACL with the terms given here: the same object if that changes nothing.

        One that has ended by `now`, the store's time, counts as without terms: it is made again.
        """
        has_ended = acl.expires_at is not None and acl.expires_at <= now
        if not has_ended and self.expires_at is KEEP and self.owner is KEEP:
            return acl
        terms = self.terms_over(NO_TERMS if has_ended else acl.terms)
        return acl if terms == acl.terms else replace(acl, expires_at=terms.expires_at, owner=terms.owner)


@dataclass(frozen=True, slots=True)
class AclSlice:
    """Some ACLs of a snapshot: their rows, the terms of those that have any by id, and their part of the digest."""

    rows: Sequence[AclRow]
    terms: Mapping[bytes, AclTerms]
    digest: int


def rfc3339(moment: datetime) -> str:
    """The time in UTC and whole seconds, as `2026-11-30T18:00:00Z`."""
    return moment.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def canonical_fields(binding: AclBinding) -> bytes:
    """The seven fields as bytes: four codes, then each text with its UTF-8 length (4 bytes) before it."""
    resource_type, name, pattern_type, principal, host, operation, permission_type = binding
    parts = [bytes((resource_type, pattern_type, operation, permission_type))]
    for text in (name, principal, host):
        raw = text.encode()
        parts += len(raw).to_bytes(4, "big"), raw
    return b"".join(parts)
