"""What the OPA plugin for Kafka sends, and the same question as authorize has it.

Fields that the plugin sends and nobody needs are declared as well: so its bodies pass the proof of `reading` that
nothing came twice. Only a body with fields that are not known here, which are passed over, is read once more for it.
"""

from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from app.core.kafka.errors import InvalidRequestException
from app.rest.bodies import decisions
from app.rest.bodies.decisions import AuthorizeRequest
from app.rest.bodies.fields import (
    OPERATION_CODES,
    RESOURCE_TYPE_CODES,
    AuthorizableRequestContext,
    Int16,
    Int32,
    check_lengths,
    given,
    unknown_word,
)
from app.rest.bodies.reading import UncheckedBodyError, strict_decoder
from app.rest.bodies.strict_json import check_bounds

OPA_BELOW = "/v1/data"
"""Where OPA's API stands. Its client takes any JSON for an answer, so refusals below it are plain text."""

OPA_PATH = f"{OPA_BELOW}/kafka/authz/allow"
"""The cluster's id may follow."""

OPA_DEADLINE_S = 1.0
"""The client waits for 5 s, and blocks one of the broker's request threads meanwhile."""

_PREFIXED = "PREFIXED"


class Principal(msgspec.Struct, rename="camel", gc=False):
    principal_type: str
    name: str
    groups: Any = UNSET


class HeaderFields(msgspec.Struct, rename="camel", gc=False):
    client_id: str | UnsetType | None = UNSET
    correlation_id: Int32 | UnsetType | None = UNSET
    request_api_key: Int16 | UnsetType | None = UNSET
    request_api_version: Int16 | UnsetType | None = UNSET


class Header(msgspec.Struct, rename="camel", gc=False):
    """RequestHeader: its fields stand under `name` or under `data`, by the plugin's version."""

    name: HeaderFields | UnsetType | None = UNSET
    data: HeaderFields | UnsetType | None = UNSET
    header_version: Any = UNSET


class RequestContext(msgspec.Struct, rename="camel", gc=False):
    principal: Principal
    client_address: str
    """Java's InetAddress.toString(): `/10.1.2.3`, `host/10.1.2.3`."""
    header: Header | UnsetType | None = UNSET
    listener_name: str | UnsetType | None = UNSET
    security_protocol: str | UnsetType | None = UNSET
    client_information: Any = UNSET
    connection_id: Any = UNSET
    groups: Any = UNSET


class ResourcePattern(msgspec.Struct, rename="camel", gc=False):
    resource_type: str
    name: str
    pattern_type: str | UnsetType = UNSET
    unknown: Any = UNSET


class Action(msgspec.Struct, rename="camel", gc=False):
    operation: str
    resource_pattern: ResourcePattern
    resource_reference_count: Int32 | UnsetType = UNSET
    log_if_allowed: bool | UnsetType = UNSET
    log_if_denied: bool | UnsetType = UNSET


class Input(msgspec.Struct, rename="camel", gc=False):
    request_context: RequestContext
    action: Action


class OpaRequest(msgspec.Struct, gc=False):
    input: Input


class ByResourceType(msgspec.Struct, gc=False):
    """authorizeByResourceType (KIP-504), which the plugin sends in the form of an action."""

    context: AuthorizableRequestContext
    operation: int
    resource_type: int


OpaQuestion = AuthorizeRequest | ByResourceType

_decode = strict_decoder(OpaRequest)


def decode_opa(body: bytes) -> OpaQuestion:
    """Raises what a `strict_decoder` does."""
    # Fields of any content may nest.
    check_bounds(body)
    try:
        return _question_of(_decode(body).input)
    except UncheckedBodyError as unproven:
        request: OpaRequest = unproven.value  # type: ignore[assignment]  # what `_decode` would have returned
        raise UncheckedBodyError(_question_of(request.input)) from None


def _question_of(asked: Input) -> OpaQuestion:
    context, action = _context(asked.request_context), asked.action
    resource = action.resource_pattern
    if not resource.name and resource.pattern_type == _PREFIXED and action.resource_reference_count == 0:
        for word, codes in ((action.operation, OPERATION_CODES), (resource.resource_type, RESOURCE_TYPE_CODES)):
            if word not in codes:
                raise InvalidRequestException(unknown_word(word, codes))
        return ByResourceType(context, OPERATION_CODES[action.operation], RESOURCE_TYPE_CODES[resource.resource_type])
    one = decisions.Action(
        action.operation,
        resource.resource_type,
        resource.name,
        resource.pattern_type,
        action.resource_reference_count,
        action.log_if_allowed,
        action.log_if_denied,
    )
    return AuthorizeRequest(context, [one])


def _context(context: RequestContext) -> AuthorizableRequestContext:
    principal = context.principal
    if not principal.principal_type or ":" in principal.principal_type:
        raise InvalidRequestException(
            f"`principalType` `{principal.principal_type[:100]}` is not a principal type; send for example `User`"
        )
    if context.groups or principal.groups:
        # INVARIANT: DENYs of groups are not passed over for a question that names some.
        raise InvalidRequestException(
            "`groups` are not supported, because the plugin caches answers by the principal's type and name only; "
            "leave them out, or use Klamm's own authorizer in the broker"
        )
    header = given(context.header) or Header()
    fields = given(header.name) or given(header.data) or HeaderFields()
    named, address = f"{principal.principal_type}:{principal.name}", context.client_address.rpartition("/")[2]
    asked = "/input/requestContext"
    check_lengths(
        (
            (f"{asked}/principal", named),
            (f"{asked}/clientAddress", address),
            (f"{asked}/listenerName", context.listener_name),
            (f"{asked}/securityProtocol", context.security_protocol),
            (f"{asked}/header/name/clientId", fields.client_id),
        )
    )
    return AuthorizableRequestContext(
        named,
        address,
        context.listener_name,
        context.security_protocol,
        fields.request_api_key,
        fields.request_api_version,
        fields.client_id,
        fields.correlation_id,
    )
