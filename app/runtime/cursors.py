"""Cursors of listed ACLs: the place of the last one shown, opaque to callers."""

import base64
import binascii
import json

from app.core.index.table import SortKey
from app.core.kafka.errors import InvalidRequestException

_MAX_CHARACTERS = 1_000_000
_FORM = (int, str, int, str, str, int, int)
_MAX_CODE = 127


def encode_cursor(key: SortKey) -> str:
    """The cursor that goes on behind this place."""
    text = json.dumps(key, separators=(",", ":"))
    return base64.urlsafe_b64encode(text.encode()).rstrip(b"=").decode()


def decode_cursor(cursor: str) -> SortKey:
    """The place in a cursor that Klamm once handed out. Raises InvalidRequestException for anything else."""
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
    if not isinstance(values, list) or [type(value) for value in values] != list(_FORM):
        return None
    resource_type, name, pattern_type, principal, host, operation, permission_type = values
    if not all(0 <= code <= _MAX_CODE for code in (resource_type, pattern_type, operation, permission_type)):
        return None
    return resource_type, name, pattern_type, principal, host, operation, permission_type
