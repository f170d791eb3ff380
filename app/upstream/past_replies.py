"""What another service's replies about the past must look like before they are handed on: the fields of each route."""

from collections.abc import Callable
from datetime import datetime
from typing import Annotated

import msgspec

from app.formats.feed_events import FeedAcl

_Token = Annotated[str, msgspec.Meta(pattern=r"\A[0-9a-f-]{36}:[0-9]{1,19}\Z")]


class InvalidReplyError(ValueError):
    """A reply that the route can't have given."""


class _Change(msgspec.Struct, gc=False):
    token: _Token
    transaction: _Token
    recorded_at: datetime
    change: str
    actor: str
    comment: str | None
    acl: FeedAcl | None


class _KnownSince(msgspec.Struct, gc=False):
    token: _Token
    recorded_at: datetime | None


class _History(msgspec.Struct, gc=False):
    changes: list[_Change]
    shows_configs: bool
    known_since: _KnownSince
    next_cursor: str | None
    token: _Token


class _Acls(msgspec.Struct, gc=False):
    acls: list[FeedAcl]
    next_cursor: str | None
    token: _Token


class _Explanation(msgspec.Struct, gc=False):
    result: str
    rule: str
    acl: FeedAcl | None
    matching_acls: list[FeedAcl]


class _Explained(msgspec.Struct, gc=False):
    results: list[_Explanation]
    token: _Token


class _AccessRow(msgspec.Struct, gc=False):
    operations: list[str]
    denied: list[str]
    acls: list[FeedAcl]


class _Access(msgspec.Struct, gc=False):
    rows: list[_AccessRow]
    allowed_by_default: bool
    next_cursor: str | None
    token: _Token


class _Operations(msgspec.Struct, gc=False):
    resource_type: str
    resource_name: str
    authorized_operations: int
    operations: list[str]


class _AuthorizedOperations(msgspec.Struct, gc=False):
    results: list[_Operations]
    token: _Token


_access = msgspec.json.Decoder(_Access).decode
DECODERS: dict[str, Callable[[bytes], msgspec.Struct]] = {
    "/v1/history": msgspec.json.Decoder(_History).decode,
    "/v1/acls/search": msgspec.json.Decoder(_Acls).decode,
    "/v1/explain": msgspec.json.Decoder(_Explained).decode,
    "/v1/who-can": _access,
    "/v1/what-can": _access,
    "/v1/authorized-operations": msgspec.json.Decoder(_AuthorizedOperations).decode,
}
"""By the paths of the routes that take a past moment."""


def check_reply(path: str, reply: bytes) -> None:
    """Raises InvalidReplyError unless it is the JSON object that the route at the path replies with."""
    try:
        DECODERS[path](reply)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as fault:
        raise InvalidReplyError(f"not a reply of {path}: {fault}") from None
