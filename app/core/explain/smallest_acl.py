"""The smallest ACL that would allow something: the least that has to be created (KIP-140, KIP-290)."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

from app.core.explain.misses import Question
from app.core.kafka.bindings import AclBinding
from app.core.kafka.codes import (
    CLUSTER_NAME,
    WILDCARD,
    WILDCARD_PRINCIPAL,
    AclOperation,
    AclPermissionType,
    PatternType,
    ResourceType,
)
from app.core.kafka.validation import MAX_TEXT_BYTES, validate_new_acl

_UNKEEPABLE = re.compile("[\0\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class SmallestAcl:
    """The ACL, or None if none that createAcls takes would do; `note` says why it is as wide as it is, or missing."""

    binding: AclBinding | None
    note: str | None


def smallest_acl(question: Question) -> SmallestAcl:
    """The ALLOW that lets this pass and as little else as can be; it says nothing of DENYs.

    It names the resource literally, the caller's principal, its one address and the one operation. An ACL that
    allows this question must match it in all four, and each of these matches as little as can match: no principal
    but this, no other address, no other name, and of the operations that allow it (itself, those that imply it, ALL)
    the one that implies least. So whatever else would allow this allows all that this one does.

    Where createAcls refuses that ACL, or where it would be wider than it looks (a resource called `*`, a caller
    called `User:*`), it is the narrowest that createAcls takes, and the note says so.
    """
    exact = _binding(question, _operations(question)[0], (PatternType.LITERAL, question.resource_name))
    for operation, principal, pattern in product(
        _operations(question), (question.principal, WILDCARD_PRINCIPAL), _patterns(question)
    ):
        binding = _binding(question, operation, pattern, principal)
        if validate_new_acl(binding) is None:
            return SmallestAcl(binding, _why_so_wide(question, binding))
    refusal = validate_new_acl(exact)
    reason = "" if refusal is None else f": {refusal.message}"
    return SmallestAcl(None, f"no ACL can allow this, for createAcls takes none that would match{reason}")


def _binding(
    question: Question, operation: AclOperation, pattern: tuple[PatternType, str], principal: str | None = None
) -> AclBinding:
    pattern_type, name = pattern
    return AclBinding(
        question.resource_type,
        name,
        pattern_type,
        question.principal if principal is None else principal,
        question.address.text,
        operation,
        AclPermissionType.ALLOW,
    )


def _operations(question: Question) -> tuple[AclOperation, ...]:
    return (question.operation,) if question.operation >= AclOperation.ALL else (AclOperation.ALL,)


def _patterns(question: Question) -> Iterator[tuple[PatternType, str]]:
    """The patterns that cover the resource, narrowest first, as far as createAcls may take them."""
    name = question.resource_name
    if name != WILDCARD:
        # The literal `*` is no name but every name.
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
        wide.append(f"it names ALL operations, for no ACL can name {question.operation.name}")
    if binding.principal == WILDCARD_PRINCIPAL:
        wide.append(
            "it is for every principal, for no ACL speaks of the caller `User:*` alone"
            if question.principal == WILDCARD_PRINCIPAL
            else "it is for every principal, for createAcls does not take this caller's"
        )
    if binding.pattern_type is PatternType.PREFIXED:
        wide.append(
            "it covers every name that begins with `*`, for the literal `*` covers all names"
            if question.resource_name == WILDCARD
            else f"it covers every name that begins with `{binding.resource_name[:100]}`, for createAcls does not take "
            "the resource's own"
        )
    elif binding.resource_name != question.resource_name:
        wide.append(
            f"it covers every {binding.resource_type.name}, for createAcls does not take the resource's own name"
        )
    return "; ".join(wide) + "; think before you create it" if wide else None
