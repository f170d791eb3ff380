"""acls(filter) in pages (KIP-140 DescribeAcls): searched in short steps, so that a long list blocks nobody."""

import asyncio
from dataclasses import dataclass

from app.core.index.search import search
from app.core.index.table import SortKey, sort_key
from app.core.kafka.bindings import StandardAcl
from app.core.kafka.errors import AuthorizerNotReadyException, InvalidRequestException
from app.core.kafka.filters import AclBindingFilter
from app.core.token import Token
from app.runtime.cursors import Code, Cursors
from app.runtime.ports import Images

DEFAULT_LIMIT = 100
MAX_LIMIT = 1_000

CURSORS: Cursors[SortKey] = Cursors(tuple[Code, str, Code, str, str, Code, Code])


@dataclass(frozen=True, slots=True)
class AclPage:
    """All changes up to `token` are in it; changes made while it was searched may be, too."""

    acls: list[StandardAcl]
    next_cursor: str | None
    token: Token


def check_limit(limit: int) -> None:
    """Raises InvalidRequestException."""
    if not 1 <= limit <= MAX_LIMIT:
        raise InvalidRequestException(f"`limit` must be from 1 to {MAX_LIMIT}")


async def list_acls(images: Images, acl_filter: AclBindingFilter, limit: int, cursor: str | None) -> AclPage:
    check_limit(limit)
    after = None if cursor is None else CURSORS.decode(cursor)
    while True:
        page = await _page(images, acl_filter, limit, after)
        if page is not None:
            return page


async def _page(images: Images, acl_filter: AclBindingFilter, limit: int, after: SortKey | None) -> AclPage | None:
    """None if a fresh image has replaced the one that was searched."""
    image = images.image
    token = image.token
    if token is None:
        raise AuthorizerNotReadyException("the ACLs are not loaded yet; try again shortly")
    found: list[StandardAcl] = []
    for some in search(image.index, acl_filter, after):
        found += some
        if len(found) > limit:
            break
        await asyncio.sleep(0)
        # INVARIANT: an index that is no longer in use is never read: it may be half dismantled.
        if images.image.index is not image.index:
            return None
    if len(found) <= limit:
        return AclPage(found, None, token)
    return AclPage(found[:limit], CURSORS.encode(sort_key(found[limit - 1].binding)), token)
