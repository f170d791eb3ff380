"""acls(filter) in pages (KIP-140 DescribeAcls): searched in short steps, so that a long list blocks nobody."""

import asyncio
import base64
import json
from contextlib import suppress
from dataclasses import dataclass
from typing import Annotated

import msgspec

from app.core.index.search import search
from app.core.index.table import SortKey, sort_key
from app.core.kafka.bindings import StandardAcl
from app.core.kafka.errors import AuthorizerNotReadyException, InvalidRequestException
from app.core.kafka.filters import AclBindingFilter
from app.core.token import Token
from app.runtime.loader import Loader

DEFAULT_LIMIT = 100
MAX_LIMIT = 1_000

_MAX_CHARACTERS = 1_000_000
_Code = Annotated[int, msgspec.Meta(ge=0, le=127)]
_KEY = msgspec.json.Decoder(tuple[_Code, str, _Code, str, str, _Code, _Code])


@dataclass(frozen=True, slots=True)
class AclPage:
    """All changes up to `token` are in it; changes made while it was searched may be, too."""

    acls: list[StandardAcl]
    next_cursor: str | None
    token: Token


async def list_acls(loader: Loader, acl_filter: AclBindingFilter, limit: int, cursor: str | None) -> AclPage:
    if not 1 <= limit <= MAX_LIMIT:
        raise InvalidRequestException(f"`limit` must be from 1 to {MAX_LIMIT}")
    after = None if cursor is None else decode_cursor(cursor)
    while True:
        page = await _page(loader, acl_filter, limit, after)
        if page is not None:
            return page


async def _page(loader: Loader, acl_filter: AclBindingFilter, limit: int, after: SortKey | None) -> AclPage | None:
    """None if a fresh image has replaced the one that was searched."""
    image = loader.image
    token = image.token
    if token is None:
        raise AuthorizerNotReadyException("the ACLs are not loaded yet; try again shortly")
    found: list[StandardAcl] = []
    for some in search(image.index, acl_filter, after):
        found += some
        if len(found) > limit:
            break
        await asyncio.sleep(0)
        # INVARIANT: an index that is not in use any more is never looked at, it may be half dismantled.
        if loader.image.index is not image.index:
            return None
    if len(found) <= limit:
        return AclPage(found, None, token)
    return AclPage(found[:limit], encode_cursor(sort_key(found[limit - 1].binding)), token)


def encode_cursor(key: SortKey) -> str:
    text = json.dumps(key, separators=(",", ":"))
    return base64.urlsafe_b64encode(text.encode()).rstrip(b"=").decode()


def decode_cursor(cursor: str) -> SortKey:
    with suppress(ValueError, RecursionError):
        if len(cursor) <= _MAX_CHARACTERS:
            key = _KEY.decode(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
            # Only one text leads to each place.
            if encode_cursor(key) == cursor:
                return key
    raise InvalidRequestException("`cursor` is not one of this service; send a `next_cursor` from an earlier reply")
