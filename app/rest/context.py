"""The caller as a request names it: principal and client address, checked; nothing is looked up or resolved."""

from typing import TypeVar

from msgspec import UNSET, UnsetType
from starlette.requests import Request

from app.core.authorize import RequestContext
from app.core.errors import InvalidRequestException
from app.core.hosts import ClientAddress, parse_address
from app.rest.callers.roles import Caller
from app.rest.errors import invalid_field
from app.rest.schemas import AuthorizableRequestContext
from app.rest.wire import Context

T = TypeVar("T")


def client_address(text: str, where: str = "/context") -> ClientAddress:
    """The address of the `client_address` in the context, or in what else names a client."""
    try:
        return parse_address(text)
    except InvalidRequestException as refusal:
        raise invalid_field(f"{where}/client_address", refusal.message) from None


def check_principal(principal: str, where: str = "/context") -> None:
    """Refuse a principal that has no type."""
    if ":" not in principal:
        raise invalid_field(
            f"{where}/principal",
            f"`{principal[:100]}` has no colon between type and name; send for example `User:alice`",
        )


def request_context(body: AuthorizableRequestContext | Context) -> RequestContext:
    """The context as core takes it."""
    check_principal(body.principal)
    return RequestContext(
        principal=body.principal,
        client_address=client_address(body.client_address),
        listener_name=given(body.listener_name),
        security_protocol=given(body.security_protocol),
        request_type=given(body.request_type),
        request_version=given(body.request_version),
        client_id=given(body.client_id),
        correlation_id=given(body.correlation_id),
    )


def own_context(caller: Caller, request: Request) -> RequestContext | None:
    """What an admin caller asks for itself, from where it is connected; None: its role alone says that it may."""
    if caller.principal is None:
        return None
    # There is no address on a Unix socket, and an IPv6 one may name a network card.
    host = request.client.host if request.client is not None else "127.0.0.1"
    return RequestContext(caller.principal, parse_address(host.partition("%")[0]))


def seconds(milliseconds: int | UnsetType | None) -> float | None:
    """A caller's timeout, if it has one."""
    limit = given(milliseconds)
    return None if limit is None else limit / 1000


def given(value: T | UnsetType | None) -> T | None:
    """The value of an optional field; a field that is absent means the same as null."""
    return None if value is UNSET else value
