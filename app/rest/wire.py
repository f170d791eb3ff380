"""The body of authorize as msgspec structs, and the proof that nothing in it came twice.

msgspec takes the last of duplicate keys in silence. Without a backslash in the body (so without an escaped quote)
every `:` outside of the text values follows a key, and each key that came is either kept or was overwritten. So

    colons in the body = keys that are kept + colons in the text values that are kept
                         + keys that were overwritten + colons in the texts that were

and if the first two make up the whole, nothing was overwritten. A body that does not add up, or that holds a
backslash, is read once more by `app.rest.strict_json`, which is exact.
"""

from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, UnsetType
from pydantic import ValidationError

from app.core.errors import ApiException, InvalidRequestException
from app.rest import schemas
from app.rest.strict_json import check_count, parse
from app.rest.validation import refusal_of

Int16 = Annotated[int, Meta(ge=schemas.INT16_MIN, le=schemas.INT16_MAX)]
Int32 = Annotated[int, Meta(ge=schemas.INT32_MIN, le=schemas.INT32_MAX)]


class Context(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    """`schemas.AuthorizableRequestContext`, field by field (a test holds them together)."""

    principal: str
    client_address: str
    listener_name: str | UnsetType | None = UNSET
    security_protocol: str | UnsetType | None = UNSET
    request_type: Int16 | UnsetType | None = UNSET
    request_version: Int16 | UnsetType | None = UNSET
    client_id: str | UnsetType | None = UNSET
    correlation_id: Int32 | UnsetType | None = UNSET


class Action(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    """`schemas.Action`, field by field."""

    operation: str
    resource_type: str
    resource_name: str
    pattern_type: str | UnsetType = UNSET
    resource_reference_count: Int32 | UnsetType = UNSET
    log_if_allowed: bool | UnsetType = UNSET
    log_if_denied: bool | UnsetType = UNSET


class AuthorizeRequest(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    """`schemas.AuthorizeRequest`, field by field."""

    context: Context
    actions: list[Action]
    at_least: str | UnsetType | None = UNSET


_DECODER = msgspec.json.Decoder(AuthorizeRequest)


def decode_authorize(body: bytes) -> AuthorizeRequest:
    """The request in a body. Raises InvalidRequestException, with the words of every other route."""
    try:
        request = _DECODER.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as fault:
        raise _refusal(body, fault) from None
    check_count("/actions", len(request.actions))
    if b"\\" in body or not _adds_up(body.count(b":"), request):
        parse(body)
    return request


def _adds_up(colons: int, request: AuthorizeRequest) -> bool:
    """Whether these colons are accounted for; see the head of this module."""
    actions = request.actions
    left = colons - _outside_of_actions(request) - 3 * len(actions)
    if left <= 0:
        return left == 0
    for action in actions:
        left -= (
            (action.pattern_type is not UNSET)
            + (action.resource_reference_count is not UNSET)
            + (action.log_if_allowed is not UNSET)
            + (action.log_if_denied is not UNSET)
        )
    # Words that Kafka doesn't know may hold colons too; they are refused later, and may cost a second reading.
    return left == 0 or left == sum([action.resource_name.count(":") for action in actions])


def _outside_of_actions(request: AuthorizeRequest) -> int:
    """Keys and colons of everything but the actions' own."""
    context = request.context
    count = 4 + context.principal.count(":") + context.client_address.count(":")
    for value in (
        request.at_least,
        context.listener_name,
        context.security_protocol,
        context.request_type,
        context.request_version,
        context.client_id,
        context.correlation_id,
    ):
        if value is not UNSET:
            count += 1 + value.count(":") if value.__class__ is str else 1
    return count


def _refusal(body: bytes, fault: Exception) -> ApiException:
    """What every other route would say of this body; msgspec's own words only if they would take it."""
    try:
        schemas.AuthorizeRequest.model_validate(parse(body))
    except ApiException as refusal:
        return refusal
    except ValidationError as errors:
        return refusal_of(errors.errors(include_url=False, include_input=False))
    return InvalidRequestException(str(fault))
