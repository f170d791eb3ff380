"""What is sent with an update that is handed on, and what comes back: the bodies of docs' REST calls."""

import asyncio
from collections.abc import Callable, Iterable, Sequence, Sized
from typing import TypeVar
from uuid import UUID

import msgspec

from app.core.kafka.bindings import NewAcl
from app.core.kafka.errors import ApiException
from app.core.kafka.filters import AclBindingFilter
from app.core.mutations import (
    AlterConfigs,
    AlterConfigsOutcome,
    CreateAcls,
    CreateAclsOutcome,
    CreatedAcl,
    DeleteAcls,
    DeleteAclsOutcome,
    Outcome,
)
from app.core.token import Token
from app.formats.acl_bodies import acl_body, filter_body
from app.formats.feed_events import FeedAcl
from app.formats.feed_values import acl_in
from app.upstream.connection import refusal_of

Update = CreateAcls | DeleteAcls | AlterConfigs
"""What callers ask for; what the store does by itself is not handed on."""

_LOOPBACK = "127.0.0.1"
_NONE = "NONE"
_AT_ONCE = 200
T = TypeVar("T")
R = TypeVar("R")


class _Result(msgspec.Struct, gc=False):
    """Of one entry of the update: `id` and `created` are those of a created ACL, `matches` the deleted ones."""

    code: str
    error_message: str | None = None
    id: UUID | None = None
    created: bool = False
    matches: list[FeedAcl] = []


class _Reply(msgspec.Struct, gc=False):
    results: list[_Result]
    token: str


_to_json = msgspec.json.Encoder().encode
_reply_in = msgspec.json.Decoder(_Reply).decode


class StrangeReplyError(ValueError):
    """A reply that none of the routes would give."""


async def body_of(mutation: Update, timeout_ms: int) -> tuple[str, bytes]:
    """The path and the body that ask another service to do the same."""
    address = _LOOPBACK if mutation.client_address is None else mutation.client_address.text
    context: dict[str, object] = {"principal": mutation.actor, "client_address": address}
    if mutation.groups is not None:
        context["groups"] = mutation.groups.names
    comment = {} if mutation.comment is None else {"comment": mutation.comment}
    frame: dict[str, object] = {"context": context, **comment, "timeout_ms": timeout_ms}
    if mutation.guard is not None:
        frame["if_unchanged_since"] = str(mutation.guard)
    match mutation:
        case AlterConfigs():
            changes = [{"name": name, "value": value} for name, value in mutation.changes]
            return "/v1/configs", _to_json({**frame, "configs": changes})
        case CreateAcls():
            return "/v1/acls", _with_list(frame, "bindings", await _each(mutation.acls, _acl_json))
        case DeleteAcls():
            return "/v1/acls/delete", _with_list(frame, "filters", await _each(mutation.filters, _filter_json))


async def outcome_in(mutation: Update, reply: bytes) -> Outcome:
    """Raises StrangeReplyError."""
    try:
        found = _reply_in(reply)
        token = Token.parse(found.token, "token")
        match mutation:
            case AlterConfigs():
                _check_count(found.results, mutation.changes)
                return AlterConfigsOutcome([_refusal(each) for each in found.results], token)
            case CreateAcls():
                _check_count(found.results, mutation.acls)
                return CreateAclsOutcome(await _each(found.results, _created), token)
            case DeleteAcls():
                _check_count(found.results, mutation.filters)
                matches = [_refusal(each) or await _each(each.matches, acl_in) for each in found.results]
                return DeleteAclsOutcome(matches, token)
    except (msgspec.DecodeError, UnicodeDecodeError, ValueError, ApiException) as fault:
        raise StrangeReplyError(str(fault)) from None


def _refusal(result: _Result) -> ApiException | None:
    return None if result.code == _NONE else refusal_of(result.code, result.error_message or "")


def _created(result: _Result) -> CreatedAcl | ApiException:
    if result.code != _NONE or result.id is None:
        return refusal_of(result.code, result.error_message or "")
    return CreatedAcl(result.id, result.created)


def _check_count(results: Sized, entries: Sized) -> None:
    if len(results) != len(entries):
        raise StrangeReplyError(f"{len(results)} results for {len(entries)} entries")


async def _each(entries: Iterable[T], make: Callable[[T], R]) -> list[R]:
    made: list[R] = []
    for count, entry in enumerate(entries, 1):
        made.append(make(entry))
        if not count % _AT_ONCE:
            await asyncio.sleep(0)
    return made


def _with_list(frame: dict[str, object], name: str, entries: Sequence[bytes]) -> bytes:
    return b'%b,"%b":[%b]}' % (_to_json(frame)[:-1], name.encode(), b",".join(entries))


def _acl_json(acl: NewAcl) -> bytes:
    return _to_json(acl_body(acl))


def _filter_json(acl_filter: AclBindingFilter) -> bytes:
    return _to_json(filter_body(acl_filter))
