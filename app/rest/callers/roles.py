"""Callers: what each may call, and which principals it may speak for.

The principal in a request's context is a claim of the caller, which only its role gives it the right to make.
"""

import re
from collections.abc import Container, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from time import perf_counter

from starlette.types import Scope

from app.core.context import Reader, RequestContext, RoleGrant
from app.core.groups import MAX_GROUP_NAME, MAX_GROUPS, Groups, groups_of
from app.core.kafka.errors import (
    ClusterAuthorizationException,
    InvalidRequestException,
    ThrottlingQuotaExceededException,
)
from app.core.kafka.hosts import ClientAddress, parse_address
from app.core.readable import backticked
from app.rest.bodies.fields import AuthorizableRequestContext, read_groups
from app.rest.callers.rate_limits import RateLimit
from app.rest.errors import InvalidFieldsException, invalid_field

_LOOPBACK = "127.0.0.1"
# No JSON body may hold these either, so no ACL and no context names such a group.
_NO_TEXT = re.compile("[\x00\ud800-\udfff]")


class Role(Enum):
    """OPEN is everybody's role where no callers are configured; NOBODY's may call nothing."""

    DECIDE = "decide"
    ADMIN = "admin"
    OBSERVE = "observe"
    FOLLOW = "follow"
    OPEN = "open"
    NOBODY = "nobody"


FULL = (Role.ADMIN, Role.OPEN)
"""Roles that may call every operation. INVARIANT: others may call it only if its route says so."""
DECIDERS = (*FULL, Role.DECIDE)
OBSERVERS = (*FULL, Role.OBSERVE)
FOLLOWERS = (*FULL, Role.FOLLOW)
"""For watch, updates and questions about the past: a follower hands on those of principals that it may speak for."""
_BY_PATTERNS = (Role.DECIDE, Role.FOLLOW)


def _split(patterns: tuple[str, ...]) -> tuple[frozenset[str], tuple[str, ...]]:
    """The whole names, and the prefixes that the other patterns name."""
    beginnings = tuple(each[:-1] for each in patterns if each.endswith("*"))
    return frozenset(each for each in patterns if not each.endswith("*")), beginnings


@dataclass(frozen=True, slots=True, eq=False)
class Caller:
    """`principal` is the admin caller itself; `patterns` say which principals others may speak for.

    `groups` says which groups it may assert for those it speaks for: names, or prefixes followed by `*`;
    `proven_groups` are those that this request's token names.
    """

    name: str
    role: Role
    principal: str | None = None
    patterns: tuple[str, ...] = ()
    may_assert_super: bool = False
    may_assert_address: bool = False
    """Whether an admin caller may name the client's address: for brokers and gateways."""
    limit: RateLimit | None = None
    groups: tuple[str, ...] = ()
    groups_claim: str | None = None
    """The claim of its JWTs that names more groups which it may assert."""
    proven_groups: frozenset[str] = frozenset()
    share: str | None = field(init=False)
    """The name under which its share of bounded resources is counted; None if there is no other caller."""
    acts_from_its_socket: bool = field(init=False)
    speaks_for_super_users: bool = field(init=False)
    own_groups: Groups | None = field(init=False)
    """The groups of an admin caller's token, which count whether or not its request names them."""
    _principals: frozenset[str] = field(init=False)
    _beginnings: tuple[str, ...] = field(init=False)
    _groups: frozenset[str] = field(init=False)
    _group_beginnings: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "share", None if self.role in (Role.OPEN, Role.NOBODY) else self.name)
        from_socket = self.role is Role.ADMIN and not self.may_assert_address
        object.__setattr__(self, "acts_from_its_socket", from_socket)
        # INVARIANT: super users pass where nobody else does, so speaking for one is a separate right.
        for_super_users = self.role not in _BY_PATTERNS or self.may_assert_super
        object.__setattr__(self, "speaks_for_super_users", for_super_users)
        # INVARIANT: a caller acting for itself can't omit a group that its token names, to escape that group's DENYs.
        own = groups_of(self.proven_groups) if self.role is Role.ADMIN else None
        object.__setattr__(self, "own_groups", own)
        exact, beginnings = _split(self.patterns)
        object.__setattr__(self, "_principals", exact)
        object.__setattr__(self, "_beginnings", beginnings)
        exact, beginnings = _split(self.groups)
        object.__setattr__(self, "_groups", exact | self.proven_groups)
        object.__setattr__(self, "_group_beginnings", beginnings)

    def speaks_for(self, principal: str) -> bool:
        """Whether it may speak for this principal, unless that is a super user."""
        if self.role in _BY_PATTERNS:
            return principal in self._principals or principal.startswith(self._beginnings)
        if self.role is Role.ADMIN:
            return principal == self.principal
        return self.role is Role.OPEN

    def may_assert(self, group: str) -> bool:
        """Whether it may say that the principal it speaks for is in this group."""
        return group in self._groups or group.startswith(self._group_beginnings) or self.role is Role.OPEN

    def proven_by(self, claims: Mapping[str, object]) -> "Caller":
        """The same with the groups that its verified token names. Raises TokenRefusedError for what names none."""
        if self.groups_claim is None or self.groups_claim not in claims:
            return self
        named = claims[self.groups_claim]
        names = [named] if isinstance(named, str) else named
        if not (isinstance(names, list) and all(map(_is_group, names))):
            raise TokenRefusedError("jwt_groups")
        groups = frozenset(names)
        if len(groups) > MAX_GROUPS:
            raise TokenRefusedError("jwt_groups")
        return replace(self, proven_groups=groups)

    def groups_refusal(self) -> ClusterAuthorizationException:
        """The same text for every group."""
        return ClusterAuthorizationException(f"the caller `{self.name}` may not assert the groups of this context")

    def principal_refusal(self) -> ClusterAuthorizationException:
        """The same text for every principal."""
        return ClusterAuthorizationException(
            f"the caller `{self.name}` may not speak for the principal of this context"
        )

    def check_role(self, operation: str, open_to: Container[Role]) -> None:
        """Raises ClusterAuthorizationException."""
        if self.role not in open_to:
            raise ClusterAuthorizationException(
                f"the caller `{self.name}` has the role {self.role.value}, which may not call {operation}"
            )

    def check_operation(self, operation: str, open_to: Container[Role]) -> None:
        """Raises ClusterAuthorizationException, ThrottlingQuotaExceededException."""
        self.check_role(operation, open_to)
        if self.limit is not None and not self.limit.take(perf_counter()):
            raise ThrottlingQuotaExceededException(
                f"the caller `{self.name}` exceeds its `requests_per_second`; try again shortly"
            )


NOBODY = Caller("nobody", Role.NOBODY)
"""The caller of routes that need none, whatever the request shows."""


class TokenRefusedError(Exception):
    """`reason` is for the log and the metrics, never for the caller."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class _SpokenFor(RequestContext):
    __slots__ = ("_caller",)

    def __init__(self, principal: str, address: ClientAddress, caller: Caller, groups: Groups | None) -> None:
        # Not by the base class: this is on the hot path.
        self.principal = principal
        self.client_address = address
        self.groups = groups
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


def speak(caller: Caller, claim: AuthorizableRequestContext, scope: Scope | None) -> RequestContext:
    """The context that a request claims, if its caller may speak for that principal and assert those groups.

    Without a scope there is no socket to look at, as callers with `acts_from_its_socket` need.
    Raises InvalidFieldsException, ClusterAuthorizationException.
    """
    principal = claim.principal
    if ":" not in principal:
        raise untyped_principal(principal)
    if not caller.speaks_for(principal):
        raise caller.principal_refusal()
    named = client_address(claim.client_address)
    if caller.acts_from_its_socket:
        named = peer_address(scope)
    groups = _asserted(caller, claim.groups) if claim.groups else caller.own_groups
    return _SpokenFor(principal, named, caller, groups)


def _asserted(caller: Caller, names: tuple[str, ...]) -> Groups | None:
    # INVARIANT: a caller that may not assert one of them asserts none.
    if not all(map(caller.may_assert, names)):
        raise caller.groups_refusal()
    asserted = read_groups(names)
    if caller.own_groups is None or asserted is None:
        return asserted
    found = Groups({*asserted.names, *caller.own_groups.names})
    if len(found.principals) > MAX_GROUPS:
        raise invalid_field(
            "/context/groups",
            f"these are {len(found.principals)} groups together with those in the token; send fewer, as the limit "
            f"is {MAX_GROUPS}",
        )
    return found


def read(caller: Caller, scope: Scope) -> Reader:
    """Who reads, for a request without a context: an admin caller's principal, or a caller by its role."""
    if caller.principal is None:
        return _Granted(caller)
    return _SpokenFor(caller.principal, peer_address(scope), caller, caller.own_groups)


def _is_group(name: object) -> bool:
    """Whether a context could name this group."""
    return isinstance(name, str) and 0 < len(name) <= MAX_GROUP_NAME and not _NO_TEXT.search(name)


def peer_address(scope: Scope | None) -> ClientAddress:
    """Loopback for a Unix socket, whose clients are on this machine."""
    if scope is None:
        raise ValueError("the caller's address is taken from its connection, but there is no connection")
    client = scope.get("client")
    # An IPv6 address may have a zone.
    return parse_address(client[0].partition("%")[0] if client else _LOOPBACK)


def client_address(text: str, where: str = "/context") -> ClientAddress:
    """The address that the context, or another object with a `client_address`, names. Nothing is resolved."""
    try:
        return parse_address(text)
    except InvalidRequestException as refusal:
        raise invalid_field(f"{where}/client_address", refusal.message) from None


def check_principal(principal: str, where: str = "/context") -> None:
    if ":" not in principal:
        raise untyped_principal(principal, where)


def untyped_principal(principal: str, where: str = "/context") -> InvalidFieldsException:
    return invalid_field(
        f"{where}/principal",
        f"{backticked(principal, 100)} has no colon between type and name; send for example `User:alice`",
    )
