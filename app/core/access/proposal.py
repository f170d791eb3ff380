"""The fewest ACLs that allow what a principal has used, and nothing that it was denied (least privilege).

It uses patterns that a person would write: names as they are, and a prefix up to one of `.`, `-`, `_` if it stands for
several used names and for no other name that exists. Operations are granted as they were used, less those that another
one implies (KIP-140). The host is `*`, unless what was used from one host was denied from another.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from enum import StrEnum
from itertools import chain, islice
from typing import NamedTuple

from app.core.index.table import sort_key
from app.core.kafka.bindings import AclBinding
from app.core.kafka.codes import WILDCARD, AclOperation, AclPermissionType, PatternType, ResourceType
from app.core.kafka.operations import ALLOW_MASK, from_bit_field
from app.core.kafka.validation import validate_new_acl

SEVERAL = 3
"""How many names a prefix must stand for, as it also allows future names."""

_BOUNDARIES = ".-_"
_LONGEST_PREFIX = 249
"""Characters; no topic's name is longer."""
_MOST_PREFIXES = 16
"""Boundaries that are tried in one name."""


class Question(NamedTuple):
    """What one principal asked. The `host` may be `*`: from wherever it was asked."""

    resource_type: ResourceType
    resource_name: str
    operation: AclOperation
    host: str


class Reason(StrEnum):
    """Why nothing that allows a used question is proposed."""

    NO_SUCH_ACL = "no ACL can allow exactly this: it has a name, an operation or a host that ACLs can't have"
    DENIED_TOO = "an ACL that allows it would also allow what was last denied"


@dataclass(frozen=True, slots=True)
class Proposal:
    """`acls` allow all that was used but what is `left_out`."""

    acls: tuple[AclBinding, ...]
    left_out: Mapping[Question, Reason]


Crowds = Mapping[tuple[ResourceType, str], int]
"""How many existing names begin with a prefix. Of a prefix that is not in it nothing is known, and none is proposed."""


def prefixes_of(name: str) -> Iterator[str]:
    begins = len(name) - len(name.lstrip(_BOUNDARIES))
    ends = (at for at in range(begins, min(len(name), _LONGEST_PREFIX)) if name[at] in _BOUNDARIES)
    return (name[: at + 1] for at in islice(ends, _MOST_PREFIXES))


def propose(
    principal: str, used: Iterable[Question], denied: Iterable[Question], crowds: Crowds, *, exact_hosts: bool = False
) -> Proposal:
    """What is `denied` must not be allowed; it need only hold names that were used, with the hosts of all questions.

    With `exact_hosts` no ACL has the host `*`, unless a question has.
    """
    denials: defaultdict[tuple[ResourceType, str], list[tuple[AclOperation, str]]] = defaultdict(list)
    for each in denied:
        denials[each.resource_type, each.resource_name].append((each.operation, each.host))
    left_out: dict[Question, Reason] = {}
    rights: defaultdict[ResourceType, _Rights] = defaultdict(_Rights)
    for question in used:
        refused = denials.get((question.resource_type, question.resource_name), ())
        hosts = _denied_hosts(question.operation, refused)
        if not _is_exact(principal, question):
            left_out[question] = Reason.NO_SUCH_ACL
        elif hosts and (question.host in hosts or WILDCARD in hosts or question.host == WILDCARD):
            left_out[question] = Reason.DENIED_TOO
        else:
            host = question.host if hosts or exact_hosts else WILDCARD
            rights[question.resource_type].add(host, question)
    acls = [
        AclBinding(kind, name, pattern, principal, host, operation, AclPermissionType.ALLOW)
        for kind, each in rights.items()
        for host, operation, names, fitting in each.scopes()
        for pattern, name in _patterns(kind, names, fitting, crowds)
    ]
    return Proposal(tuple(sorted(acls, key=sort_key)), left_out)


class _Rights:
    """What is to be allowed on one resource type: from a host, or from everywhere (`*`)."""

    def __init__(self) -> None:
        self._used: defaultdict[str, defaultdict[str, set[AclOperation]]] = defaultdict(lambda: defaultdict(set))
        """By host and name."""
        self._hosts: defaultdict[tuple[str, AclOperation], set[str]] = defaultdict(set)
        """The hosts from which each operation on each name was used."""

    def add(self, host: str, question: Question) -> None:
        self._used[host][question.resource_name].add(question.operation)
        self._hosts[question.resource_name, question.operation].add(question.host)

    def scopes(self) -> Iterator[tuple[str, AclOperation, Collection[str], Collection[str]]]:
        """Host and operation, the names that need an ACL of these, and those that it may apply to."""
        for host in sorted(self._used):
            needing: defaultdict[AclOperation, set[str]] = defaultdict(set)
            fitting: defaultdict[AclOperation, set[str]] = defaultdict(set)
            for name, operations in self._used[host].items():
                # What is allowed from everywhere does not count: a prefix from one host would make that ACL needless.
                for operation in from_bit_field(_allowed(operations)):
                    fitting[operation].add(name)
                for operation in operations:
                    if not self._is_implied(host, name, operation):
                        needing[operation].add(name)
            for operation, names in needing.items():
                yield host, operation, names, fitting[operation]

    def _is_implied(self, host: str, name: str, operation: AclOperation) -> bool:
        """Whether ACLs of other operations allow this one from wherever it was used."""
        if self._implies(host, name, operation):
            return True
        if host != WILDCARD:
            return bool(_allowed(self._at(WILDCARD, name)) >> operation & 1)
        return all(self._implies(where, name, operation) for where in self._hosts[name, operation])

    def _implies(self, host: str, name: str, operation: AclOperation) -> bool:
        return bool(_allowed(self._at(host, name) - {operation}) >> operation & 1)

    def _at(self, host: str, name: str) -> AbstractSet[AclOperation]:
        names = self._used.get(host)
        return frozenset() if names is None else names.get(name, frozenset())


def _allowed(operations: Iterable[AclOperation]) -> int:
    bits = 0
    for operation in operations:
        bits |= ALLOW_MASK[operation]
    return bits


def _patterns(
    kind: ResourceType, needing: Iterable[str], fitting: Iterable[str], crowds: Crowds
) -> Iterator[tuple[PatternType, str]]:
    """The fewest patterns for these names: as long as prefixes nest, the widest that may be taken are the fewest."""
    wanted, caught = _count_prefixes(needing), _count_prefixes(fitting)
    taken = set()
    for name in needing:
        # INVARIANT: a prefix covers no existing name on which its operation was not used.
        fit = (
            each
            for each in prefixes_of(name)
            if wanted[each] > 1 and caught[each] >= SEVERAL and caught[each] == crowds.get((kind, each))
        )
        widest = next(fit, None)
        if widest is None:
            yield PatternType.LITERAL, name
        elif widest not in taken:
            taken.add(widest)
            yield PatternType.PREFIXED, widest


def _count_prefixes(names: Iterable[str]) -> Counter[str]:
    return Counter(chain.from_iterable(map(prefixes_of, names)))


def _denied_hosts(operation: AclOperation, denials: Iterable[tuple[AclOperation, str]]) -> set[str]:
    return {host for denied, host in denials if ALLOW_MASK[operation] >> denied & 1}


def _is_exact(principal: str, question: Question) -> bool:
    """Whether an ACL can be made that allows this question, and nothing else but what its operation implies."""
    kind, name, operation, host = question
    acl = AclBinding(kind, name, PatternType.LITERAL, principal, host, operation, AclPermissionType.ALLOW)
    return name != WILDCARD and operation > AclOperation.ALL and validate_new_acl(acl) is None
