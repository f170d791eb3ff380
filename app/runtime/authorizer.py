"""Kafka's Authorizer (KIP-504): decisions from the image in memory, updates by way of the store."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal, NamedTuple
from uuid import UUID

from app.core.access.what import Holding, WhatQuestion
from app.core.access.who import Holder, WhoQuestion
from app.core.authorize import Authorization, Verdict
from app.core.context import Reader, RequestContext, RoleGrant
from app.core.explain.misses import Question
from app.core.explain.why import Explanation
from app.core.grouped import GroupedAuthorization
from app.core.groups import Groups
from app.core.image import AuthorizerImage
from app.core.kafka.bindings import NewAcl, StandardAcl
from app.core.kafka.codes import CLUSTER_NAME, AclOperation, ResourceType
from app.core.kafka.configs import CONFIG_NAMES, AuthorizerConfig, describe
from app.core.kafka.errors import (
    ApiException,
    AuthorizerNotReadyException,
    ClusterAuthorizationException,
    InconsistentClusterIdException,
    InvalidRequestException,
    OffsetNotAvailableException,
    ResourceNotFoundException,
    SecurityDisabledException,
)
from app.core.kafka.filters import AclBindingFilter
from app.core.kafka.hosts import ClientAddress
from app.core.kafka.validation import check_comment
from app.core.mutations import CreatedAcl
from app.core.token import Token
from app.metrics.declared import Metrics
from app.runtime.access import AccessPage, what_can, who_can
from app.runtime.deciding import A, Q, by_resource_type, decide_each
from app.runtime.expiry import Expiry
from app.runtime.explaining import explain_all
from app.runtime.listing import AclPage, list_acls
from app.runtime.loader import Loader
from app.runtime.mutator import Mutator
from app.runtime.options import RuntimeOptions
from app.runtime.ports import AclStore, ChangeFeed, Images
from app.runtime.purgatory import OTHER_EPOCH, Purgatory
from app.runtime.readiness import Readiness, StartRequest
from app.runtime.state.keeping import StateKeeper
from app.runtime.updates import ConfigChange, Updates
from app.runtime.watch.watchers import Watchers

LiteralAction = tuple[AclOperation, ResourceType, str]

_REFUSED = "cluster authorization failed"


class ExplainedCaller(NamedTuple):
    """Whom an explanation is about; it decides nothing, so no right to speak for that principal is needed."""

    principal: str
    client_address: ClientAddress
    groups: Groups | None = None


@dataclass(frozen=True, slots=True)
class ConfigEntry:
    name: str
    value: str
    source: Literal["STARTUP", "STORE"]


class Authorizer:
    """What rest calls. Decisions never wait: what `authorization` returns holds for one request, to its next await."""

    def __init__(
        self,
        store: AclStore,
        feed: ChangeFeed,
        startup: AuthorizerConfig,
        options: RuntimeOptions = RuntimeOptions(),  # noqa: B008 - frozen
        metrics: Metrics | None = None,
    ) -> None:
        self.enabled = options.enabled
        self.metrics = metrics or Metrics()
        self.readiness = Readiness(startup, options.clock)
        self._options = options
        self.startup = startup
        self._purgatory = Purgatory(options.max_delayed_operations, self.metrics)
        self.watchers = Watchers(feed, self.readiness, self.metrics, options)
        self._loader = Loader(feed, startup, self.watchers, self._purgatory, self.metrics, options)
        self._keeper = None if options.state is None else StateKeeper(self.watchers, options.state, self.metrics)
        self._present = self._loader.present
        self._mutator = Mutator(store, self._loader.known, self.metrics, options)
        self._expiry = Expiry(self._loader, self._mutator, self.metrics, options)
        self._updates = Updates(self._mutator, self._loader, self._purgatory, self.metrics, options)

    @property
    def image(self) -> AuthorizerImage:
        """To be read once per request, so that the whole answer is of one offset."""
        return self._present.image

    def open(self) -> None:
        self.watchers.open()
        self._loader.open()
        self._mutator.open()
        if self._keeper is not None:
            self._keeper.open()
        self._expiry.open()

    async def start(self, request: StartRequest, wait_s: float) -> list[tuple[str, bool]]:
        """Each listener's readiness, once all are ready or the wait is over (KIP-504).

        Raises InconsistentClusterIdException as soon as the store's cluster is known to be another one.
        """
        self._check_cluster_id(request)
        names = [endpoint.listener_name for endpoint in request.endpoints]
        self.readiness.register(names)
        await self.readiness.wait_until_ready(names, self._within(wait_s))
        self._check_cluster_id(request)
        return [(name, self.readiness.ready(name)) for name in names]

    async def close(self) -> None:
        self.readiness.draining()
        await self.watchers.close()
        if self._keeper is not None:
            await self._keeper.close()
        await self._expiry.close()
        await self._mutator.close()
        await self._purgatory.drained(self._options.drain_timeout_s)
        self._purgatory.close()
        await self._loader.close()

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

    async def decide_each(
        self,
        context: RequestContext,
        questions: Sequence[Q],
        answer: Callable[[Authorization, Q], A],
        then: Images | None = None,
    ) -> tuple[list[A], Token | None]:
        """Of the image in use, or of `then`, an image of the past."""
        if then is None:
            return await decide_each(self._loader, lambda: self.authorization(context), questions, answer)

        def authorization() -> Authorization:
            self.authorization(context)
            # INVARIANT: whoever was a super user then is spoken for only by who may speak for one.
            if context.principal in then.image.config.super_users:
                context.check_super_user()
            return self._authorization_of(then.image, context.principal, context.client_address, context.groups)

        return await decide_each(then, authorization, questions, answer)

    async def by_resource_type(
        self, context: RequestContext, operation: int, resource_type: int
    ) -> tuple[Verdict, Token | None]:
        return await by_resource_type(self._loader, lambda: self.authorization(context), operation, resource_type)

    def check_super_user(self, context: RequestContext) -> None:
        """`authorization` checks it as well; this is for those who wait before the decision."""
        if context.principal in self._loader.image.config.super_users:
            context.check_super_user()

    def _authorization_of(
        self, image: AuthorizerImage, principal: str, address: ClientAddress, groups: Groups | None
    ) -> Authorization:
        unrestricted = not self.enabled
        # Not by `authorization_of`: this is on the hot path.
        if groups is None:
            caller = Authorization(image, principal, address, unrestricted=unrestricted)
        else:
            caller = GroupedAuthorization(image, principal, address, groups, unrestricted=unrestricted)
        if not caller.is_super_user and self.readiness.fenced:
            raise AuthorizerNotReadyException("the ACLs are older than `max.staleness.ms` allows; try again shortly")
        return caller

    def has_reached(self, at_least: str | None) -> bool:
        """Whether `wait_for` would return, or raise, without any wait."""
        if at_least is None:
            return True
        try:
            token = Token.parse(at_least)
        except InvalidRequestException:
            return True
        return not self._loader.image.loading_complete or self._purgatory.has_passed(token)

    async def wait_for(self, at_least: str | None, *, other_epoch: str = OTHER_EPOCH) -> None:
        """Raises InvalidRequestException, TokenEpochMismatchException, AuthorizerNotReadyException before the first
        load, OffsetNotAvailableException if the image does not reach the token within the request timeout.
        """
        if at_least is None:
            return
        token = Token.parse(at_least)
        image = self._loader.image
        self.check_loaded()
        if token.epoch != image.epoch or token.offset > image.offset:
            # The caller knows of a later state than this process: a hint may have been lost.
            self._loader.nudge()
        try:
            await self._purgatory.wait_for(token, self._options.request_timeout_s, other_epoch)
        except TimeoutError:
            raise OffsetNotAvailableException(
                f"this replica is at `{self._loader.image.token}` and did not reach `{token}` in time; try again"
            ) from None

    async def explain(
        self,
        context: RequestContext,
        about: ExplainedCaller,
        actions: Sequence[LiteralAction],
        then: Images | None = None,
    ) -> tuple[list[Explanation], Token | None]:
        """Why `about` is, or was `then`, allowed or denied each action, all at the token's offset.

        Without DESCRIBE on the cluster a caller may ask only about its own principal, and sees no ACLs of others.
        Raises ClusterAuthorizationException, with the same text whoever was asked about; AuthorizerNotReadyException.
        """
        images = then or self._loader

        def permission() -> tuple[Authorization, bool]:
            sees_all = self.may_explain(context, about)
            return self._authorization_of(images.image, *about), sees_all

        questions = [Question(about.principal, about.client_address, *action, about.groups) for action in actions]
        return await explain_all(images, questions, permission)

    def may_explain(self, context: RequestContext, about: ExplainedCaller) -> bool:
        """Whether the asker sees ACLs of others. Raises ClusterAuthorizationException if it may not ask at all."""
        sees_all = self.has_right(context, AclOperation.DESCRIBE)
        if not (sees_all or _is_itself(about, context)):
            raise ClusterAuthorizationException(_REFUSED)
        return sees_all

    async def create_acls(
        self,
        context: RequestContext,
        acls: Sequence[NewAcl | ApiException],
        timeout_s: float | None,
        if_unchanged_since: str | None = None,
        comment: str | None = None,
    ) -> tuple[list[CreatedAcl | ApiException], Token]:
        """Kafka's createAcls (KIP-140); returns when the ACLs are durable and visible here. ApiExceptions pass through.

        Raises SecurityDisabledException, AuthorizerNotReadyException, ClusterAuthorizationException, in this order and
        before any look-up; InvalidRequestException for a malformed token or comment; then as `Updates` says.
        """
        self.check_cluster_right(context, AclOperation.ALTER)
        timeout_s, guard = self._timeout(timeout_s), _guard(if_unchanged_since)
        check_comment(comment)
        return await self._updates.create_acls(acls, context, timeout_s, guard, comment)

    async def delete_acls(
        self,
        context: RequestContext,
        filters: Sequence[AclBindingFilter | ApiException],
        timeout_s: float | None,
        if_unchanged_since: str | None = None,
        comment: str | None = None,
    ) -> tuple[list[list[StandardAcl] | ApiException], Token]:
        self.check_cluster_right(context, AclOperation.ALTER)
        timeout_s, guard = self._timeout(timeout_s), _guard(if_unchanged_since)
        check_comment(comment)
        return await self._updates.delete_acls(filters, context, timeout_s, guard, comment)

    async def alter_configs(
        self,
        context: RequestContext,
        changes: Sequence[ConfigChange],
        timeout_s: float | None,
        if_unchanged_since: str | None = None,
        comment: str | None = None,
    ) -> tuple[list[ApiException | None], Token]:
        self.check_loaded()
        self._check_right(context, AclOperation.ALTER_CONFIGS)
        timeout_s, guard = self._timeout(timeout_s), _guard(if_unchanged_since)
        check_comment(comment)
        return await self._updates.alter_configs(changes, context, timeout_s, guard, comment)

    async def acls(
        self,
        context: RequestContext,
        acl_filter: AclBindingFilter,
        limit: int,
        cursor: str | None,
        then: Images | None = None,
    ) -> AclPage:
        self.check_cluster_right(context, AclOperation.DESCRIBE)
        return await list_acls(then or self._loader, acl_filter, limit, cursor)

    async def who_can(
        self,
        context: RequestContext,
        question: WhoQuestion,
        limit: int,
        cursor: str | None,
        then: Images | None = None,
    ) -> AccessPage[Holder]:
        permission = partial(self.check_cluster_right, context, AclOperation.DESCRIBE)
        return await who_can(then or self._loader, permission, question, limit, cursor)

    async def what_can(
        self,
        context: RequestContext,
        question: WhatQuestion,
        limit: int,
        cursor: str | None,
        then: Images | None = None,
    ) -> AccessPage[Holding]:
        permission = partial(self.check_cluster_right, context, AclOperation.DESCRIBE)
        return await what_can(then or self._loader, permission, question, limit, cursor)

    def get_acl(self, reader: Reader, acl_id: UUID) -> StandardAcl:
        if not isinstance(reader, RoleGrant):
            self.check_cluster_right(reader, AclOperation.DESCRIBE)
        self.check_described()
        acl = self._loader.image.index.get(acl_id.bytes)
        if acl is None:
            raise ResourceNotFoundException(f"there is no ACL `{acl_id}`")
        return acl

    def check_watch(self, reader: Reader) -> None:
        """Whether the reader may see the feed: every ACL and every change."""
        self._check_enabled()
        if not isinstance(reader, RoleGrant):
            self._check_right(reader, AclOperation.DESCRIBE)

    def acl_count(self, reader: Reader) -> int:
        """-1 until loaded (KIP-504)."""
        if not isinstance(reader, RoleGrant):
            self._check_right(reader, AclOperation.DESCRIBE)
        return self._loader.image.acl_count

    def describe_configs(self, reader: Reader) -> list[ConfigEntry]:
        if not isinstance(reader, RoleGrant):
            self._check_right(reader, AclOperation.DESCRIBE_CONFIGS)
        startup, stored = describe(self.startup), self._loader.image.overrides
        return [
            ConfigEntry(name, stored[name], "STORE") if name in stored else ConfigEntry(name, startup[name], "STARTUP")
            for name in CONFIG_NAMES
        ]

    def check_cluster_right(self, context: RequestContext, operation: AclOperation) -> None:
        self.check_described()
        self._check_right(context, operation)

    def check_described(self) -> None:
        """Raises SecurityDisabledException, AuthorizerNotReadyException."""
        self._check_enabled()
        self.check_loaded()

    def _check_enabled(self) -> None:
        if not self.enabled:
            raise SecurityDisabledException("no authorizer is enabled; set `authorizer.enabled` to have ACLs")

    def check_loaded(self) -> None:
        if not self._loader.image.loading_complete:
            raise AuthorizerNotReadyException("the ACLs are not loaded yet; try again shortly")

    def has_right(self, context: RequestContext, operation: AclOperation) -> bool:
        """Whether the context's principal may do this on the cluster."""
        return self.authorization(context).decide(operation, ResourceType.CLUSTER, CLUSTER_NAME).allowed

    def _check_right(self, context: RequestContext, operation: AclOperation) -> None:
        if not self.has_right(context, operation):
            # The same text whatever was asked: a refusal must not reveal what exists.
            raise ClusterAuthorizationException(_REFUSED)

    def _check_cluster_id(self, request: StartRequest) -> None:
        known = self._loader.image.cluster_id
        if None not in (request.cluster_id, known) and request.cluster_id != known:
            raise InconsistentClusterIdException(
                f"this service holds the ACLs of another cluster than `{request.cluster_id}`; check its database"
            )

    def _timeout(self, timeout_s: float | None) -> float:
        return self._options.request_timeout_s if timeout_s is None else self._within(timeout_s)

    def _within(self, seconds: float) -> float:
        return min(max(0.0, seconds), self._options.max_request_timeout_s)


def _is_itself(about: ExplainedCaller, context: RequestContext) -> bool:
    # INVARIANT: who sees no ACLs of others is shown those of groups that it is in, and of no others.
    own = () if context.groups is None else context.groups.principals
    return about.principal == context.principal and (about.groups is None or {*about.groups.principals} <= {*own})


def _guard(token: str | None) -> Token | None:
    return None if token is None else Token.parse(token, "if_unchanged_since")
