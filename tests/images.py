"""Images made from plain ACLs, as a finished load would leave them."""

from collections.abc import Iterable
from typing import Any
from uuid import UUID

from app.core.image import AuthorizerImage, ImageBuilder
from app.core.index.tree import AclIndex
from app.core.kafka.bindings import NO_TERMS, AclBinding, StandardAcl
from app.core.kafka.codes import AclOperation, AclPermissionType, PatternType, ResourceType
from app.core.kafka.configs import AuthorizerConfig
from app.core.kafka.filters import AclBindingFilter
from app.core.records import GENESIS_HASH, FeedHead
from tests.fakes import slice_of

EPOCH = UUID("5a6f9f10-94c5-4a1c-9a70-0d5b6f3c2e11")
HEAD = FeedHead(cluster_id="klamm-test", epoch=EPOCH, last_offset=0, hash=GENESIS_HASH, log_start_offset=1)


def binding_of(fields: dict[str, Any]) -> AclBinding:
    """The binding in a vector's JSON, its words read as REST reads them."""
    return AclBinding(
        ResourceType.from_string(fields["resource_type"]),
        fields["resource_name"],
        PatternType.from_string(fields["pattern_type"]),
        fields["principal"],
        fields["host"],
        AclOperation.from_string(fields["operation"]),
        AclPermissionType.from_string(fields["permission_type"]),
    )


def filter_of(fields: dict[str, Any]) -> AclBindingFilter:
    """The filter in a vector's JSON, its words read as REST reads them."""
    return AclBindingFilter(
        ResourceType.from_string(fields["resource_type"]),
        fields["resource_name"],
        PatternType.from_string(fields["pattern_type"]),
        fields["principal"],
        fields["host"],
        AclOperation.from_string(fields["operation"]),
        AclPermissionType.from_string(fields["permission_type"]),
    )


def acl_of(fields: dict[str, Any]) -> StandardAcl:
    """The stored ACL in a vector's JSON."""
    return StandardAcl(UUID(fields["id"]), binding_of(fields))


def numbered(bindings: Iterable[AclBinding]) -> list[StandardAcl]:
    """Stored ACLs with ids 1, 2, 3 and so on; a binding that repeats is stored once."""
    return [StandardAcl(UUID(int=n << 64 | n), binding) for n, binding in enumerate(dict.fromkeys(bindings), 1)]


def image_of(acls: Iterable[StandardAcl], config: AuthorizerConfig | None = None) -> AuthorizerImage:
    """A loaded image of these ACLs."""
    builder = ImageBuilder(config or AuthorizerConfig())
    stored = list(acls)
    builder.add_rows([acl.row for acl in stored])
    if any(acl.terms != NO_TERMS for acl in stored):
        builder.add_terms(slice_of(stored))
    return builder.build(HEAD)


def index_of(acls: Iterable[StandardAcl]) -> AclIndex:
    """An index of these ACLs."""
    return image_of(acls).index
