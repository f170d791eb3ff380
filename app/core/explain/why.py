"""Why a caller is allowed or denied something, and what would change it: one question against one image.

The verdict is `authorize`'s own. Slow work is done in short steps: near misses are searched beforehand (`near_misses`),
matching ACLs while the image stays the same (`matching`).

An asker without the right to see others' ACLs learns nothing that depends on them beyond what authorize answers:
neither whether there are any, nor how many. `test_explain_secrecy.py` proves that.
"""

import re
from collections.abc import Generator, Iterable, Iterator
from dataclasses import dataclass
from itertools import product

from app.core.authorize import Authorization
from app.core.explain.matching import Matching, listed
from app.core.explain.misses import Question
from app.core.explain.near_misses import MAX_NEAR_MISSES, NearMiss, NearMissSearch, ended_miss, still_there
from app.core.image import AuthorizerImage
from app.core.kafka.bindings import AclBinding, StandardAcl
from app.core.kafka.codes import (
    CLUSTER_NAME,
    WILDCARD,
    WILDCARD_PRINCIPAL,
    AclOperation,
    AclPermissionType,
    PatternType,
    ResourceType,
)
from app.core.kafka.operations import supported_operations
from app.core.kafka.validation import MAX_TEXT_BYTES, validate_new_acl
from app.core.readable import backticked
from app.core.verdicts import Verdict

_UNKEEPABLE = re.compile("[\0\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class SmallestAcl:
    """The ACL, or None if none that createAcls takes would do; `note` says why it is as wide as it is, or missing."""

    binding: AclBinding | None
    note: str | None


def smallest_acl(question: Question) -> SmallestAcl:
    """The ALLOW that permits this and as little else as possible; it says nothing of DENYs.

    It names the resource literally, the caller's principal, its one address and the one operation. An ACL that
    allows this question must match it in all four, and each of these matches as little as can match: no principal
    but this, no other address, no other name, and of the operations that allow it (itself, those that imply it, ALL)
    the one that implies least. So whatever else would allow this allows all that this one does.

    If createAcls refuses that ACL, or it would be wider than it looks (a resource called `*`, a caller called
    `User:*`), the result is the narrowest that createAcls takes, and the note says so.
    """
    for principal, pattern in product((question.principal, WILDCARD_PRINCIPAL), _patterns(question)):
        binding = _binding(question, principal, *pattern)
        if validate_new_acl(binding) is None:
            return SmallestAcl(binding, _why_so_wide(question, binding))
    exact = _binding(question, question.principal, PatternType.LITERAL, question.resource_name)
    refusal = validate_new_acl(exact)
    reason = "" if refusal is None else f": {refusal.message}"
    return SmallestAcl(None, f"no ACL can allow this, because createAcls accepts none that would match{reason}")


def _binding(question: Question, principal: str, pattern_type: PatternType, name: str) -> AclBinding:
    # Operations below ALL are for filters, so only ALL covers them.
    operation = max(question.operation, AclOperation.ALL)
    host = question.address.text
    return AclBinding(question.resource_type, name, pattern_type, principal, host, operation, AclPermissionType.ALLOW)


def _patterns(question: Question) -> Iterator[tuple[PatternType, str]]:
    """The patterns that cover the resource, narrowest first, as far as createAcls may take them."""
    name = question.resource_name
    if name != WILDCARD:
        # The literal `*` means every name.
        yield PatternType.LITERAL, name
    prefix = _keepable(name)
    if question.resource_type is ResourceType.CLUSTER and name.startswith(CLUSTER_NAME):
        prefix = CLUSTER_NAME
    yield PatternType.PREFIXED, prefix
    yield PatternType.LITERAL, WILDCARD


def _keepable(name: str) -> str:
    found = _UNKEEPABLE.search(name)
    whole = name if found is None else name[: found.start()]
    return whole.encode()[:MAX_TEXT_BYTES].decode(errors="ignore")


def _why_so_wide(question: Question, binding: AclBinding) -> str | None:
    """What the ACL allows beyond the question, and why nothing narrower will do; None if it allows nothing beyond."""
    wide = []
    if binding.operation is not question.operation:
        wide.append(f"it names ALL operations, because no ACL can name {question.operation.name}")
    if binding.principal == WILDCARD_PRINCIPAL:
        wide.append(
            "it is for every principal, because no ACL can name the caller `User:*` alone"
            if question.principal == WILDCARD_PRINCIPAL
            else "it is for every principal, because createAcls does not accept this caller's"
        )
    if binding.pattern_type is PatternType.PREFIXED:
        wide.append(
            "it covers every name that begins with `*`, because the literal `*` covers all names"
            if question.resource_name == WILDCARD
            else f"it covers every name that begins with {backticked(binding.resource_name, 100)}, because createAcls "
            "does not accept the resource's own name"
        )
    elif binding.resource_name != question.resource_name:
        wide.append(
            f"it covers every {binding.resource_type.name}, because createAcls does not accept the resource's own name"
        )
    return "; ".join(wide) + "; think before you create it" if wide else None


_NOTHING = SmallestAcl(None, None)

_UNRESTRICTED = (
    "`authorizer.enabled` is false: everyone is allowed everything, like a super user, and no ACL is checked"
)
_SUPER_USER = "the principal is a super user: it is allowed everything before any ACL is checked"
_DEFAULT_ALLOW = (
    "allowed only because there is no ACL on this resource and `allow.everyone.if.no.acl.found` is true; the first "
    "ACL on it, whoever it is for, ends that for everybody"
)
_DENY_STANDS = "a DENY overrides every ALLOW: each of the denying ACLs must be removed"
_ALLOW_STANDS = "; a matching ALLOW already exists"
_DEFAULT_STEPS_IN = (
    "; no other ACL is on this resource, so `allow.everyone.if.no.acl.found` lets everybody in once they are removed"
)
_ALLOW_LACKS = "; after that, the missing ALLOW is needed as well"
_ALLOW_MAY_LACK = (
    "; after that, the missing ALLOW is needed as well, unless no other ACL is on this resource and "
    "`allow.everyone.if.no.acl.found` is true"
)


@dataclass(frozen=True, slots=True)
class Explanation:
    """A verdict, and what led to it.

    `acl` is the ACL that decided; None unless the rule is MatchingAcl. `matching_acls` are those that match in
    principal, host, operation and resource, and so allow or deny just this: every DENY before every ALLOW, each the
    most specific first. ACLs on the resource that name another operation are near misses.

    `near_misses` are the ACLs that would have turned the answer had they matched: ALLOWs if it is denied for lack of
    one, DENYs if it is allowed; none where nothing that matched could.

    `smallest_acl` is what to create to allow it: that alone is enough. `denying_acls` are the DENYs that
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
    """The search for what `Explaining` takes as `near`; None if no ACL could turn the answer."""
    if authorization.is_super_user:
        return None
    verdict = authorization.decide(question.operation, question.resource_type, question.resource_name)
    wanted = AclPermissionType.DENY if verdict.allowed else AclPermissionType.ALLOW
    return NearMissSearch(image.index, question, wanted, of_others=of_others)


class Explaining:
    """Makes an explanation: run `steps` to the end, then call `found`.

    Without `of_others` the asker may see only ACLs that apply to the question's caller: `near` must hold no others.
    """

    def __init__(
        self,
        image: AuthorizerImage,
        authorization: Authorization,
        question: Question,
        near: Iterable[NearMiss] = (),
        *,
        of_others: bool = True,
    ) -> None:
        self._image = image
        self._question = question
        self._of_others = of_others
        self._near = tuple(near)
        self._verdict = authorization.decide(question.operation, question.resource_type, question.resource_name)
        self._unrestricted = authorization.is_super_user and question.principal not in image.config.super_users
        self._matching = Matching(image, authorization, question)
        self._denying: tuple[StandardAcl, ...] = ()
        self._allowing: tuple[StandardAcl, ...] = ()
        self._lacks_allow = False

    def steps(self) -> Iterator[None]:
        # INVARIANT: the image in use is the same from the first step to the last. The code that runs them checks; if
        # it is not, the result is thrown away.
        if self._unrestricted:
            return
        matching = self._matching
        yield from matching.steps()
        self._denying, self._allowing = matching.denying.acls(), matching.allowing.acls()
        if not (self._verdict.allowed or self._allowing):
            self._lacks_allow = not (yield from self._would_default_step_in())
        self._near = self._of_use()

    def found(self) -> Explanation:
        verdict, question = self._verdict, self._question
        if self._unrestricted:
            return Explanation(verdict, note=_UNRESTRICTED)
        forbids = verdict is Verdict.DENIED_BY_ACL
        least = smallest_acl(question) if self._lacks_allow else _NOTHING
        matching = self._matching
        return Explanation(
            verdict,
            acl=self._deciding(),
            matching_acls=self._listed(),
            matching_acl_count=matching.denying.count + matching.allowing.count,
            near_misses=self._near,
            smallest_acl=None if forbids else least.binding,
            denying_acls=self._denying if forbids else (),
            denying_acl_count=matching.denying.count if forbids else 0,
            acl_needed_besides=least.binding if forbids else None,
            note="; ".join([*self._notes(least), *_odd(question)]) or None,
        )

    def _would_default_step_in(self) -> Generator[None, None, bool]:
        # INVARIANT: an asker that may not see others' ACLs learns nothing that depends on them but authorize's answer.
        # If a DENY forbids it, authorize answers DENIED whoever else has ACLs on the resource, and so does this.
        forbids = self._verdict is Verdict.DENIED_BY_ACL
        if not (forbids and self._of_others and self._image.config.allow_everyone_if_no_acl_found):
            return False
        return (yield from self._matching.denies_are_all())

    def _of_use(self) -> tuple[NearMiss, ...]:
        verdict = self._verdict
        if verdict is Verdict.SUPER_USER or not (verdict.allowed or self._lacks_allow):
            return ()
        wanted = AclPermissionType.DENY if verdict.allowed else AclPermissionType.ALLOW
        there = still_there(self._image.index, self._near)
        near = [
            each
            for each in there
            if each.acl.binding.permission_type is wanted and not self._image.has_acl_ended(each.acl)
        ]
        if self._lacks_allow:
            near[:0] = map(ended_miss, self._matching.ended.acls())
        return tuple(near[:MAX_NEAR_MISSES])

    def _listed(self) -> tuple[StandardAcl, ...]:
        if len(self._denying) < self._matching.denying.count:
            return self._denying
        return listed(self._denying + self._allowing)

    def _deciding(self) -> StandardAcl | None:
        if self._verdict is Verdict.DENIED_BY_ACL:
            return self._denying[0]
        return self._allowing[0] if self._verdict is Verdict.ALLOWED_BY_ACL else None

    def _notes(self, least: SmallestAcl) -> Iterator[str]:
        if self._verdict is Verdict.SUPER_USER:
            yield _SUPER_USER
        if self._verdict is Verdict.DEFAULT_ALLOW:
            yield _DEFAULT_ALLOW
        if self._verdict is Verdict.DENIED_BY_ACL:
            lacks = _ALLOW_LACKS if self._of_others else _ALLOW_MAY_LACK
            rest = lacks if least.binding is not None else "" if self._lacks_allow else _DEFAULT_STEPS_IN
            yield _DENY_STANDS + (_ALLOW_STANDS if self._allowing else rest)
        if least.note is not None:
            yield least.note


def _odd(question: Question) -> Iterator[str]:
    resource_type, operation = question.resource_type, question.operation
    if resource_type <= ResourceType.ANY:
        yield f"no resource has the type {resource_type.name}"
    elif operation is not AclOperation.ALL and operation not in supported_operations(resource_type):
        yield f"the operation {operation.name} does not apply to a {resource_type.name}"
