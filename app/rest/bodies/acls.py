"""Bodies of createAcls, deleteAcls, acls, getAcl and aclCount (KIP-140)."""

from datetime import datetime
from typing import Annotated
from uuid import UUID

from msgspec import UNSET, Meta, UnsetType

from app.core.kafka.codes import WILDCARD
from app.core.kafka.validation import MAX_OWNER
from app.rest.bodies.examples import ADMIN, EPOCH, NO_ERROR, TOKEN, Example, acl_example
from app.rest.bodies.fields import (
    BYTES,
    LITERAL,
    AclOperationWord,
    AclPermissionTypeWord,
    At,
    AtLeast,
    AuthorizableRequestContext,
    Code,
    Comment,
    ErrorCode,
    IfUnchangedSince,
    Outcome,
    PatternTypeWord,
    Reply,
    Request,
    ResourceTypeWord,
    SearchTimeoutMs,
    SentTime,
    Text,
    TimeoutMs,
    Token,
    doc,
)
from app.runtime.listing import DEFAULT_LIMIT, MAX_LIMIT

PatternName = Annotated[
    str, doc(f"The resource's name, or its prefix if the pattern is PREFIXED; `*` matches every resource. {BYTES}")
]
AclPrincipal = Annotated[str, doc(f"`type:name`, for example `User:alice`; `User:*` is everybody. {BYTES}")]
_HOST = f"An IP address, a CIDR range, or `*`. {BYTES}"
AclHost = Annotated[str, doc(_HOST)]

Cursor = Annotated[Text, doc("`next_cursor` of the previous page.")]
UtcTime = Annotated[datetime, Meta(tz=True)]
_EXPIRES_AT = "When the ACL expires: a future time in whole seconds, with a UTC offset; null means never."
_OWNER = f"The owner of the ACL, in one line of 1 to {MAX_OWNER} characters; null means that no owner is recorded."
_KEPT = " If absent, an existing ACL keeps its own."


class AclBinding(Request, kw_only=True):
    """An ACL's seven fields (KIP-140), and its end and owner; an existing ACL takes over those that are given."""

    resource_type: ResourceTypeWord
    resource_name: PatternName
    pattern_type: Annotated[PatternTypeWord | UnsetType, Meta(extra_json_schema={"default": LITERAL})] = UNSET
    principal: AclPrincipal
    host: Annotated[str | UnsetType, doc(_HOST, default=WILDCARD)] = UNSET
    operation: AclOperationWord
    permission_type: AclPermissionTypeWord
    expires_at: Annotated[SentTime | UnsetType | None, doc(_EXPIRES_AT + _KEPT)] = UNSET
    owner: Annotated[Text, doc(_OWNER + _KEPT)] = UNSET


class AclBindingFilter(Request):
    """Selects ACLs; a field that is absent or null matches any value (KIP-140, KIP-290)."""

    resource_type: ResourceTypeWord | UnsetType | None = UNSET
    resource_name: Annotated[
        Text, doc("Exactly as in the ACL; with the pattern type MATCH, the name of a resource.")
    ] = UNSET
    pattern_type: PatternTypeWord | UnsetType | None = UNSET
    principal: Annotated[Text, doc("Exactly as in the ACL.")] = UNSET
    host: Annotated[Text, doc("Exactly as in the ACL.")] = UNSET
    operation: AclOperationWord | UnsetType | None = UNSET
    permission_type: AclPermissionTypeWord | UnsetType | None = UNSET


class CreateAclsRequest(Request):
    """ACLs to create; one call may create or change at most 10,000."""

    context: AuthorizableRequestContext
    bindings: list[AclBinding]
    timeout_ms: TimeoutMs = UNSET
    if_unchanged_since: IfUnchangedSince = UNSET
    comment: Comment = UNSET
    at_least: AtLeast = UNSET


class AclCreateResult(Outcome):
    """The outcome for one binding."""

    id: Annotated[UUID | None, doc("The ACL's id; null if it was refused.")]
    created: Annotated[
        bool, doc("False if the ACL already existed (its end or owner may have changed) or was refused.")
    ]


class CreateAclsResponse(Reply):
    """One result per binding, in order."""

    results: list[AclCreateResult]
    token: Token


class DeleteAclsRequest(Request):
    """Filters for the ACLs to delete; one call may delete at most 10,000."""

    context: AuthorizableRequestContext
    filters: list[AclBindingFilter]
    timeout_ms: TimeoutMs = UNSET
    if_unchanged_since: IfUnchangedSince = UNSET
    comment: Comment = UNSET
    at_least: AtLeast = UNSET


class Acl(Reply):
    """A stored ACL."""

    id: Annotated[UUID, doc("The ACL's id, which is never reused.")]
    resource_type: str
    resource_name: PatternName
    pattern_type: str
    principal: AclPrincipal
    host: AclHost
    operation: str
    permission_type: str
    expires_at: Annotated[UtcTime | None, doc("When the ACL expires, in UTC and whole seconds; null means never.")]
    owner: Annotated[str | None, doc("The owner of the ACL; null if no owner is recorded.")]


class AclDeleteMatch(Acl):
    """One ACL that a filter matched."""

    error_code: ErrorCode
    code: Code
    error_message: Annotated[str | None, doc("Why this entry was refused; null if it was not.")]


class AclDeleteResult(Outcome):
    """The outcome for one filter; an ACL that several filters match is listed for each of them."""

    matches: list[AclDeleteMatch]


class DeleteAclsResponse(Reply):
    """One result per filter, in order."""

    results: list[AclDeleteResult]
    token: Token


class AclsRequest(Request):
    """A filter, and the page of matching ACLs to return."""

    context: AuthorizableRequestContext
    filter: AclBindingFilter
    limit: Annotated[int, Meta(ge=1, le=MAX_LIMIT, description="Maximum number of ACLs per page.")] = DEFAULT_LIMIT
    cursor: Cursor = UNSET
    at_least: AtLeast = UNSET
    at: At = UNSET
    timeout_ms: SearchTimeoutMs = UNSET


class AclsResponse(Reply):
    """One page, sorted by the seven fields."""

    acls: list[Acl]
    next_cursor: Annotated[str | None, doc("Null on the last page.")]
    token: Token


class AclCountResponse(Reply):
    """How many ACLs there are."""

    acl_count: Annotated[int, doc("-1 until the first load is complete.")]


_RESULTS = [
    acl_example(
        "TOPIC payments.results.v3 LITERAL User:svc-checkout * READ ALLOW", "5b0c7a52-7c0e-4f8b-8d63-6f2f6d0c9a11"
    ),
    acl_example(
        "TOPIC payments.results.v3 LITERAL User:svc-fraud-features * READ ALLOW", "c1d7e9a4-02f5-4b6e-9a3f-18a4b1c5d722"
    ),
]

CREATE_ACLS_EXAMPLE = Example(
    request={
        "context": ADMIN,
        "bindings": [
            {
                **acl_example("TOPIC orders. PREFIXED User:alice 10.0.0.0/8 READ ALLOW"),
                "expires_at": "2099-12-31T18:00:00Z",
                "owner": "orders team",
            },
            {
                "resource_type": "GROUP",
                "resource_name": "reports",
                "principal": "User:alice",
                "operation": "READ",
                "permission_type": "ALLOW",
            },
        ],
        "comment": "OPS-1207: reports for the audit",
    },
    reply={
        "results": [
            {**NO_ERROR, "id": "4f3e2d1c-6b7a-4859-9c0d-1e2f3a4b5c55", "created": True},
            {**NO_ERROR, "id": "98a7b6c5-d4e3-4f21-8a9b-0c1d2e3f4a66", "created": True},
        ],
        "token": f"{EPOCH}:350",
    },
)
DELETE_ACLS_EXAMPLE = Example(
    request={"context": ADMIN, "filters": [{"principal": "User:former-employee", "resource_type": "CLUSTER"}]},
    reply={
        "results": [
            {
                **NO_ERROR,
                "matches": [
                    {
                        **NO_ERROR,
                        **acl_example(
                            "CLUSTER kafka-cluster LITERAL User:former-employee * ALL DENY",
                            "b8c9d0e1-2f3a-4b5c-8d6e-7f8091a2b377",
                        ),
                    }
                ],
            }
        ],
        "token": f"{EPOCH}:349",
    },
)
ACLS_EXAMPLE = Example(
    request={
        "context": ADMIN,
        "filter": {"resource_type": "TOPIC", "resource_name": "payments.results.v3", "operation": "READ"},
        "limit": 2,
    },
    reply={
        "acls": _RESULTS,
        "next_cursor": "WzIsInBheW1lbnRzLnJlc3VsdHMudjMiLDMsIlVzZXI6c3ZjLWZyYXVkLWZlYXR1cmVzIiwiKiIsMywzXQ",
        "token": TOKEN,
    },
)
ACL_COUNT_EXAMPLE = Example(reply={"acl_count": 348})
GET_ACL_EXAMPLE = Example(parameters={"id": str(_RESULTS[0]["id"])}, reply=_RESULTS[0])
