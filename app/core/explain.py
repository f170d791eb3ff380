"""Why a caller is allowed or denied something, and what would change it: one question against one image.

The answer is `authorize`'s own; all else is said about it. Everything in here is done in one step of the event loop;
what takes longer, the near misses, has been looked for before (`app.core.near_misses`).
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from app.core.authorize import Authorization, Verdict
from app.core.bindings import AclBinding, StandardAcl
from app.core.buckets import Bucket, HotBucket, unpack
from app.core.codes import WILDCARD, AclOperation, AclPermissionType, ResourceType
from app.core.image import AuthorizerImage
from app.core.index import AclIndex
from app.core.misses import Question
from app.core.near_misses import NearMiss, NearMissSearch, still_there
from app.core.operations import ALLOW_MASK, DENY_MASK, supported_operations
from app.core.smallest_acl import SmallestAcl, smallest_acl

MAX_LISTED = 100
"""So many matching ACLs, and so many denying ones, are listed; their counts say how many there are."""

_ALLOW, _DENY = int(AclPermissionType.ALLOW), int(AclPermissionType.DENY)
_NOTHING = SmallestAcl(None, None)

_UNRESTRICTED = "`authorizer.enabled` is false: everyone is allowed everything, as super users are, and no ACL is asked"
_SUPER_USER = "the principal is a super user: it is allowed everything before any ACL is asked"
_DEFAULT_ALLOW = (
    "allowed only because there is no ACL on this resource and `allow.everyone.if.no.acl.found` is true; the first "
    "ACL on it, whoever it is for, ends that for everybody"
)
_DENY_STANDS = "a DENY beats every ALLOW: each of the denying ACLs has to go"
_ALLOW_STANDS = "; an ALLOW that matches is there already"
_DEFAULT_STEPS_IN = (
    "; no other ACL is on this resource, so `allow.everyone.if.no.acl.found` lets everybody in once they are gone"
)
_ALLOW_LACKS = "; and then it still takes the ALLOW that is needed besides"


@dataclass(frozen=True, slots=True)
class Explanation:
    """A verdict, and what brought it about.

    `acl` is the ACL that decided; None unless the rule is MatchingAcl. `matching_acls` are those that match in
    principal, host, operation and resource, so speak for or against just this: every DENY before every ALLOW, each the
    most specific first. ACLs on the resource that name another operation are near misses.

    `near_misses` are the ACLs that would have turned the answer had they matched: ALLOWs if it is denied for lack of
    one, DENYs if it is allowed; none where nothing that matched could.

    `smallest_acl` is what to create for it to be allowed: that alone is enough. `denying_acls` are the DENYs that
    forbid it: they all have to go first; then `acl_needed_besides`, if there is one, has to be created as well.
    """

    verdict: Verdict
    acl: StandardAcl | None = None
    matching_acls: tuple[StandardAcl, ...] = ()
    matching_acl_count: int = 0
    near_misses: tuple[NearMiss, ...] = ()
    smallest_acl: AclBinding | None = None
    denying_acls: tuple[StandardAcl, ...] = ()
    denying_acl_count: int = 0
    acl_needed_besides: AclBinding | None = None
    note: str | None = None


def near_misses_of(
    image: AuthorizerImage, authorization: Authorization, question: Question, *, of_others: bool
) -> NearMissSearch | None:
    """The search for what `explain` takes as `near`; None where no ACL could turn the answer."""
    if authorization.is_super_user:
        return None
    verdict = authorization.decide(question.operation, question.resource_type, question.resource_name)
    wanted = AclPermissionType.DENY if verdict.allowed else AclPermissionType.ALLOW
    return NearMissSearch(image.index, question, wanted, of_others=of_others)


def explain(
    image: AuthorizerImage, authorization: Authorization, question: Question, near: Iterable[NearMiss] = ()
) -> Explanation:
    """The verdict of `authorization`, which is the question's caller against this image, and its reasons."""
    verdict = authorization.decide(question.operation, question.resource_type, question.resource_name)
    if authorization.is_super_user and question.principal not in image.config.super_users:
        return Explanation(verdict, note=_UNRESTRICTED)
    denying, allowing = _matching_rows(image.index, authorization, question)
    forbids = bool(denying) and not authorization.is_super_user
    lacks_allow = not verdict.allowed and not allowing and not (forbids and _default_steps_in(image, question, denying))
    least = smallest_acl(question) if lacks_allow else _NOTHING
    notes = [*_notes(verdict, least, lacks_allow=lacks_allow, allowed_too=bool(allowing)), *_odd(question)]
    return Explanation(
        verdict,
        acl=_deciding(authorization, verdict, denying, allowing),
        matching_acls=tuple(map(authorization.acl_at, (denying + allowing)[:MAX_LISTED])),
        matching_acl_count=len(denying) + len(allowing),
        near_misses=_of_use(image.index, verdict, near, lacks_allow=lacks_allow),
        smallest_acl=None if forbids else least.binding,
        denying_acls=tuple(map(authorization.acl_at, denying[:MAX_LISTED])) if forbids else (),
        denying_acl_count=len(denying) if forbids else 0,
        acl_needed_besides=least.binding if forbids else None,
        note="; ".join(notes) or None,
    )


def _matching_rows(index: AclIndex, authorization: Authorization, question: Question) -> tuple[list[int], list[int]]:
    """The rows of the DENYs and of the ALLOWs that match, most specific first."""
    denying: list[int] = []
    allowing: list[int] = []
    codes_of = index.table.codes
    for row in authorization.speaking_rows(question.resource_type, question.resource_name):
        operation, permission_type = codes_of[row] >> 6 & 15, codes_of[row] >> 10
        if permission_type == _DENY and DENY_MASK[operation] >> question.operation & 1:
            denying.append(row)
        if permission_type == _ALLOW and ALLOW_MASK[operation] >> question.operation & 1:
            allowing.append(row)
    return denying, allowing


def _deciding(
    authorization: Authorization, verdict: Verdict, denying: list[int], allowing: list[int]
) -> StandardAcl | None:
    """The ACL behind the verdict: the first of those that match."""
    if verdict is Verdict.DENIED_BY_ACL:
        return authorization.acl_at(denying[0])
    return authorization.acl_at(allowing[0]) if verdict is Verdict.ALLOWED_BY_ACL else None


def _default_steps_in(image: AuthorizerImage, question: Question, going: list[int]) -> bool:
    """Whether allow.everyone.if.no.acl.found would speak if the ACLs in these rows were gone."""
    if not image.config.allow_everyone_if_no_acl_found:
        return False
    gone = set(going)
    return all(row in gone for bucket in _covering(image.index, question) for row in _rows_in(bucket))


def _covering(index: AclIndex, question: Question) -> Iterator[Bucket]:
    """The rows on each pattern that covers the resource."""
    names = index.types[question.resource_type]
    if names is None:
        return
    name = question.resource_name
    prefixes = (names.prefixes.get(each) for each in names.prefixes_of(name))
    for bucket in (names.literals.get(name), names.literals.get(WILDCARD), *prefixes):
        if bucket is not None:
            yield bucket


def _rows_in(bucket: Bucket) -> Iterator[int]:
    if not isinstance(bucket, HotBucket):
        yield from unpack(bucket)
        return
    for rows in bucket.by_principal.values():
        for packed in (rows,) if isinstance(rows, bytes) else rows.values():
            yield from unpack(packed)


def _of_use(index: AclIndex, verdict: Verdict, near: Iterable[NearMiss], *, lacks_allow: bool) -> tuple[NearMiss, ...]:
    """The near misses that would have turned this verdict, and that are there at its offset."""
    if verdict is Verdict.SUPER_USER or not (verdict.allowed or lacks_allow):
        return ()
    wanted = AclPermissionType.DENY if verdict.allowed else AclPermissionType.ALLOW
    return tuple(each for each in still_there(index, near) if each.acl.binding.permission_type is wanted)


def _notes(verdict: Verdict, least: SmallestAcl, *, lacks_allow: bool, allowed_too: bool) -> Iterator[str]:
    if verdict is Verdict.SUPER_USER:
        yield _SUPER_USER
    if verdict is Verdict.DEFAULT_ALLOW:
        yield _DEFAULT_ALLOW
    if verdict is Verdict.DENIED_BY_ACL:
        rest = _ALLOW_LACKS if least.binding is not None else "" if lacks_allow else _DEFAULT_STEPS_IN
        yield _DENY_STANDS + (_ALLOW_STANDS if allowed_too else rest)
    if least.note is not None:
        yield least.note


def _odd(question: Question) -> Iterator[str]:
    """What is odd about the question itself."""
    resource_type, operation = question.resource_type, question.operation
    if resource_type <= ResourceType.ANY:
        yield f"{resource_type.name} is no type that a resource has"
    elif operation is not AclOperation.ALL and operation not in supported_operations(resource_type):
        yield f"{operation.name} is not among the operations of a {resource_type.name}"
