"""One question answered from the tables of `effective`, in plain Python: what their columns mean, to the bit."""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from app.core.access.host_keys import NOBODY, client_key, host_key
from app.core.kafka.codes import WILDCARD, WILDCARD_PRINCIPAL
from app.core.kafka.hosts import ClientAddress


class Mask(NamedTuple):
    """What one principal is allowed and denied from one host, by one pattern or by all that cover a resource."""

    principal: str
    host: str
    allow_mask: int
    deny_mask: int


class Answer(NamedTuple):
    """What holds for one principal from one host on one resource, everything that covers it folded in."""

    principal: str
    host: str
    allow_mask: int
    deny_mask: int
    effective_mask: int


def allowed_by_masks(masks: Sequence[Mask], principal: str, address: ClientAddress, operation: int) -> bool | None:
    """The answer from all rows of `masks` on the patterns that cover the resource.

    None if there are none: then allow.everyone.if.no.acl.found decides. Super users are not known here.
    """
    if not masks:
        return None
    key = client_key(address)
    allow = deny = 0
    for mask in masks:
        if mask.principal in (principal, WILDCARD_PRINCIPAL) and key.startswith(host_key(mask.host)):
            allow |= mask.allow_mask
            deny |= mask.deny_mask
    return bool(allow & ~deny & 1 << operation)


def allowed_by_answers(
    answers: Sequence[Answer], principal: str, address: ClientAddress, operation: int
) -> bool | None:
    """The answer from all rows of the expanded table on the resource; None as in `allowed_by_masks`."""
    if not answers:
        return None
    own = [each for each in answers if each.principal == principal]
    speaking = own or [each for each in answers if each.principal == WILDCARD_PRINCIPAL]
    key = client_key(address)
    matching = (each for each in speaking if key.startswith(host_key(each.host)))
    closest = max(matching, key=lambda each: len(host_key(each.host)))
    return bool(closest.effective_mask >> operation & 1)


def answers_of(masks: Iterable[Mask]) -> Iterator[Answer]:
    """The expanded rows of one resource, from all rows of `masks` on the patterns that cover it; `User:*` first."""
    by_principal: dict[str, list[Mask]] = {WILDCARD_PRINCIPAL: []}
    for mask in masks:
        by_principal.setdefault(mask.principal, []).append(mask)
    everyone = by_principal[WILDCARD_PRINCIPAL]
    for principal, own in by_principal.items():
        yield from answers_for(principal, own if principal == WILDCARD_PRINCIPAL else [*own, *everyone])


def answers_for(principal: str, masks: Iterable[Mask]) -> Iterator[Answer]:
    """The rows of one principal and resource, from all masks that speak of the two: one for `*`, one for each host."""
    hosts: dict[str, tuple[str, int, int]] = {"": (WILDCARD, 0, 0)}
    for mask in masks:
        key = host_key(mask.host)
        if key != NOBODY:
            host, allow, deny = hosts.get(key, (mask.host, 0, 0))
            hosts[key] = min(host, mask.host), allow | mask.allow_mask, deny | mask.deny_mask
    # In this order a host comes behind all that cover it, and those are what the stack holds: hosts nest.
    wider: list[tuple[str, int, int]] = []
    for key, (host, own_allow, own_deny) in sorted(hosts.items()):
        while wider and not key.startswith(wider[-1][0]):
            wider.pop()
        _, above_allow, above_deny = wider[-1] if wider else ("", 0, 0)
        allow, deny = own_allow | above_allow, own_deny | above_deny
        wider.append((key, allow, deny))
        yield Answer(principal, host, allow, deny, allow & ~deny)
