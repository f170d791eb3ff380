"""Kafka's Authorizer (KIP-504): decisions from the image in memory, updates by way of the store."""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal
from uuid import UUID

from app.core.access.what import Holding, WhatQuestion
from app.core.access.who import Holder, WhoQuestion
from app.core.authorize import Authorization
from app.core.context import Reader, RequestContext
from app.core.epochs import Standing, is_later
from app.core.explain.misses import Question
from app.core.explain.why import Explanation
from app.core.image import AuthorizerImage
from app.core.kafka.bindings import StandardAcl
from app.core.kafka.codes import AclOperation, ResourceType
from app.core.kafka.configs import CONFIG_NAMES, AuthorizerConfig, describe
from app.core.kafka.errors import (
    InconsistentClusterIdException,
    InvalidRequestException,
    OffsetNotAvailableException,
    ResourceNotFoundException,
    StoreUnavailableException,
    TokenEpochInvalidException,
    TokenEpochMismatchException,
)
from app.core.kafka.filters import AclBindingFilter
from app.core.token import Token
from app.core.verdicts import Verdict
from app.metrics.declared import Metrics
from app.runtime.access import AccessPage, what_can, who_can
from app.runtime.deadlines import bounded
from app.runtime.deciding import A, Q, by_resource_type, decide_each
from app.runtime.expiry import Expiry
from app.runtime.explaining import explain_all
from app.runtime.listing import AclPage, list_acls
from app.runtime.loader import Loader
from app.runtime.mutator import Mutator
from app.runtime.options import RuntimeOptions
from app.runtime.ports import AclStore, ChangeFeed, Images
from app.runtime.purgatory import INVALID_EPOCH, OTHER_EPOCH, Purgatory
from app.runtime.readiness import MAX_LISTENERS, Readiness, StartRequest
from app.runtime.rights import ExplainedCaller, Rights
from app.runtime.state.keeping import StateKeeper
from app.runtime.updates import Updates
from app.runtime.watch.watchers import Watchers

_log = logging.getLogger(__name__)

LiteralAction = tuple[AclOperation, ResourceType, str]


@dataclass(frozen=True, slots=True)
class ConfigEntry:
    name: str
    value: str
    source: Literal["STARTUP", "STORE"]


class Authorizer:
    """What rest calls. Decisions never wait: what `authorization` returns is valid until the request's next await."""

    def __init__(
        self,
        store: AclStore,
        feed: ChangeFeed,
        startup: AuthorizerConfig,
        options: RuntimeOptions = RuntimeOptions(),  # noqa: B008 - frozen
        metrics: Metrics | None = None,
    ) -> None:
        self.metrics = metrics or Metrics()
        self.readiness = Readiness(startup, options)
        self._options = options
        self._feed = feed
        self.startup = startup
        self._purgatory = Purgatory(options.max_delayed_operations, self.metrics)
        self.watchers = Watchers(feed, self.readiness, self.metrics, options)
        self._loader = Loader(feed, startup, self.watchers, self._purgatory, self.metrics, options)
        self._keeper = None if options.state is None else StateKeeper(self.watchers, options.state, self.metrics)
        self._present = self._loader.present
        self.rights = Rights(self._present, self.readiness, enabled=options.enabled)
        self._mutator = Mutator(store, self._loader.polls.known, self.metrics, options)
        self._expiry = Expiry(self._loader, self._mutator, self.metrics, options)
        self.updates = Updates(self.rights, self._mutator, self._loader, self._purgatory, self.metrics, options)

    @property
    def image(self) -> AuthorizerImage:
        """Read this once per request, so that the whole answer is at one offset."""
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
        _log.info(
            "broker_starts",
            extra={
                "broker_id": request.broker_id,
                "listeners": [str(each) for each in request.endpoints[:MAX_LISTENERS]],
                "inter_broker_listener": request.inter_broker_listener_name,
            },
        )
        names = [endpoint.listener_name for endpoint in request.endpoints]
        self.readiness.register(names)
        await self.readiness.wait_until_ready(names, self._options.within(wait_s))
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

    async def decide_each(
        self,
        context: RequestContext,
        questions: Sequence[Q],
        answer: Callable[[Authorization, Q], A],
        then: Images | None = None,
    ) -> tuple[list[A], Token | None]:
        """Answers from the image in use, or from `then`, an image of the past."""
        if then is None:
            return await decide_each(self._loader, lambda: self.rights.authorization(context), questions, answer)

        return await decide_each(then, lambda: self.rights.authorization_then(context, then.image), questions, answer)

    async def by_resource_type(
        self, context: RequestContext, operation: int, resource_type: int
    ) -> tuple[Verdict, Token | None]:
        return await by_resource_type(
            self._loader, lambda: self.rights.authorization(context), operation, resource_type
        )

    def has_reached(self, at_least: str | None) -> bool:
        """Whether `wait_for` would return, or raise, without any wait."""
        if at_least is None:
            return True
        try:
            token = Token.parse(at_least)
        except InvalidRequestException:
            return True
        return not self._loader.image.loading_complete or self._purgatory.has_passed(token)

    async def wait_for(self, at_least: str | None, timeout_s: float | None = None) -> None:
        """Waits for the request timeout unless `timeout_s` is given.

        Raises InvalidRequestException, TokenEpochMismatchException, TokenEpochInvalidException,
        AuthorizerNotReadyException before the first load, OffsetNotAvailableException if the image does not reach the
        token in time.
        """
        if at_least is not None:
            await self._wait_for(Token.parse(at_least), "at_least", timeout_s)

    async def continues(self, after: Token, *, with_epochs: bool, is_follower: bool, asked_by: Sequence[str]) -> None:
        """Returns once a stream can go on after this token. Raises as `wait_for` does, and StoreUnavailableException.

        `with_epochs`: the reader goes on from one epoch to the next. What a follower shows is judged by the store
        itself, which begins a new epoch if it has lost the position.
        `asked_by` are the followers that ask on behalf of one another.
        """
        self.rights.check_loaded()
        image = self._loader.image
        if is_follower and not image.has(after):
            standing = await self._standing_of(after, asked_by)
            if standing is Standing.LOST:
                raise TokenEpochMismatchException(OTHER_EPOCH.format(name="after"))
            if standing is Standing.INVALID:
                raise TokenEpochInvalidException(INVALID_EPOCH.format(name="after"))
        try:
            await self._wait_for(after, "after")
        except OffsetNotAvailableException:
            # Nobody can say that it is lost, but it goes on in no case, and a snapshot from here is of a later epoch.
            if with_epochs or image.epoch is None or not is_later(image.epoch, after.epoch):
                raise
        if not with_epochs and after.epoch != self._loader.image.epoch:
            raise TokenEpochMismatchException(
                "`after` is from an earlier epoch of the store; send the header `Klamm-Epochs: 1` to go on from it, or "
                "start again with `snapshot=true`"
            )

    async def _standing_of(self, position: Token, asked_by: Sequence[str]) -> Standing:
        try:
            return await bounded(self._feed.standing_of(position, asked_by), self._options.request_timeout_s)
        except TimeoutError:
            raise StoreUnavailableException(
                "the store does not say in time whether the position is a part of the history"
            ) from None

    async def _wait_for(self, token: Token, name: str, timeout_s: float | None = None) -> None:
        self.rights.check_loaded()
        if not self._loader.image.has(token):
            # The caller knows of a later state than this process: a hint may have been lost.
            self._loader.nudge()
        try:
            within_s = self._options.request_timeout_s if timeout_s is None else self._options.within(timeout_s)
            await self._purgatory.wait_for(token, within_s, name)
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

        questions = [Question(about.principal, about.client_address, *action, about.groups) for action in actions]
        return await explain_all(images, questions, lambda: self.rights.explained(context, about, images.image))

    async def acls(
        self,
        context: RequestContext,
        acl_filter: AclBindingFilter,
        limit: int,
        cursor: str | None,
        then: Images | None = None,
    ) -> AclPage:
        self.rights.check_cluster_right(context, AclOperation.DESCRIBE)
        return await list_acls(then or self._loader, acl_filter, limit, cursor)

    async def who_can(
        self,
        context: RequestContext,
        question: WhoQuestion,
        limit: int,
        cursor: str | None,
        then: Images | None = None,
    ) -> AccessPage[Holder]:
        permission = partial(self.rights.check_cluster_right, context, AclOperation.DESCRIBE)
        return await who_can(then or self._loader, permission, question, limit, cursor)

    async def what_can(
        self,
        context: RequestContext,
        question: WhatQuestion,
        limit: int,
        cursor: str | None,
        then: Images | None = None,
    ) -> AccessPage[Holding]:
        permission = partial(self.rights.check_cluster_right, context, AclOperation.DESCRIBE)
        return await what_can(then or self._loader, permission, question, limit, cursor)

    def get_acl(self, reader: Reader, acl_id: UUID) -> StandardAcl:
        self.rights.check_described()
        self.rights.check_reader(reader, AclOperation.DESCRIBE)
        acl = self._loader.image.index.get(acl_id.bytes)
        if acl is None:
            raise ResourceNotFoundException(f"there is no ACL `{acl_id}`")
        return acl

    def acl_count(self, reader: Reader) -> int:
        """-1 until loaded (KIP-504)."""
        self.rights.check_reader(reader, AclOperation.DESCRIBE)
        return self._loader.image.acl_count

    def describe_configs(self, reader: Reader) -> list[ConfigEntry]:
        self.rights.check_configs(reader)
        startup, stored = describe(self.startup), self._loader.image.overrides
        return [
            ConfigEntry(name, stored[name], "STORE") if name in stored else ConfigEntry(name, startup[name], "STARTUP")
            for name in CONFIG_NAMES
        ]

    def _check_cluster_id(self, request: StartRequest) -> None:
        known = self._loader.image.cluster_id
        if None not in (request.cluster_id, known) and request.cluster_id != known:
            raise InconsistentClusterIdException(
                f"this service holds the ACLs of another cluster than `{request.cluster_id}`; check its database"
            )
