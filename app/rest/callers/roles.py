"""Who asks: the caller behind a request, what it may call, and whom it may speak for.

The principal in a request's context is a claim of the caller; only its role gives it the right to make that claim.
"""

from collections.abc import Container
from dataclasses import dataclass, field
from enum import Enum
from typing import Protocol

from app.core.kafka.errors import ClusterAuthorizationException, ThrottlingQuotaExceededException


class Role(Enum):
    """What a caller is for. OPEN is everybody's where no callers are configured."""

    DECIDE = "decide"
    ADMIN = "admin"
    OBSERVE = "observe"
    OPEN = "open"


FULL = (Role.ADMIN, Role.OPEN)
"""Those to whom every operation is open. INVARIANT: it is open to nobody else unless its route says so."""
DECIDERS = (*FULL, Role.DECIDE)
OBSERVERS = (*FULL, Role.OBSERVE)


class Limit(Protocol):
    """A quota of requests."""

    def has_room(self) -> bool:
        """Whether one more would be within it."""

    def take(self) -> bool:
        """Whether one more request is within it."""


@dataclass(frozen=True, slots=True, eq=False)
class Caller:
    """One that may ask. `principal` is who an admin caller is; `patterns` say whom a decide caller may speak for."""

    name: str
    role: Role
    principal: str | None = None
    patterns: tuple[str, ...] = ()
    may_assert_super: bool = False
    may_assert_address: bool = False
    """Whether an admin caller may name the address that it acts from: a broker or gateway that speaks for clients."""
    limit: Limit | None = None
    acts_from_its_socket: bool = field(init=False)
    """Whether the address that counts is the connection's, whatever a request says."""
    speaks_for_super_users: bool = field(init=False)
    """Whether those for whom it speaks may be super users."""
    _principals: frozenset[str] = field(init=False)
    _beginnings: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        from_socket = self.role is Role.ADMIN and not self.may_assert_address
        object.__setattr__(self, "acts_from_its_socket", from_socket)
        # INVARIANT: super users pass where nobody else does, so speaking for one is a right of its own.
        for_super_users = self.role is not Role.DECIDE or self.may_assert_super
        object.__setattr__(self, "speaks_for_super_users", for_super_users)
        exact = (each for each in self.patterns if not each.endswith("*"))
        object.__setattr__(self, "_principals", frozenset(exact))
        object.__setattr__(self, "_beginnings", tuple(each[:-1] for each in self.patterns if each.endswith("*")))

    @property
    def share(self) -> str | None:
        """Under which name its part of bounded things is counted; None: nobody else could be kept from them."""
        return None if self.role is Role.OPEN else self.name

    def speaks_for(self, principal: str) -> bool:
        """Whether it may speak for this principal, as long as that is no super user."""
        if self.role is Role.DECIDE:
            return principal in self._principals or principal.startswith(self._beginnings)
        if self.role is Role.ADMIN:
            return principal == self.principal
        return self.role is Role.OPEN

    def principal_refusal(self) -> ClusterAuthorizationException:
        """What it is told for a principal that it may not speak for, the same whoever that is."""
        return ClusterAuthorizationException(
            f"the caller `{self.name}` may not speak for the principal of this context"
        )

    def check_operation(self, operation: str, open_to: Container[Role]) -> None:
        """Raise ClusterAuthorizationException for a call that is not for this role, or ThrottlingQuotaExceeded."""
        if self.role not in open_to:
            raise ClusterAuthorizationException(
                f"the caller `{self.name}` has the role {self.role.value}, which is not for {operation}"
            )
        if self.limit is not None and not self.limit.take():
            raise ThrottlingQuotaExceededException(
                f"the caller `{self.name}` asks more often than its `requests_per_second` allow; try again shortly"
            )


ANYBODY = Caller("anybody", Role.OPEN)
"""Whoever asks where no callers are configured."""


class TokenRefusedError(Exception):
    """Credentials that prove nothing; `reason` is a word for the log and the metrics, never for the caller."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason
