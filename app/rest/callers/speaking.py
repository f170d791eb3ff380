"""The check of the caller: whom it may speak for. The only place that makes a `RequestContext` or a `RoleGrant`."""

from starlette.types import Scope

from app.core.context import Reader, RequestContext, RoleGrant
from app.core.kafka.hosts import ClientAddress, parse_address
from app.rest.bodies.fields import client_address, untyped_principal
from app.rest.callers.roles import Caller

_LOOPBACK = "127.0.0.1"


class _SpokenFor(RequestContext):
    __slots__ = ("_caller",)

    def __init__(self, principal: str, address: ClientAddress, caller: Caller) -> None:
        # Not by way of the base class: this is made once a request, on the hot path.
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
    """Whom a request names in its context, if its caller may speak for that principal.

    Without a scope there is no socket to look at: only for callers whose word counts (`acts_from_its_socket`).
    Raises InvalidFieldsException for what is no principal or no address, ClusterAuthorizationException.
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
    """Who reads where no principal is named: an admin caller's own, or a caller whose role alone is the right."""
    if caller.principal is None:
        return _Granted(caller)
    return _SpokenFor(caller.principal, peer_address(scope), caller)


def peer_address(scope: Scope | None) -> ClientAddress:
    """The address of the socket's other end. A Unix socket has none: whoever has come that way is on this machine."""
    if scope is None:
        raise ValueError("the address of this caller is that of its socket, and no socket was given")
    client = scope.get("client")
    # An IPv6 address may name a network card.
    return parse_address(client[0].partition("%")[0] if client else _LOOPBACK)
