"""One entry of a file of ACLs, as every format yields it, and how words and texts become a binding."""

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Literal, Self, TypeAlias, TypeVar

from app.core.kafka.bindings import KEEP, AclBinding, Keep, NewAcl, StandardAcl, rfc3339
from app.core.kafka.codes import AclOperation, AclPermissionType, PatternType, ResourceType
from app.core.kafka.validation import validate_new_acl, validate_terms
from app.core.readable import readable_acl
from app.core.spelling import printable
from app.core.times import NotATimeError, parse_time

MAX_SHOWN = 200


FieldPlace: TypeAlias = tuple[str, ...]
"""Where a field stands in a file: the names from the outermost one down to its own."""


class Problem(str):
    """What is wrong with a part of a file, beginning with the name of the field. `place` are all names down to it."""

    __slots__ = ("place",)

    place: FieldPlace

    def __new__(cls, text: str, place: FieldPlace = ()) -> Self:
        problem = super().__new__(cls, f"`{place[-1][:MAX_SHOWN]}`: {text}" if place else text)
        problem.place = place
        return problem


Entry: TypeAlias = tuple[int, NewAcl | Sequence[Problem]]
"""The number of the line where it begins, and the ACL, or else all that is wrong, each naming its field.

An end or an owner that the file does not say is KEEP, also where its format has no place for them.
"""

VAGUE = frozenset({"UNKNOWN", "ANY", "MATCH"})
"""Words of filters, and of codes that this version does not know: no ACL has them."""


class FormatLimitError(Exception):
    """A format can't express an ACL; the message names the ACL and the limit. Nothing was written."""

    def __init__(self, binding: AclBinding, limit: str) -> None:
        super().__init__(f"{limit}: {readable_acl(binding)}")
        self.binding = binding


_known: dict[tuple[str, str, str, str], tuple[ResourceType, PatternType, AclOperation, AclPermissionType]] = {}
"""Four words that have come, and all are Kafka's: no more than there are of these. Files of millions repeat them."""

_AS_THEY_ARE: Mapping[str, str] = {}

_Word = TypeVar("_Word", ResourceType, PatternType, AclOperation, AclPermissionType)


def acl_of(  # noqa: PLR0913 - an ACL has seven fields and two terms
    *,
    resource_type: str,
    resource_name: str,
    pattern_type: str,
    principal: str,
    host: str,
    operation: str,
    permission_type: str,
    expires_at: str | Literal[Keep.KEEP] | None = KEEP,
    owner: str | Literal[Keep.KEEP] | None = KEEP,
    called: Mapping[str, str] = _AS_THEY_ARE,
) -> NewAcl | list[Problem]:
    """The ACL, or why createAcls would refuse it (`core.kafka.validation`); an end may have passed.

    `called` has the file's own names for some of the fields, for what is said of them: `{"host": "acl_host"}`.
    """
    problems: list[Problem] = []
    words = resource_type, pattern_type, operation, permission_type
    codes = _known.get(words)
    if codes is None:
        codes = (
            _word(ResourceType, called.get("resource_type", "resource_type"), resource_type, problems),
            _word(PatternType, called.get("pattern_type", "pattern_type"), pattern_type, problems),
            _word(AclOperation, called.get("operation", "operation"), operation, problems),
            _word(AclPermissionType, called.get("permission_type", "permission_type"), permission_type, problems),
        )
        if not problems:
            _known[words] = codes
    binding = AclBinding(codes[0], resource_name, codes[1], principal, host, codes[2], codes[3])
    try:
        ends = moment_of(expires_at) if isinstance(expires_at, str) else expires_at
    except ValueError as fault:
        problems.append(Problem(str(fault), (called.get("expires_at", "expires_at"),)))
    if problems:
        return problems
    acl = NewAcl(binding, ends, owner)
    refusal = validate_new_acl(binding)
    if refusal is None and acl.says_terms:
        refusal = validate_terms(acl)
    return acl if refusal is None else [Problem(refusal.message)]


def moment_of(text: str) -> datetime:
    """The time that createAcls takes as `expires_at` (RFC 3339), in UTC. Raises ValueError."""
    try:
        return parse_time(text).astimezone(UTC)
    except NotATimeError as fault:
        raise ValueError(f"`{printable(text, MAX_SHOWN)}` is {fault}") from None
    except OverflowError:
        raise ValueError("the time is outside the years 1 to 9999") from None


def terms_note(acl: NewAcl | StandardAcl) -> str:
    """What follows an ACL that has an end or an owner: ` until 2026-12-01T18:00:00Z, owner "orders team"`."""
    until = [f"until {rfc3339(acl.expires_at)}"] if isinstance(acl.expires_at, datetime) else []
    owner = [f"owner {quoted(acl.owner)}"] if isinstance(acl.owner, str) else []
    note = ", ".join([*until, *owner])
    return f" {note}" if note else ""


def quoted(text: str) -> str:
    """As JSON has it, in quotes and on one line; harmless to a terminal."""
    shown = json.dumps(text, ensure_ascii=False)
    return shown if shown.isprintable() else "".join(c if c.isprintable() else json.dumps(c)[1:-1] for c in shown)


def _word(words: type[_Word], field: str, word: str, problems: list[Problem]) -> _Word:
    member = words.__members__.get(word)
    if member is None:
        known = ", ".join(each.name for each in words if each.name not in VAGUE)
        text = f"`{word[:MAX_SHOWN]}` is not a value that Kafka knows; write one of {known}"
        problems.append(Problem(text, (field,)))
        return words(0)
    return member
