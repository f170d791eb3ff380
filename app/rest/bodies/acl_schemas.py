"""Bodies of createAcls, deleteAcls, acls, getAcl and aclCount (KIP-140)."""

from typing import Annotated
from uuid import UUID

from pydantic import Field

from app.rest.bodies.schemas import (
    BYTES,
    AtLeast,
    AuthorizableRequestContext,
    Code,
    Entries,
    ErrorCode,
    ErrorMessage,
    Reply,
    Request,
    TimeoutMs,
    Token,
)
from app.rest.bodies.words import LITERAL, AclOperationWord, AclPermissionTypeWord, PatternTypeWord, ResourceTypeWord
from app.runtime.listing import DEFAULT_LIMIT, MAX_LIMIT

IfUnchangedSince = Annotated[
    str | None,
    Field(
        description="A token: nothing is written unless the store stands exactly there (else 412). The reply's token "
        "is then the state that this very call has left, to be sent with the next one. Absent or null is no guard: "
        "the change is written whatever the store holds, so who means to guard has to see that there is a token."
    ),
]

PatternName = Annotated[
    str,
    Field(description=f"A resource's name; if the pattern is PREFIXED, its beginning; `*` is every resource. {BYTES}"),
]
AclPrincipal = Annotated[
    str, Field(description=f"`type:name`, for example `User:alice`; `User:*` is everybody. {BYTES}")
]
AclHost = Annotated[str, Field(description=f"An IP address, a CIDR range, or `*`. {BYTES}")]
AclId = Annotated[UUID, Field(description="The ACL's id, which no other ACL ever has.")]


class AclBinding(Request):
    """An ACL by its seven fields (KIP-140)."""

    resource_type: ResourceTypeWord
    resource_name: PatternName
    pattern_type: PatternTypeWord = LITERAL
    principal: AclPrincipal
    host: AclHost = "*"
    operation: AclOperationWord
    permission_type: AclPermissionTypeWord


class AclBindingFilter(Request):
    """Which ACLs are meant; a field that is absent or null stands for any (KIP-140, KIP-290)."""

    resource_type: ResourceTypeWord | None = None
    resource_name: str | None = Field(None, description="As in the ACL; with MATCH, the name of a resource.")
    pattern_type: PatternTypeWord | None = None
    principal: str | None = Field(None, description="As in the ACL, to the letter.")
    host: str | None = Field(None, description="As in the ACL, to the letter.")
    operation: AclOperationWord | None = None
    permission_type: AclPermissionTypeWord | None = None


class CreateAclsRequest(Request):
    """ACLs to create; at most 10,000 of them may be new."""

    context: AuthorizableRequestContext
    bindings: Entries[AclBinding]
    timeout_ms: TimeoutMs | None = Field(None, description="How long to wait until this replica shows the change.")
    if_unchanged_since: IfUnchangedSince = None
    at_least: AtLeast = None


class AclCreateResult(Reply):
    """What came of one binding."""

    error_code: ErrorCode
    code: Code
    error_message: ErrorMessage
    id: UUID | None = Field(description="The ACL's id; null if it was refused.")
    created: bool = Field(description="False if the ACL was there already, or was refused.")


class CreateAclsResponse(Reply):
    """One result a binding, in order."""

    results: list[AclCreateResult]
    token: Token


class DeleteAclsRequest(Request):
    """Filters for the ACLs to delete; at most 10,000 may go in one call."""

    context: AuthorizableRequestContext
    filters: Entries[AclBindingFilter]
    timeout_ms: TimeoutMs | None = Field(None, description="How long to wait until this replica shows the change.")
    if_unchanged_since: IfUnchangedSince = None
    at_least: AtLeast = None


class Acl(Reply):
    """A stored ACL."""

    id: AclId
    resource_type: str
    resource_name: PatternName
    pattern_type: str
    principal: AclPrincipal
    host: AclHost
    operation: str
    permission_type: str


class AclDeleteMatch(Acl):
    """One ACL that a filter has met."""

    error_code: ErrorCode
    code: Code
    error_message: ErrorMessage


class AclDeleteResult(Reply):
    """What came of one filter; overlapping filters list the same ACL again."""

    error_code: ErrorCode
    code: Code
    error_message: ErrorMessage
    matches: list[AclDeleteMatch]


class DeleteAclsResponse(Reply):
    """One result a filter, in order."""

    results: list[AclDeleteResult]
    token: Token


class AclsRequest(Request):
    """A filter, and which page of what it meets."""

    context: AuthorizableRequestContext
    filter: AclBindingFilter
    limit: Annotated[int, Field(ge=1, le=MAX_LIMIT, description="ACLs on a page.")] = DEFAULT_LIMIT
    cursor: str | None = Field(None, description="`next_cursor` of the page before.")
    at_least: AtLeast = None


class AclsResponse(Reply):
    """One page, sorted by the seven fields."""

    acls: list[Acl]
    next_cursor: str | None = Field(description="Null on the last page.")
    token: Token


class AclCountResponse(Reply):
    """How many ACLs there are."""

    acl_count: int = Field(description="-1 until the first load is complete.")
