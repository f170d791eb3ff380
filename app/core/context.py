"""Whom a request speaks for: principal and address of KIP-504's AuthorizableRequestContext, and groups; all checked.

Both types are abstract, so that code that forgot to check the caller can ask neither `Authorizer` nor anything behind
it: only that check (`app.rest.callers.roles`) has the classes that can be instantiated.
"""

from abc import ABC, abstractmethod

from app.core.groups import Groups
from app.core.kafka.hosts import ClientAddress


class RequestContext(ABC):
    """A principal at an address, for whom the sender of the request may speak, and groups that it may assert.

    INVARIANT: decisions use no groups but those of a context.
    """

    __slots__ = ("client_address", "groups", "principal")

    def __init__(self, principal: str, client_address: ClientAddress, groups: Groups | None = None) -> None:
        self.principal = principal
        self.client_address = client_address
        self.groups = groups

    @abstractmethod
    def check_super_user(self) -> None:
        """Raise ClusterAuthorizationException unless the sender may speak for a super user, too.

        Only the image that decides knows who the super users are, so it is called there.
        """


class RoleGrant(ABC):
    """A caller that may read by its role alone: it speaks for no principal whose rights could be checked."""

    __slots__ = ()

    @property
    @abstractmethod
    def caller_name(self) -> str:
        """The name of that caller."""


Reader = RequestContext | RoleGrant
"""Who reads: a principal that needs the right, or a caller whose role is the right."""
