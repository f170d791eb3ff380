"""What a change would grant and revoke, before it is made, and the token that guards it."""

import asyncio
import json
import time
import zlib
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import chain

from app.client.ends import end_of
from app.client.http.replies import ServiceError, parse_acl, parse_binding, parse_terms
from app.client.plan.output import change_parts, unresolved_parts
from app.console.api import Api, ApiRefusedError
from app.core.access.diff import access_diff
from app.core.kafka.bindings import KEEP, AclBinding, NewAcl
from app.core.kafka.codes import (
    WILDCARD,
    WILDCARD_PRINCIPAL,
    AclOperation,
    AclPermissionType,
    PatternType,
    ResourceType,
)
from app.core.kafka.configs import AuthorizerConfig, parse_configs
from app.core.kafka.errors import InvalidRequestException
from app.core.kafka.filters import AclBindingFilter
from app.core.kafka.validation import validate_filter, validate_new_acl, validate_terms
from app.formats.acl_bodies import acl_body
from app.formats.command_errors import UsageError
from app.rest.bodies.strict_json import check_counts

MAX_CHANGES = 500
"""The most in one plan; `klamm plan` is for more."""
_MAX_UNPACKED = 256 * 1024
"""The most bytes of a plan in an address."""
_MAX_ACLS = 5_000
"""The most ACLs that a change is worked out against."""
_MAX_QUESTIONS = 10_000
_PAGE = 1_000
_ATTEMPTS = 3
MAX_SHOWN = 200
_HALF_MADE = "HALF_MADE"
_NO_CHANGE = "the form does not say which ACLs to change; go back and start again"


@dataclass(frozen=True, slots=True)
class Change:
    """ACLs to create, with their ends, and ACLs to delete."""

    create: tuple[NewAcl, ...] = ()
    delete: tuple[AclBinding, ...] = ()

    @property
    def is_empty(self) -> bool:
        return not (self.create or self.delete)

    def to_json(self) -> str:
        """The change as a form carries it, from the plan to `apply`."""
        return json.dumps(
            {
                "create": [acl_body(each) for each in self.create],
                "delete": [acl_body(NewAcl(each)) for each in self.delete],
            }
        )

    @staticmethod
    def of_json(text: str) -> "Change":
        """Raises UsageError."""
        try:
            check_counts(text.encode(errors="replace"))
            body = json.loads(text)
            create = tuple(_new_acl(each) for each in body["create"])
            delete = tuple(parse_binding(each) for each in body["delete"])
        except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError, ServiceError):
            raise UsageError(_NO_CHANGE) from None
        except InvalidRequestException as too_many:
            raise UsageError(f"{_NO_CHANGE} ({too_many.message})") from None
        return Change(create, delete).checked()

    def packed(self) -> str | None:
        """The change as an address carries it; None if it is too long for one."""
        text = self.to_json().encode()
        if len(text) > _MAX_UNPACKED:
            return None
        return urlsafe_b64encode(zlib.compress(text)).rstrip(b"=").decode()

    @staticmethod
    def of_packed(text: str) -> "Change":
        """Raises UsageError."""
        unpacking = zlib.decompressobj()
        try:
            found = unpacking.decompress(urlsafe_b64decode(text + "=" * (-len(text) % 4)), _MAX_UNPACKED)
            whole = found.decode() if unpacking.eof else ""
        except (ValueError, zlib.error):
            whole = ""
        return Change.of_json(whole)

    def checked(self) -> "Change":
        """Returns itself. Raises UsageError for what Kafka would refuse, for no ACLs, and for too many."""
        if len(self.create) + len(self.delete) > MAX_CHANGES:
            raise UsageError(f"more than {MAX_CHANGES} ACLs in one change; use `klamm plan` with a file")
        # INVARIANT: an address may come from anybody. ANY and MATCH would remove ACLs that the plan does not show, and
        # an ACL that is created as well would be shown as kept, although it is removed in the end.
        is_both = not {each.binding for each in self.create}.isdisjoint(self.delete)
        if self.is_empty or is_both or not all(map(_is_one, self.delete)):
            raise UsageError(_NO_CHANGE)
        created = (validate_new_acl(each.binding) or validate_terms(each) for each in self.create)
        deleted = (validate_filter(AclBindingFilter(*each)) for each in self.delete)
        for refusal in chain(created, deleted):
            if refusal is not None:
                raise UsageError(refusal.message)
        return self


def ends_at(text: str) -> datetime | None:
    """Parses `8h`, `never`, a time, or the value of a browser's time field, which is in UTC. Raises UsageError."""
    if not text.strip():
        return None
    return end_of(text.strip(), "ends")


def in_hours(hours: int) -> datetime:
    return datetime.fromtimestamp(int(time.time()), UTC) + timedelta(hours=hours)


def _new_acl(body: Mapping[str, str | None]) -> NewAcl:
    """If the body leaves out end or owner, an existing ACL keeps its own."""
    binding, terms = parse_binding(body), parse_terms(body)
    return NewAcl(binding, terms.expires_at if "expires_at" in body else KEEP, terms.owner if "owner" in body else KEEP)


def _is_one(acl: AclBinding) -> bool:
    """Whether its words are those of an ACL, not of a filter."""
    return (
        acl.resource_type > ResourceType.ANY
        and acl.pattern_type > PatternType.MATCH
        and acl.operation > AclOperation.ANY
        and acl.permission_type > AclPermissionType.ANY
    )


@dataclass(frozen=True, slots=True)
class Difference:
    token: str | None
    """The token of the state that it is worked out from; None if the ACLs change too fast to tell."""
    gained: Sequence[tuple[str, ...]] = ()
    """Who, what, on what and from where."""
    lost: Sequence[tuple[str, ...]] = ()
    more: int = 0
    """How many are not listed."""
    unresolved: Sequence[tuple[str, str]] = ()
    unknown: str | None = None
    """Why it could not be worked out at all."""
    there: tuple[AclBinding, ...] = ()
    """ACLs to create that exist already: their end and owner may change."""
    gone: tuple[AclBinding, ...] = ()
    """ACLs to delete that don't exist."""


async def difference_of(api: Api, change: Change) -> Difference:
    """Raises ApiRefusedError."""
    config = await _config(api)
    filters = _filters(change, config)
    for _ in range(_ATTEMPTS):
        found = await _acls(api, filters)
        if found is not None:
            break
    else:
        return Difference(None, unknown="the ACLs change faster than they can be read; try again shortly")
    acls, token = found
    if acls is None:
        many = f"more than {_MAX_ACLS:,} ACLs affect this change; use `klamm plan` instead"
        return Difference(token, unknown=many)
    # In a thread, as it may take a second.
    return await asyncio.to_thread(_worked_out, acls, token, change, config)


def _worked_out(acls: Iterable[object], token: str, change: Change, config: AuthorizerConfig) -> Difference:
    before = {parse_acl(each).binding for each in acls}
    after = before - set(change.delete) | {each.binding for each in change.create}
    diff = access_diff(before, after, config, _MAX_QUESTIONS)
    shown = diff.changes[:MAX_SHOWN]
    return Difference(
        token,
        gained=[change_parts(each) for each in shown if each.gained],
        lost=[change_parts(each) for each in shown if not each.gained],
        more=len(diff.changes) - len(shown),
        unresolved=[unresolved_parts(each) for each in diff.unresolved],
        there=tuple(each.binding for each in change.create if each.binding in before),
        gone=tuple(each for each in change.delete if each not in before),
    )


async def _config(api: Api) -> AuthorizerConfig:
    """The configuration, as far as the visitor may read it."""
    try:
        configs = (await api.get("/v1/configs"))["configs"]
        return parse_configs({each["name"]: each["value"] for each in configs})
    except (ApiRefusedError, InvalidRequestException):
        return AuthorizerConfig()


def _filters(change: Change, config: AuthorizerConfig) -> list[dict[str, str]]:
    """Filters for the ACLs that bear on what the change grants and revokes.

    INVARIANT: they find those of its principals and of `User:*` on its resource types; where everybody is affected,
    those of all principals, of which a literal name needs only the patterns that cover it.
    """
    everybody = config.allow_everyone_if_no_acl_found
    wanted: dict[tuple[tuple[str, str], ...], None] = {}
    for binding in (*(each.binding for each in change.create), *change.delete):
        by_type = {"resource_type": binding.resource_type.name}
        if everybody or binding.principal == WILDCARD_PRINCIPAL:
            literal = binding.pattern_type is PatternType.LITERAL and binding.resource_name != WILDCARD
            covering = {"resource_name": binding.resource_name, "pattern_type": PatternType.MATCH.name}
            some = [by_type | covering] if literal else [by_type]
        else:
            some = [by_type | {"principal": each} for each in (binding.principal, WILDCARD_PRINCIPAL)]
        wanted |= dict.fromkeys(tuple(sorted(each.items())) for each in some)
    return [dict(each) for each in wanted]


async def _acls(api: Api, filters: Iterable[Mapping[str, str]]) -> tuple[Sequence[object] | None, str] | None:
    """ACLs, or None for too many, and their token; None if they changed meanwhile."""
    found: dict[object, object] = {}
    tokens: set[str] = set()
    for each in filters:
        cursor: str | None = None
        while True:
            body: dict[str, object] = {"filter": each, "limit": _PAGE}
            if cursor is not None:
                body["cursor"] = cursor
            reply = await api.post("/v1/acls/search", body)
            tokens.add(reply["token"])
            if len(tokens) > 1:
                return None
            found |= {acl["id"]: acl for acl in reply["acls"]}
            cursor = reply["next_cursor"]
            if len(found) > _MAX_ACLS:
                return None, tokens.pop()
            if cursor is None:
                break
    return list(found.values()), tokens.pop()


async def make(api: Api, change: Change, token: str, comment: str) -> str:
    """Makes the change if the store is still at the token, and returns the token after it. Raises ApiRefusedError.

    DENYs are created first and deleted last, so that in between nobody is allowed what neither state allows.
    """
    about = {"comment": comment} if comment else {}
    if change.create:
        denies_first = sorted(change.create, key=lambda acl: acl.binding.permission_type is not AclPermissionType.DENY)
        bindings = [acl_body(each) for each in denies_first]
        body = {"bindings": bindings, "if_unchanged_since": token, **about}
        token = _token_of(await api.post("/v1/acls", body))
    if change.delete:
        denies_last = sorted(change.delete, key=lambda acl: acl.permission_type is AclPermissionType.DENY)
        filters = [acl_body(NewAcl(each)) for each in denies_last]
        body = {"filters": filters, "if_unchanged_since": token, **about}
        try:
            token = _token_of(await api.post("/v1/acls/delete", body))
        except ApiRefusedError as refusal:
            if not change.create:
                raise
            # With a code of its own: that of the refusal may say that nothing was done.
            why = f"the new ACLs were created, but removing the others failed: {refusal.detail}"
            raise ApiRefusedError(refusal.status, _HALF_MADE, why) from None
    return token


def _token_of(reply: Mapping[str, object]) -> str:
    results = reply["results"]
    for each in results if isinstance(results, list) else ():
        if each["error_code"]:
            raise ApiRefusedError(409, each["code"], str(each["error_message"]))
    return str(reply["token"])


def binding_of(fields: Mapping[str, str]) -> AclBinding:
    """An ACL as a form names it. Raises UsageError, which says what is missing or wrong."""
    try:
        binding = AclBinding(
            ResourceType[fields["resource_type"]],
            fields["resource_name"],
            PatternType[fields.get("pattern_type", "LITERAL")],
            fields["principal"],
            fields.get("host", "") if fields.get("host", "").strip() else WILDCARD,
            AclOperation[fields["operation"]],
            AclPermissionType[fields.get("permission_type", "ALLOW")],
        )
    except KeyError as unknown:
        raise UsageError(f"{unknown} is a missing field or an unknown value; correct the form") from None
    refusal = validate_new_acl(binding)
    if refusal is not None:
        raise UsageError(refusal.message)
    return binding
