"""The bodies of createAcls, deleteAcls and acls as msgspec structs: the models of `acl_schemas`, field by field.

A field that did not come is UNSET, so that what came can be counted (`wire`). A binding has the form that it
has in files (`app.formats.acl_json`).
"""

from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, UnsetType

from app.formats.acl_json import JsonBinding
from app.rest.bodies.schemas import MAX_WAIT_MS
from app.rest.bodies.wire import Context
from app.runtime.listing import MAX_LIMIT

TimeoutMs = Annotated[int, Meta(ge=0, le=MAX_WAIT_MS)]


class AclBindingFilter(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    """`acl_schemas.AclBindingFilter`, field by field (a test holds them together)."""

    resource_type: str | UnsetType | None = UNSET
    resource_name: str | UnsetType | None = UNSET
    pattern_type: str | UnsetType | None = UNSET
    principal: str | UnsetType | None = UNSET
    host: str | UnsetType | None = UNSET
    operation: str | UnsetType | None = UNSET
    permission_type: str | UnsetType | None = UNSET


class CreateAclsRequest(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    """`acl_schemas.CreateAclsRequest`, field by field."""

    context: Context
    bindings: list[JsonBinding]
    timeout_ms: TimeoutMs | UnsetType | None = UNSET
    if_unchanged_since: str | UnsetType | None = UNSET
    at_least: str | UnsetType | None = UNSET


class DeleteAclsRequest(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    """`acl_schemas.DeleteAclsRequest`, field by field."""

    context: Context
    filters: list[AclBindingFilter]
    timeout_ms: TimeoutMs | UnsetType | None = UNSET
    if_unchanged_since: str | UnsetType | None = UNSET
    at_least: str | UnsetType | None = UNSET


class AclsRequest(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    """`acl_schemas.AclsRequest`, field by field."""

    context: Context
    filter: AclBindingFilter
    limit: Annotated[int, Meta(ge=1, le=MAX_LIMIT)] | UnsetType = UNSET
    cursor: str | UnsetType | None = UNSET
    at_least: str | UnsetType | None = UNSET
