"""acls(filter) in pages (KIP-140 DescribeAcls): searched in short steps, so that a long list blocks nobody."""

import asyncio
import base64
import binascii
import json
from dataclasses import dataclass

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
_CURSOR_FORM = (int, str, int, str, str, int, int)
_MAX_CODE = 127


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
    key = _decoded(cursor)
    if key is None or encode_cursor(key) != cursor:
        raise InvalidRequestException("`cursor` is not one of this service; send a `next_cursor` from an earlier reply")
    return key


def _decoded(cursor: str) -> SortKey | None:
    if len(cursor) > _MAX_CHARACTERS:
        return None
    try:
        padded = cursor.encode("ascii") + b"=" * (-len(cursor) % 4)
        values = json.loads(base64.b64decode(padded, altchars=b"-_", validate=True))
    except (binascii.Error, UnicodeError, ValueError, RecursionError):
        return None
    if not isinstance(values, list) or [type(value) for value in values] != list(_CURSOR_FORM):
        return None
    resource_type, name, pattern_type, principal, host, operation, permission_type = values
    if not all(0 <= code <= _MAX_CODE for code in (resource_type, pattern_type, operation, permission_type)):
        return None
    return resource_type, name, pattern_type, principal, host, operation, permission_type
