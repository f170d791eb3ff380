"""Contexts for tests of what stands behind the edge: nobody has checked who asks."""

from app.core.context import RequestContext, RoleGrant
from app.core.groups import Groups
from app.core.kafka.errors import ClusterAuthorizationException
from app.core.kafka.hosts import ClientAddress


class Unchecked(RequestContext):
    """Speaks for whoever is named, and for super users if it may."""

    def __init__(
        self, principal: str, client_address: ClientAddress, groups: Groups | None = None, *, may_be_super: bool = True
    ) -> None:
        super().__init__(principal, client_address, groups)
        self.may_be_super = may_be_super

    def check_super_user(self) -> None:
        if not self.may_be_super:
            raise ClusterAuthorizationException("not for super users")


class Granted(RoleGrant):
    """Reads by its role."""

    @property
    def caller_name(self) -> str:
        return "observer"


GRANTED = Granted()
