"""The past: what changed, and how everything stood at a moment, for callers who may ask the same of now."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace

from app.core.access.what import WhatQuestion
from app.core.context import RequestContext
from app.core.image import AuthorizerImage, ImageBuilder
from app.core.index.table import sort_key
from app.core.kafka.bindings import NO_TERMS, AclSlice
from app.core.kafka.codes import WILDCARD_PRINCIPAL, AclOperation, PatternType, ResourceType
from app.core.kafka.errors import InvalidRequestException, StoreUnavailableException
from app.core.kafka.filters import AclBindingFilter
from app.core.past import ChangesPage, ChangesQuestion, PastScope, PastState, moment_of
from app.core.records import GENESIS_HASH, FeedHead
from app.runtime.authorizer import Authorizer, LiteralAction
from app.runtime.cursors import Cursors
from app.runtime.listing import CURSORS as LIST_CURSORS
from app.runtime.listing import AclPage, check_limit
from app.runtime.ports import AskElsewhere, PastStore
from app.runtime.rights import ExplainedCaller

CURSORS: Cursors[int] = Cursors(int)
_MOST = (1 << 63) - 1
_STEP = 500
_STRETCH, _STRETCHES = 1_000, 8
"""How many ACLs are searched for those that match a filter; if all match, two for each that is wanted."""
_MOST_RESOURCES = 100


@dataclass(frozen=True, slots=True)
class PastImage:
    """`Images` of one moment; it never changes."""

    image: AuthorizerImage


@dataclass(frozen=True, slots=True)
class HistoryPage:
    page: ChangesPage
    next_cursor: str | None
    shows_configs: bool
    """Whether the asker may see changes of properties."""

    def token_of(self, offset: int) -> str:
        return str(self.page.token_of(offset))


class Past:
    """INVARIANT: present rights apply. They are checked before any record is read, and again before it is shown."""

    def __init__(self, authorizer: Authorizer, store: PastStore | None, elsewhere: AskElsewhere | None = None) -> None:
        self._authorizer = authorizer
        self._rights = authorizer.rights
        self._records = store
        self.elsewhere = elsewhere
        """Who is asked instead; None: the records are this replica's own."""

    async def changes(self, context: RequestContext, question: ChangesQuestion, cursor: str | None) -> HistoryPage:
        self._rights.check_cluster_right(context, AclOperation.DESCRIBE)
        check_limit(question.limit)
        before = None if cursor is None else min(max(CURSORS.decode(cursor), 0), _MOST)
        shows_configs = self._rights.sees_configs(context)
        page = await self._store().changes(replace(question, before=before, with_configs=shows_configs))
        self._rights.check_cluster_right(context, AclOperation.DESCRIBE)
        if shows_configs and not self._rights.sees_configs(context):
            return await self.changes(context, question, cursor)
        next_cursor = None if page.before is None else CURSORS.encode(page.before)
        return HistoryPage(page, next_cursor, shows_configs)

    async def acls(
        self, context: RequestContext, acl_filter: AclBindingFilter, limit: int, cursor: str | None, at: str
    ) -> AclPage:
        """As `Authorizer.acls`. A page may be short, or empty, and yet not be the last."""
        self._rights.check_cluster_right(context, AclOperation.DESCRIBE)
        check_limit(limit)
        moment, after = moment_of(at, "at"), None if cursor is None else LIST_CURSORS.decode(cursor)
        if acl_filter.principal is not None or acl_filter.resource_name is not None:
            then = await self.image_at(at, PastScope(filters=[acl_filter]))
            return await self._authorizer.acls(context, acl_filter, limit, cursor, then)
        if after is not None:
            _check_keepable(after[1])
        rows = min(_STRETCH, 2 * limit) if acl_filter == AclBindingFilter() else _STRETCH
        state = await self._store().stretch(moment, after, rows)
        for _ in range(_STRETCHES - 1):
            if state.upto is None or any(acl_filter.matches(each.binding) for each in state.acls):
                break
            state = await self._store().stretch(state.token, state.upto, _STRETCH)
        page = await self._authorizer.acls(context, acl_filter, limit, cursor, await self._image_of(state))
        if page.next_cursor is None and state.upto is not None:
            page = replace(page, next_cursor=LIST_CURSORS.encode(state.upto))
        return page

    async def of_actions(
        self, context: RequestContext, about: ExplainedCaller, actions: Sequence[LiteralAction], at: str
    ) -> PastImage:
        """For `Authorizer.explain`."""
        self._rights.check_described()
        self._rights.may_explain(context, about)
        groups = () if about.groups is None else about.groups.principals
        near = _of_principals(about.principal, WILDCARD_PRINCIPAL, *groups)
        filters = [each for _, resource_type, name in actions for each in _covering(resource_type, name)]
        return await self.image_at(at, PastScope(filters=filters, if_few=near))

    async def of_resources(
        self, context: RequestContext, resources: Sequence[tuple[ResourceType, str]], at: str
    ) -> PastImage:
        """For `Authorizer.decide_each`."""
        self._rights.check_described()
        self._rights.authorization(context)
        if len(resources) > _MOST_RESOURCES:
            raise InvalidRequestException(f"`at` takes at most {_MOST_RESOURCES} resources; split the request")
        return await self.image_at(at, PastScope(filters=[each for some in resources for each in _covering(*some)]))

    async def of_resource(self, context: RequestContext, resource_type: ResourceType, name: str, at: str) -> PastImage:
        """For `Authorizer.who_can`."""
        self._rights.check_cluster_right(context, AclOperation.DESCRIBE)
        return await self.image_at(at, PastScope(filters=_covering(resource_type, name)))

    async def of_principal(self, context: RequestContext, question: WhatQuestion, at: str) -> PastImage:
        """For `Authorizer.what_can`."""
        groups = () if question.groups is None else question.groups.principals
        self._rights.check_cluster_right(context, AclOperation.DESCRIBE)
        return await self.image_at(
            at, PastScope(filters=_of_principals(question.principal, WILDCARD_PRINCIPAL, *groups))
        )

    async def image_at(self, at: str, scope: PastScope) -> PastImage:
        """What core needs to answer a question of this scope. Check the asker's rights first."""
        return await self._image_of(await self._store().state(moment_of(at, "at"), scope))

    async def _image_of(self, state: PastState) -> PastImage:
        builder = ImageBuilder(self._authorizer.startup)
        builder.set_configs(state.overrides)
        acls = sorted(state.acls, key=lambda acl: sort_key(acl.binding)) if len(state.acls) <= _STEP else state.acls
        for start in range(0, len(acls), _STEP):
            some = acls[start : start + _STEP]
            rows, terms = (
                [each.row for each in some],
                {each.id.bytes: each.terms for each in some if each.terms != NO_TERMS},
            )
            builder.add_rows(rows)
            builder.add_terms(AclSlice(rows, terms, 0))
            await asyncio.sleep(0)
        head = FeedHead(state.cluster_id, state.token.epoch, state.token.offset, GENESIS_HASH, 1)
        return PastImage(builder.build(head).as_of(state.now))

    def _store(self) -> PastStore:
        if self._records is not None:
            return self._records
        raise StoreUnavailableException("this replica keeps no past states; ask one that has a database")

    async def close(self) -> None:
        if self._records is not None:
            await self._records.close()


def _covering(resource_type: ResourceType, name: str) -> list[AclBindingFilter]:
    """All ACLs on the resource. No pattern has NUL in it, so what covers the name covers its part before one."""
    if resource_type <= ResourceType.ANY:
        return []
    return [AclBindingFilter(resource_type, name.partition("\0")[0], PatternType.MATCH)]


def _of_principals(*principals: str) -> list[AclBindingFilter]:
    return [AclBindingFilter(principal=each) for each in principals if "\0" not in each]


def _check_keepable(name: str) -> None:
    if "\0" in name or any("\ud800" <= each <= "\udfff" for each in name):
        raise InvalidRequestException("`cursor` is not from this service; send a `next_cursor` from an earlier reply")
