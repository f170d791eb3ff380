"""Rights: what a caller may ask or do, by the image in use (KIP-140). Every check raises an ApiException."""

from typing import NamedTuple

from app.core.authorize import Authorization
from app.core.context import Reader, RequestContext, RoleGrant
from app.core.grouped import GroupedAuthorization
from app.core.groups import Groups
from app.core.image import AuthorizerImage
from app.core.kafka.codes import CLUSTER_NAME, AclOperation, ResourceType
from app.core.kafka.errors import AuthorizerNotReadyException, ClusterAuthorizationException, SecurityDisabledException
from app.core.kafka.hosts import ClientAddress
from app.runtime.present import PresentImage
from app.runtime.readiness import Readiness

_REFUSED = "cluster authorization failed"


class ExplainedCaller(NamedTuple):
    """Whom an explanation is about; it decides nothing, so no right to speak for that principal is needed."""

    principal: str
    client_address: ClientAddress
    groups: Groups | None = None


class Rights:
    def __init__(self, present: PresentImage, readiness: Readiness, *, enabled: bool) -> None:
        self._present = present
        self._readiness = readiness
        self._enabled = enabled

    def authorization(self, context: RequestContext) -> Authorization:
        """The caller against the present image; with authorizer.enabled=false everyone is unrestricted.

        Raises ClusterAuthorizationException for a super user whom the sender may not speak for, and
        AuthorizerNotReadyException for anyone but super users before the first load and while fenced.
        """
        # INVARIANT: the image that decides also says who the super users are.
        image = self._present.image
        if context.principal in image.config.super_users:
            context.check_super_user()
        return self._authorization_of(image, context.principal, context.client_address, context.groups)

    def authorization_then(self, context: RequestContext, image: AuthorizerImage) -> Authorization:
        """The caller against an image of the past. It needs its present rights too: raises as `authorization`."""
        self.authorization(context)
        # INVARIANT: only a sender that may speak for super users speaks for a principal that was one then.
        if context.principal in image.config.super_users:
            context.check_super_user()
        return self._authorization_of(image, context.principal, context.client_address, context.groups)

    def explained(
        self, context: RequestContext, about: ExplainedCaller, image: AuthorizerImage
    ) -> tuple[Authorization, bool]:
        """The caller to explain, against an image, and whether the asker sees ACLs of others.

        Raises ClusterAuthorizationException, AuthorizerNotReadyException.
        """
        sees_all = self.may_explain(context, about)
        return self._authorization_of(image, *about), sees_all

    def check_super_user(self, context: RequestContext) -> None:
        """`authorization` checks it as well; this is for requests that wait before the decision."""
        if context.principal in self._present.image.config.super_users:
            context.check_super_user()

    def may_explain(self, context: RequestContext, about: ExplainedCaller) -> bool:
        """Whether the asker sees ACLs of others. Raises ClusterAuthorizationException if it may not ask at all."""
        sees_all = self.has_right(context, AclOperation.DESCRIBE)
        if not (sees_all or _is_itself(about, context)):
            raise ClusterAuthorizationException(_REFUSED)
        return sees_all

    def check_reader(self, reader: Reader, *operations: AclOperation) -> None:
        """Raises ClusterAuthorizationException for a principal that lacks one of these rights; a role needs none."""
        if not isinstance(reader, RoleGrant):
            for operation in operations:
                self.check_right(reader, operation)

    def check_configs(self, reader: Reader) -> None:
        """Whether the reader may see properties, of which `super.users` is one."""
        self.check_reader(reader, AclOperation.DESCRIBE_CONFIGS)

    def sees_configs(self, context: RequestContext) -> bool:
        """As `check_configs`. INVARIANT: whatever shows properties asks one of these two."""
        return self.has_right(context, AclOperation.DESCRIBE_CONFIGS)

    def check_watch(self, reader: Reader) -> None:
        """Whether the reader may see the feed: every ACL, every property and every change."""
        self.check_enabled()
        self.check_reader(reader, AclOperation.DESCRIBE)
        self.check_configs(reader)

    def super_users_in(self, context: RequestContext, image: AuthorizerImage) -> frozenset[str] | None:
        """The super users of this image, present or past; None if the asker may not see properties now."""
        return image.config.super_users if self.sees_configs(context) else None

    def check_cluster_right(self, context: RequestContext, operation: AclOperation) -> None:
        self.check_described()
        self.check_right(context, operation)

    def check_described(self) -> None:
        """Raises SecurityDisabledException, AuthorizerNotReadyException."""
        self.check_enabled()
        self.check_loaded()

    def check_enabled(self) -> None:
        if not self._enabled:
            raise SecurityDisabledException("no authorizer is enabled; set `authorizer.enabled` to have ACLs")

    def check_loaded(self) -> None:
        if not self._present.image.loading_complete:
            raise AuthorizerNotReadyException("the ACLs are not loaded yet; try again shortly")

    def has_right(self, context: RequestContext, operation: AclOperation) -> bool:
        """Whether the context's principal may do this on the cluster."""
        return self.authorization(context).decide(operation, ResourceType.CLUSTER, CLUSTER_NAME).allowed

    def check_right(self, context: RequestContext, operation: AclOperation) -> None:
        if not self.has_right(context, operation):
            # The same text whatever was asked: a refusal must not reveal what exists.
            raise ClusterAuthorizationException(_REFUSED)

    def _authorization_of(
        self, image: AuthorizerImage, principal: str, address: ClientAddress, groups: Groups | None
    ) -> Authorization:
        unrestricted = not self._enabled
        # `core.grouped.authorization_of` would be one call more on the hot path.
        if groups is None:
            caller = Authorization(image, principal, address, unrestricted=unrestricted)
        else:
            caller = GroupedAuthorization(image, principal, address, groups, unrestricted=unrestricted)
        if not caller.is_super_user and self._readiness.fenced:
            raise AuthorizerNotReadyException("the ACLs are older than `max.staleness.ms` allows; try again shortly")
        return caller


def _is_itself(about: ExplainedCaller, context: RequestContext) -> bool:
    # INVARIANT: a caller that sees no ACLs of others is shown those of its own groups, and of no other groups.
    own = () if context.groups is None else context.groups.principals
    return about.principal == context.principal and (about.groups is None or {*about.groups.principals} <= {*own})
