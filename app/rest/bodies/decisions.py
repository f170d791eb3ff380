"""Bodies of authorize and authorizeByResourceType (KIP-504), authorizedOperations (KIP-430), listGroups (KIP-231)."""

from typing import Annotated
from uuid import UUID

from msgspec import UNSET, Meta, UnsetType

from app.core.verdicts import AuthorizationResult
from app.rest.bodies.examples import CHECKOUT, TOKEN, Example
from app.rest.bodies.fields import (
    LITERAL,
    MAX_ITEMS,
    AclOperationWord,
    At,
    AtLeast,
    AuthorizableRequestContext,
    Code,
    ErrorCode,
    Int32,
    PatternTypeWord,
    Reply,
    Request,
    ResourceName,
    ResourceTypeWord,
    Token,
    doc,
)


class Action(Request):
    """One operation on one literal resource (KIP-504)."""

    operation: AclOperationWord
    resource_type: ResourceTypeWord
    resource_name: ResourceName
    pattern_type: Annotated[
        PatternTypeWord | UnsetType, doc("Must be LITERAL; no other pattern type can be authorized.", default=LITERAL)
    ] = UNSET
    resource_reference_count: Annotated[Int32 | UnsetType, doc("For the audit log.", default=1)] = UNSET
    log_if_allowed: Annotated[
        bool | UnsetType, doc("Whether an ALLOWED result is logged at DEBUG in the audit log.", default=True)
    ] = UNSET
    log_if_denied: Annotated[
        bool | UnsetType, doc("Whether a DENIED result is logged at INFO in the audit log.", default=True)
    ] = UNSET


class AuthorizeRequest(Request):
    """Up to 1,000 actions of one caller."""

    context: AuthorizableRequestContext
    actions: Annotated[list[Action], Meta(max_length=MAX_ITEMS)]
    at_least: AtLeast = UNSET
    with_rules: Annotated[
        bool | UnsetType, doc("Whether the reply names the rule and the ACL of each result.", default=False)
    ] = UNSET


class AppliedRule(Reply):
    """What decided one action."""

    rule: Annotated[str, doc("SuperUser, MatchingAcl, DefaultAllow or DefaultDeny, as in Kafka's audit log.")]
    acl_id: Annotated[UUID | None, doc("The ACL that decided; null unless the rule is MatchingAcl.")]


class AuthorizeResponse(Reply, kw_only=True):
    """One result per action, in order, all decided at the same offset."""

    results: list[AuthorizationResult]
    rules: Annotated[
        list[AppliedRule] | UnsetType | None, doc("One rule per result, if the request sets `with_rules`.")
    ] = UNSET
    token: Token


class ResourceReference(Request):
    """A literal resource."""

    resource_type: ResourceTypeWord
    resource_name: ResourceName


class AuthorizedOperationsRequest(Request):
    """Up to 1,000 resources."""

    context: AuthorizableRequestContext
    resources: Annotated[list[ResourceReference], Meta(max_length=MAX_ITEMS)]
    at_least: AtLeast = UNSET
    at: At = UNSET


class AuthorizedOperationsResult(Reply):
    """What the caller may do on one resource (KIP-430)."""

    resource_type: Annotated[str, doc("As in the request.")]
    resource_name: Annotated[str, doc("As in the request.")]
    error_code: ErrorCode
    code: Code
    authorized_operations: Annotated[
        int, doc("Bit field of operation codes; -2147483648 if the caller may not see them.", format="int32")
    ]
    operations: Annotated[list[str], doc("The same operations by name.")]


class AuthorizedOperationsResponse(Reply):
    """One result per resource, in order."""

    results: list[AuthorizedOperationsResult]
    token: Token


class AuthorizeByResourceTypeRequest(Request):
    """Asks whether the caller may do the operation on at least one resource of the type (KIP-504)."""

    context: AuthorizableRequestContext
    operation: AclOperationWord
    resource_type: ResourceTypeWord
    at_least: AtLeast = UNSET


class AuthorizeByResourceTypeResponse(Reply):
    """The result."""

    result: AuthorizationResult
    token: Token


class ListGroupsRequest(Request):
    """Up to 1,000 group ids."""

    context: AuthorizableRequestContext
    groups: Annotated[list[str], Meta(description="Group ids.", max_length=MAX_ITEMS)]
    at_least: AtLeast = UNSET


class ListGroupsResponse(Reply):
    """The given groups that the caller may see, in order (KIP-231)."""

    groups: Annotated[list[str], doc("Group ids.")]
    token: Token


AUTHORIZE_EXAMPLE = Example(
    request={
        "context": CHECKOUT,
        "actions": [
            {"operation": "WRITE", "resource_type": "TOPIC", "resource_name": "checkout.completed.v1"},
            {"operation": "READ", "resource_type": "TOPIC", "resource_name": "payments.card-tokens.v1"},
        ],
    },
    reply={"results": ["ALLOWED", "DENIED"], "token": TOKEN},
)
AUTHORIZED_OPERATIONS_EXAMPLE = Example(
    request={
        "context": CHECKOUT,
        "resources": [
            {"resource_type": "TOPIC", "resource_name": "checkout.completed.v1"},
            {"resource_type": "TOPIC", "resource_name": "hr.salaries.v1"},
        ],
    },
    reply={
        "results": [
            {
                "resource_type": "TOPIC",
                "resource_name": "checkout.completed.v1",
                "error_code": 0,
                "code": "NONE",
                "authorized_operations": 280,
                "operations": ["READ", "WRITE", "DESCRIBE"],
            },
            {
                "resource_type": "TOPIC",
                "resource_name": "hr.salaries.v1",
                "error_code": 29,
                "code": "TOPIC_AUTHORIZATION_FAILED",
                "authorized_operations": -2147483648,
                "operations": [],
            },
        ],
        "token": TOKEN,
    },
)
AUTHORIZE_BY_RESOURCE_TYPE_EXAMPLE = Example(
    request={"context": CHECKOUT, "operation": "WRITE", "resource_type": "TRANSACTIONAL_ID"},
    reply={"result": "ALLOWED", "token": TOKEN},
)
LIST_GROUPS_EXAMPLE = Example(
    request={
        "context": {"principal": "User:svc-refunds", "client_address": "10.40.3.18"},
        "groups": ["refunds", "psp-adapter"],
    },
    reply={"groups": ["refunds"], "token": TOKEN},
)
