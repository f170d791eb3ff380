"""Who gains and who loses what, if one set of ACLs replaces another (the effective access of KIP-11 and KIP-290).

Exact: each region is as fine as the ACLs that apply to it, so that all its requests are decided alike, and its result
is `core.authorize`'s own answer to one of them. Only principals, names and hosts that a changed ACL applies to are
examined (with allow.everyone.if.no.acl.found also those of names that get their first ACL, or lose their last one).
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import cast

from app.core.access.answers import Budget, TypeAnswers, questions_of
from app.core.access.host_keys import address_within, host_of
from app.core.access.regions import Cell, name_within, pattern_of
from app.core.kafka.bindings import AclBinding
from app.core.kafka.codes import WILDCARD_PRINCIPAL, AclOperation, PatternType, ResourceType
from app.core.kafka.configs import AuthorizerConfig
from app.core.kafka.hosts import ClientAddress
from app.core.kafka.operations import from_bit_field

MAX_QUESTIONS = 150_000
"""About how many regions are examined; some seconds' work."""


@dataclass(frozen=True, slots=True)
class Principals:
    """One principal, or one group; or, where `name` is `User:*`, every principal except some.

    Super users are always among these, but for those called `Group:g`: the name stands for the group here.
    """

    name: str
    besides: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Hosts:
    """The clients that an ACL host covers, except those that other hosts cover."""

    host: str
    besides: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Names:
    """The resource names that a pattern covers, except those that other patterns (type, name) cover."""

    pattern_type: PatternType
    name: str
    besides: tuple[tuple[PatternType, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Witness:
    principal: str
    client_address: str
    resource_name: str


@dataclass(frozen=True, slots=True)
class AccessChange:
    """Every request of this kind was denied and is allowed now (`gained`), or the other way round.

    For any principal, client and name in it, and any of the operations. All of Kafka's operations are listed, also
    those that mean nothing on the resource type: they are decided like any other.
    """

    gained: bool
    principals: Principals
    hosts: Hosts
    operations: tuple[AclOperation, ...]
    resource_type: ResourceType
    names: Names
    witness: Witness


@dataclass(frozen=True, slots=True)
class Unresolved:
    """What was too much to work out: how the access of these principals changes on this resource type.

    `User:*` stands for all principals. `changed_acls` apply to them.
    """

    principal: str
    resource_type: ResourceType
    changed_acls: int


@dataclass(frozen=True, slots=True)
class AccessDiff:
    """All changes, in order; those of `unresolved` are not among them."""

    changes: tuple[AccessChange, ...] = ()
    unresolved: tuple[Unresolved, ...] = ()


def access_diff(
    before: Iterable[AclBinding],
    after: Iterable[AclBinding],
    config: AuthorizerConfig,
    max_questions: int = MAX_QUESTIONS,
) -> AccessDiff:
    """What changes for whom if the ACLs `before` become those of `after`, under one configuration.

    The cost grows with the ACLs that overlap a changed one, and only in one pass with all others. If it would take
    more than about `max_questions`, the rest is reported as `unresolved`.
    """
    budget = Budget(max_questions)
    changes: list[AccessChange] = []
    unresolved: list[Unresolved] = []
    for answers in questions_of(frozenset(before), frozenset(after), config):
        cells = answers.cells(budget)
        unresolved += [
            Unresolved(each, answers.resource_type, answers.changed_acls_of(each)) for each in answers.unresolved
        ]
        changes += _changes(answers, cells)
    return AccessDiff(tuple(sorted(changes, key=_order)), tuple(unresolved))


def _changes(answers: TypeAnswers, cells: dict[str, Sequence[Cell]]) -> list[AccessChange]:
    of_all = dict.fromkeys(cells.pop(WILDCARD_PRINCIPAL, ()))
    like_all: defaultdict[Cell, set[str]] = defaultdict(set)
    found = []
    for principal, own in cells.items():
        for cell in own:
            if cell in of_all:
                like_all[cell].add(principal)
            else:
                found.append(_change(answers.resource_type, Principals(principal), principal, cell))
    somebody = answers.somebody_else
    about = {cell.names.key for cell in of_all}
    apart: defaultdict[str, set[str]] = defaultdict(set)
    for principal, keys in answers.places_of.items():
        for key in about & keys:
            apart[key].add(principal)
    always = {*answers.unresolved, *answers.super_users}
    for cell in of_all:
        besides = tuple(sorted((apart[cell.names.key] | always) - like_all[cell]))
        found.append(_change(answers.resource_type, Principals(WILDCARD_PRINCIPAL, besides), somebody, cell))
    return found


def _change(resource_type: ResourceType, principals: Principals, witness: str, cell: Cell) -> AccessChange:
    # INVARIANT: regions that hold no client are left out beforehand (`core.access.answers`).
    address = cast("ClientAddress", address_within(cell.hosts))
    return AccessChange(
        gained=cell.gained,
        principals=principals,
        hosts=Hosts(host_of(cell.hosts.key), tuple(map(host_of, cell.hosts.holes))),
        operations=from_bit_field(cell.operations),
        resource_type=resource_type,
        names=Names(*pattern_of(cell.names.key), tuple(map(pattern_of, cell.names.holes))),
        witness=Witness(witness, address.text, name_within(cell.names)),
    )


def _order(change: AccessChange) -> tuple[object, ...]:
    names, principals = change.names, change.principals
    return (
        change.gained,
        principals.name != WILDCARD_PRINCIPAL,
        principals.name,
        change.resource_type,
        names.name,
        names.pattern_type,
        change.hosts.host,
        change.operations,
    )
