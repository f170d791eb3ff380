"""The caller as a request names it: principal and client address, checked; nothing is looked up or resolved."""

from app.core.authorize import RequestContext
from app.core.errors import InvalidRequestException
from app.core.hosts import ClientAddress, parse_address
from app.rest.errors import invalid_field
from app.rest.schemas import AuthorizableRequestContext


def client_address(text: str) -> ClientAddress:
    """The address of `context.client_address`."""
    try:
        return parse_address(text)
    except InvalidRequestException as refusal:
        raise invalid_field("/context/client_address", refusal.message) from None


def check_principal(principal: str) -> None:
    """Refuse a principal that has no type."""
    if ":" not in principal:
        raise invalid_field(
            "/context/principal",
            f"`{principal[:100]}` has no colon between type and name; send for example `User:alice`",
        )


def request_context(body: AuthorizableRequestContext) -> RequestContext:
    """The context as core takes it."""
    check_principal(body.principal)
    return RequestContext(
        principal=body.principal,
        client_address=client_address(body.client_address),
        listener_name=body.listener_name,
        security_protocol=body.security_protocol,
        request_type=body.request_type,
        request_version=body.request_version,
        client_id=body.client_id,
        correlation_id=body.correlation_id,
    )


def seconds(milliseconds: int | None) -> float | None:
    """A caller's timeout, if it has one."""
    return None if milliseconds is None else milliseconds / 1000
