"""Bodies of the decision calls, and what all bodies share, named as the KIPs name them.

Requests are strict: no unknown field, no conversion.
"""

from typing import Annotated, TypeVar
from uuid import UUID

from pydantic import AfterValidator, BaseModel, ConfigDict, FailFast, Field
from pydantic_core import PydanticCustomError

from app.core.authorize import AuthorizationResult
from app.core.kafka.validation import MAX_TEXT_BYTES
from app.rest.bodies.words import LITERAL, AclOperationWord, PatternTypeWord, ResourceTypeWord

INT16_MIN, INT16_MAX = -(2**15), 2**15 - 1
INT32_MIN, INT32_MAX = -(2**31), 2**31 - 1
MAX_WAIT_MS = 300_000

T = TypeVar("T")
# Half a million wrong entries fit a body, and each error costs a kilobyte: the first entry that is wrong will do.
Entries = Annotated[list[T], FailFast()]

Int16 = Annotated[int, Field(ge=INT16_MIN, le=INT16_MAX)]
Int32 = Annotated[int, Field(ge=INT32_MIN, le=INT32_MAX)]
TimeoutMs = Annotated[int, Field(ge=0, le=MAX_WAIT_MS)]

TOO_LONG = (
    f"the text is longer than {MAX_TEXT_BYTES} bytes of UTF-8, the most that a string of Kafka's protocol holds; "
    "send a shorter one"
)
BYTES = f"At most {MAX_TEXT_BYTES:,} bytes of UTF-8, as in Kafka's protocol."
"""For descriptions, as `maxLength` would count characters."""

_MOST_BYTES_OF_A_CHARACTER = 4


def is_too_long(text: str) -> bool:
    """Whether a string of Kafka's protocol does not hold it."""
    may_be = len(text) * _MOST_BYTES_OF_A_CHARACTER > MAX_TEXT_BYTES
    return may_be and len(text.encode("utf-8", "surrogatepass")) > MAX_TEXT_BYTES


def _bounded(text: str) -> str:
    if is_too_long(text):
        raise PydanticCustomError("too_long", "{why}", {"why": TOO_LONG})
    return text


KafkaString = Annotated[str, AfterValidator(_bounded)]
"""A text that is shown in logs, or repeated in them, for each action of a request."""

_CODES = (
    "NONE, INVALID_REQUEST, POLICY_VIOLATION, UNSUPPORTED_VERSION, SECURITY_DISABLED, TOPIC_AUTHORIZATION_FAILED, "
    "GROUP_AUTHORIZATION_FAILED, TRANSACTIONAL_ID_AUTHORIZATION_FAILED, DELEGATION_TOKEN_AUTHORIZATION_FAILED or "
    "UNKNOWN_SERVER_ERROR; expect others"
)


class Request(BaseModel):
    """A body that a caller sends."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)


class Reply(BaseModel):
    """A body that the service sends."""

    model_config = ConfigDict(frozen=True)


Token = Annotated[
    str | None,
    Field(description="The state of the store that this answer stands on; null before the first load. Send it back."),
]
ErrorCode = Annotated[int, Field(description="Kafka's error number; 0 is no error.")]
Code = Annotated[str, Field(description=f"Kafka's error name: {_CODES}.")]
ResourceName = Annotated[str, Field(description="The resource's whole name; the cluster's is `kafka-cluster`.")]
ErrorMessage = Annotated[str | None, Field(description="Why this entry was refused; null if it was not.")]


AtLeast = Annotated[str | None, Field(description="A token: answer from this state of the store or a later one.")]


class AuthorizableRequestContext(Request):
    """Who asks, and about which request (KIP-504)."""

    principal: KafkaString = Field(
        description=f"`type:name`, for example `User:alice`. {BYTES}", examples=["User:alice"]
    )
    client_address: KafkaString = Field(description="The client's IP address; never a name.", examples=["10.1.2.3"])
    listener_name: KafkaString | None = Field(
        None, description=f"The broker's listener that the request came by, for the logs. {BYTES}"
    )
    security_protocol: KafkaString | None = Field(None, description=f"That listener's, such as SASL_SSL. {BYTES}")
    request_type: Int16 | None = Field(None, description="Kafka's API key, for the audit log.")
    request_version: Int16 | None = Field(None, description="The version of that API.")
    client_id: KafkaString | None = Field(None, description=f"What the client calls itself, for the logs. {BYTES}")
    correlation_id: Int32 | None = Field(None, description="The number of the client's request.")


class Action(Request):
    """One operation on one literal resource (KIP-504)."""

    operation: AclOperationWord
    resource_type: ResourceTypeWord
    resource_name: ResourceName
    pattern_type: PatternTypeWord = Field(LITERAL, description="LITERAL; nothing else can be authorized.")
    resource_reference_count: Int32 = Field(1, description="For the audit log.")
    log_if_allowed: bool = Field(default=True, description="Whether an ALLOWED is worth DEBUG in the audit log.")
    log_if_denied: bool = Field(default=True, description="Whether a DENIED is worth INFO in the audit log.")


class AuthorizeRequest(Request):
    """Up to 1,000 actions of one caller."""

    context: AuthorizableRequestContext
    actions: Entries[Action] = Field(json_schema_extra={"maxItems": 1000})
    at_least: AtLeast = None
    with_rules: bool = Field(default=False, description="Whether the reply names the rule and the ACL of each result.")


class AppliedRule(Reply):
    """What decided one action."""

    rule: str = Field(description="SuperUser, MatchingAcl, DefaultAllow or DefaultDeny, as in Kafka's audit log.")
    acl_id: UUID | None = Field(description="The ACL that decided; null unless the rule is MatchingAcl.")


class AuthorizeResponse(Reply):
    """One result an action, in order, all decided at one offset."""

    results: list[AuthorizationResult]
    rules: list[AppliedRule] | None = Field(None, description="Rule by rule for the results, if `with_rules` was sent.")
    token: Token


class ResourceReference(Request):
    """A literal resource."""

    resource_type: ResourceTypeWord
    resource_name: ResourceName


class AuthorizedOperationsRequest(Request):
    """Up to 1,000 resources."""

    context: AuthorizableRequestContext
    resources: Entries[ResourceReference] = Field(json_schema_extra={"maxItems": 1000})
    at_least: AtLeast = None


class AuthorizedOperationsResult(Reply):
    """What the caller may do on one resource (KIP-430)."""

    resource_type: str = Field(description="As it was asked.")
    resource_name: str = Field(description="As it was asked.")
    error_code: ErrorCode
    code: Code
    authorized_operations: int = Field(
        description="Bit field by operation code; -2147483648 if it may not be told.",
        json_schema_extra={"format": "int32"},
    )
    operations: list[str] = Field(description="The same by name.")


class AuthorizedOperationsResponse(Reply):
    """One result a resource, in order."""

    results: list[AuthorizedOperationsResult]
    token: Token


class AuthorizeByResourceTypeRequest(Request):
    """Whether the caller may do this on any resource of the type at all (KIP-504)."""

    context: AuthorizableRequestContext
    operation: AclOperationWord
    resource_type: ResourceTypeWord
    at_least: AtLeast = None


class AuthorizeByResourceTypeResponse(Reply):
    """The result."""

    result: AuthorizationResult
    token: Token


class ListGroupsRequest(Request):
    """Up to 1,000 group ids."""

    context: AuthorizableRequestContext
    groups: Entries[str] = Field(description="Group ids.", json_schema_extra={"maxItems": 1000})
    at_least: AtLeast = None


class ListGroupsResponse(Reply):
    """Those of the groups that the caller may see, in order (KIP-231)."""

    groups: list[str] = Field(description="Group ids.")
    token: Token
