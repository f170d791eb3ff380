"""Whom a caller may speak for: the only place that makes a `RequestContext` or a `RoleGrant`."""

from starlette.types import Scope

from app.core.context import Reader, RequestContext, RoleGrant
from app.core.kafka.hosts import ClientAddress, parse_address
from app.rest.bodies.fields import client_address, untyped_principal
from app.rest.callers.roles import Caller

_LOOPBACK = "127.0.0.1"


class _SpokenFor(RequestContext):
    __slots__ = ("_caller",)

    def __init__(self, principal: str, address: ClientAddress, caller: Caller) -> None:
        # Without the base class: this is on the hot path.
        self.principal = principal
        self.client_address = address
        self._caller = caller

    def check_super_user(self) -> None:
        if not self._caller.speaks_for_super_users:
            raise self._caller.principal_refusal()


class _Granted(RoleGrant):
    __slots__ = ("_caller",)

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    @property
    def caller_name(self) -> str:
        return self._caller.name


def speak(caller: Caller, principal: str, address: str, scope: Scope | None) -> RequestContext:
    """The context that a request names, if its caller may speak for that principal.

    Without a scope there is no socket to look at, as callers with `acts_from_its_socket` need.
    Raises InvalidFieldsException, ClusterAuthorizationException.
    """
    if ":" not in principal:
        raise untyped_principal(principal)
    if not caller.speaks_for(principal):
        raise caller.principal_refusal()
    named = client_address(address)
    if caller.acts_from_its_socket:
        named = peer_address(scope)
    return _SpokenFor(principal, named, caller)


def read(caller: Caller, scope: Scope) -> Reader:
    """Who reads by a request without a context: an admin caller's principal, or a caller by its role."""
    if caller.principal is None:
        return _Granted(caller)
    return _SpokenFor(caller.principal, peer_address(scope), caller)


def peer_address(scope: Scope | None) -> ClientAddress:
    """The client's address; loopback for a Unix socket, whose clients are on this machine."""
    if scope is None:
        raise ValueError("the address of this caller is that of its socket, and no socket was given")
    client = scope.get("client")
    # An IPv6 address may have a zone.
    return parse_address(client[0].partition("%")[0] if client else _LOOPBACK)
