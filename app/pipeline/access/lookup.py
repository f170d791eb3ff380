"""Answers from the few ACLs or masks on one resource or of one principal, in plain Python."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from app.core.access.host_keys import NOBODY, client_key, host_key
from app.core.kafka.codes import CLUSTER_NAME, WILDCARD, WILDCARD_PRINCIPAL, AclOperation, ResourceType
from app.core.kafka.hosts import ClientAddress
from app.core.kafka.operations import ALLOW_MASK, DENY_MASK, from_bit_field, supported_operations, to_bit_field
from app.pipeline.spark.errors import PipelineError

Acl = Mapping[str, str]
"""An ACL's id, its seven fields, and `until`, which is empty unless it ends."""


class Mask(NamedTuple):
    """What one pattern gives, or all that cover a resource."""

    principal: str
    host: str
    allow_mask: int
    deny_mask: int


class Answer(NamedTuple):
    """On one resource, with everything that covers it folded in."""

    principal: str
    host: str
    allow_mask: int
    deny_mask: int
    effective_mask: int


class Access(NamedTuple):
    """`own` are the ACLs that only the principal has, `shared` those of `User:*`, both in words."""

    principal: str
    host: str
    operations: list[str]
    denied: list[str]
    own: list[str]
    shared: list[str]


def answers_of(masks: Iterable[Mask]) -> Iterator[Answer]:
    """The expanded rows of one resource, from all rows of `masks` on the patterns that cover it; `User:*` first."""
    by_principal = defaultdict[str, list[Mask]](list, {WILDCARD_PRINCIPAL: []})
    for mask in masks:
        by_principal[mask.principal].append(mask)
    everyone = by_principal[WILDCARD_PRINCIPAL]
    for principal, own in by_principal.items():
        yield from answers_for(principal, own if principal == WILDCARD_PRINCIPAL else [*own, *everyone])


def answers_for(principal: str, masks: Iterable[Mask]) -> Iterator[Answer]:
    """The rows of one principal and resource, from all masks that concern both: one for `*`, one for each host."""
    hosts: dict[str, tuple[str, int, int]] = {"": (WILDCARD, 0, 0)}
    for mask in masks:
        key = host_key(mask.host)
        if key != NOBODY:
            host, allow, deny = hosts.get(key, (mask.host, 0, 0))
            hosts[key] = min(host, mask.host), allow | mask.allow_mask, deny | mask.deny_mask
    # Sorted by key, a host comes after all hosts that cover it. The stack holds exactly those, because hosts nest.
    wider: list[tuple[str, int, int]] = []
    for key, (host, own_allow, own_deny) in sorted(hosts.items()):
        while wider and not key.startswith(wider[-1][0]):
            wider.pop()
        _, above_allow, above_deny = wider[-1] if wider else ("", 0, 0)
        allow, deny = own_allow | above_allow, own_deny | above_deny
        wider.append((key, allow, deny))
        yield Answer(principal, host, allow, deny, allow & ~deny)


def closest(answers: Iterable[Answer], address: ClientAddress) -> list[Answer]:
    key, best = client_key(address), dict[str, Answer]()
    for answer in answers:
        own = host_key(answer.host)
        there = best.get(answer.principal)
        if key.startswith(own) and (there is None or len(own) > len(host_key(there.host))):
            best[answer.principal] = answer
    return list(best.values())


def parse_resource(text: str) -> tuple[str, str]:
    """Type and name in `topic:orders`; everything after the first colon is the name. Raises PipelineError."""
    word, _, name = text.partition(":")
    kind = ResourceType.from_string(word.upper().replace("-", "_"))
    if kind is ResourceType.CLUSTER and not name:
        name = CLUSTER_NAME
    if kind <= ResourceType.ANY or not name:
        types = ", ".join(each.name.lower() for each in ResourceType if each > ResourceType.ANY)
        raise PipelineError(
            f"`{text}` is not a resource; write it as `topic:orders`, with one of {types} before the first colon"
        )
    return kind.name, name


def who_can(
    acls: Iterable[Acl], resource_type: str, address: ClientAddress | None = None, operation: str | None = None
) -> Iterator[Access]:
    """By principal and host, from all ACLs that cover one resource: `User:*` first, then in the order of texts."""
    acls = list(acls)
    by_place: dict[tuple[str, str], list[Acl]] = defaultdict(list)
    for acl in acls:
        by_place[acl["principal"], host_key(acl["host"])].append(acl)
    answers = list(answers_of(map(mask_of, acls)))
    if address is not None:
        answers = closest(answers, address)
    answers.sort(key=lambda each: (each.principal != WILDCARD_PRINCIPAL, each.principal, host_key(each.host)))
    lengths = sorted({len(key) for _, key in by_place})
    for answer in answers:
        allowed, denied = (operation_words(mask, resource_type) for mask in (answer.effective_mask, answer.deny_mask))
        shown = allowed + denied
        if shown if operation is None else operation in shown:
            keys = _keys_over(answer.host, lengths)
            own, shared = (
                [_summary(acl) for each in keys for acl in by_place.get((principal, each), ())]
                for principal in (answer.principal, WILDCARD_PRINCIPAL)
            )
            own = [] if answer.principal == WILDCARD_PRINCIPAL else own
            yield Access(answer.principal, answer.host, allowed, denied, own, shared)


def mask_of(acl: Acl) -> Mask:
    code = AclOperation[acl["operation"]]
    if acl["permission_type"] == "ALLOW":
        return Mask(acl["principal"], acl["host"], ALLOW_MASK[code], 0)
    return Mask(acl["principal"], acl["host"], 0, DENY_MASK[code])


def operation_words(mask: int, resource_type: str) -> list[str]:
    supported = to_bit_field(supported_operations(ResourceType[resource_type]))
    return [each.name for each in from_bit_field(mask & supported)]


def _summary(acl: Acl) -> str:
    everyone = f" for {WILDCARD_PRINCIPAL}" if acl["principal"] == WILDCARD_PRINCIPAL else ""
    until = f" until {acl['until']}" if acl["until"] else ""
    return (
        f"{acl['permission_type']} {acl['operation']} on {acl['pattern_type']} {acl['resource_name']}"
        f"{everyone} from {acl['host']}{until} ({acl['id']})"
    )


def _keys_over(host: str, lengths: Sequence[int]) -> list[str]:
    key = host_key(host)
    return [key[:length] for length in lengths if length <= len(key)]
