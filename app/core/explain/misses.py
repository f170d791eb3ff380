"""Why one ACL does not match one question, how near it comes, and the words for it.

An ACL matches in four dimensions: principal, host, operation and resource. An ACL that fails in one or two of them is a
near miss; one that fails in both principal and resource has nothing to do with the question.
"""

from dataclasses import dataclass, field
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address

from app.core.groups import Groups, speaking_of
from app.core.index.masks import host_matches
from app.core.index.prefixes import shared_length
from app.core.index.table import SortKey, sort_key
from app.core.kafka.bindings import AclBinding
from app.core.kafka.codes import (
    WILDCARD,
    AclOperation,
    AclPermissionType,
    PatternType,
    ResourceType,
)
from app.core.kafka.errors import InvalidRequestException
from app.core.kafka.hosts import ClientAddress, parse_address, parse_cidr
from app.core.kafka.operations import ALLOW_MASK, DENY_MASK
from app.core.readable import backticked

PRINCIPAL, HOST, OPERATION, RESOURCE = 1, 2, 4, 8
DIMENSIONS = {PRINCIPAL: "principal", HOST: "host", OPERATION: "operation", RESOURCE: "resource"}
"""The four dimensions as bits, and their names."""

_is_in_range = lru_cache(maxsize=4_096)(host_matches)
_MAX_MISSED = 2
_STRANGERS = PRINCIPAL | RESOURCE
_ALLOW, _LITERAL, _PREFIXED = int(AclPermissionType.ALLOW), int(PatternType.LITERAL), int(PatternType.PREFIXED)

# How far a miss is. More dimensions are always farther; within one: a typing error, then what another value of the
# same kind would mend, then other names by the length of their common prefix.
_EACH = 1_000
_SLIP = 100
_BEGINNING = 150
_OTHER_VALUE = 200
_OTHER_TYPE = 250
_OTHER_NAME = 300
_ALL_UNLIKE = 100
_MOST_SHOWN = 1_000
"""Characters of a name."""
_GLANCE = 64
_NEIGHBOURS = 16
_IPV4 = 4


@dataclass(frozen=True, slots=True)
class Question:
    """One action of one caller: who, from where, what, on which literal resource."""

    principal: str
    address: ClientAddress
    operation: AclOperation
    resource_type: ResourceType
    resource_name: str
    groups: Groups | None = None
    speaking: tuple[str, ...] = field(init=False)
    """All principals whose ACLs apply to the caller: itself, its groups, `User:*`."""
    _speaking: frozenset[str] = field(init=False)

    def __post_init__(self) -> None:
        speaking = speaking_of(self.principal, self.groups)
        object.__setattr__(self, "speaking", speaking)
        object.__setattr__(self, "_speaking", frozenset(speaking))

    def covered_by(self, resource_type: int, pattern_type: int, name: str) -> bool:
        if resource_type != self.resource_type:
            return False
        if pattern_type == _PREFIXED:
            return self.resource_name.startswith(name)
        return name in (self.resource_name, WILDCARD)

    def missed_by(self, key: SortKey) -> int:
        """The dimensions, as bits, in which an ACL with these fields does not match; 0: it does."""
        resource_type, name, pattern_type, principal, host, operation, permission_type = key
        missed = 0 if principal in self._speaking else PRINCIPAL
        if not (host in (WILDCARD, self.address.text) or ("/" in host and _is_in_range(host, self.address))):
            missed |= HOST
        covered = (ALLOW_MASK if permission_type == _ALLOW else DENY_MASK)[operation]
        if not covered >> self.operation & 1:
            missed |= OPERATION
        if not self.covered_by(resource_type, pattern_type, name):
            missed |= RESOURCE
        return missed


def distance(question: Question, key: SortKey, missed: int) -> int | None:
    """How far an ACL with these fields, which misses in these dimensions, is from matching; None: no near miss."""
    if not missed or missed.bit_count() > _MAX_MISSED or missed & _STRANGERS == _STRANGERS:
        return None
    total = _EACH * missed.bit_count()
    if missed & PRINCIPAL:
        total += _SLIP if _alike(key[3], question.principal) else _name_distance(key[3], question.principal)
    if missed & HOST:
        total += _SLIP if _is_other_spelling(key[4], question.address) else _OTHER_VALUE
    if missed & OPERATION:
        total += _OTHER_VALUE
    if missed & RESOURCE:
        resource = _resource_distance(question, key)
        if resource is None:
            return None
        total += resource
    return total


def words_for(question: Question, binding: AclBinding) -> str:
    missed = question.missed_by(sort_key(binding))
    conditions = []
    if missed & PRINCIPAL:
        conditions.append(f"the principal were {backticked(binding.principal, _MOST_SHOWN)}")
    if missed & HOST:
        conditions.append(_host_words(question, binding.host))
    if missed & OPERATION:
        conditions.append(f"the operation were {binding.operation.name}")
    if missed & RESOURCE:
        conditions.append(_resource_words(question, binding))
    return f"would match if {' and '.join(conditions)}"


def dimensions_in(missed: int) -> tuple[str, ...]:
    return tuple(name for bit, name in DIMENSIONS.items() if missed & bit)


@lru_cache(maxsize=64)
def hosts_around(address: ClientAddress) -> tuple[str, ...]:
    bits, make = (32, IPv4Address) if address.version == _IPV4 else (128, IPv6Address)
    ranges = (f"{make(address.value >> drop << drop)}/{bits - drop}" for drop in range(bits + 1))
    near = (address.value + by * way for by in range(1, _NEIGHBOURS + 1) for way in (-1, 1))
    return (
        *(WILDCARD, address.text),
        *ranges,
        *(parse_address(str(make(each))).text for each in near if 0 <= each < 1 << bits),
    )


def _resource_distance(question: Question, key: SortKey) -> int | None:
    resource_type, name, pattern_type = key[:3]
    if resource_type != question.resource_type:
        return _OTHER_TYPE if name == question.resource_name else None
    if _is_glob(question, pattern_type, name) or (pattern_type, name) == (_PREFIXED, WILDCARD):
        return _SLIP
    if _alike(name, question.resource_name):
        return _SLIP
    if pattern_type == _LITERAL and question.resource_name.startswith(name):
        return _BEGINNING + _unlike(name, question.resource_name) // 4
    return _name_distance(name, question.resource_name)


def _resource_words(question: Question, binding: AclBinding) -> str:
    name = binding.resource_name
    if binding.resource_type is not question.resource_type:
        return f"the resource were a {binding.resource_type.name}, not a {question.resource_type.name}"
    if _is_glob(question, binding.pattern_type, name):
        prefix = backticked(name[:-1], _MOST_SHOWN)
        return f"its pattern were PREFIXED {prefix}, because `*` within a name is not a wildcard"
    if binding.pattern_type is PatternType.PREFIXED:
        if name == WILDCARD:
            return "its pattern type were LITERAL, because PREFIXED `*` covers only names that begin with `*`"
        return f"the resource's name began with {backticked(name, _MOST_SHOWN)}"
    if question.resource_name.startswith(name):
        return "its pattern type were PREFIXED"
    return f"the resource were {backticked(name, _MOST_SHOWN)}"


def _host_words(question: Question, host: str) -> str:
    if _is_other_spelling(host, question.address):
        return f"its host were spelled `{question.address.text}`"
    if "/" not in host:
        return f"the client's address were {backticked(host, _MOST_SHOWN)}"
    try:
        parse_cidr(host)
    except InvalidRequestException:
        return f"its host {backticked(host, _MOST_SHOWN)} were a valid range of addresses"
    return f"the client's address were in {backticked(host, _MOST_SHOWN)}"


def _is_glob(question: Question, pattern_type: int, name: str) -> bool:
    return pattern_type == _LITERAL and name.endswith(WILDCARD) and question.resource_name.startswith(name[:-1])


def _is_other_spelling(host: str, address: ClientAddress) -> bool:
    if "/" in host or host == address.text:
        return False
    try:
        return parse_address(host).text == address.text
    except InvalidRequestException:
        return False


def _alike(name: str, asked: str) -> bool:
    first, first_asked = _folded(name[:_GLANCE]), _folded(asked[:_GLANCE])
    # Names may have many thousand characters; most differ in the first of them.
    if not (first.startswith(first_asked) or first_asked.startswith(first)):
        return False
    return _folded(name) == _folded_asked(asked)


def _folded(name: str) -> str:
    return "".join(name.split()).casefold()


_folded_asked = lru_cache(maxsize=2)(_folded)


def _name_distance(a: str, b: str) -> int:
    return _OTHER_NAME + _unlike(a, b)


def _unlike(a: str, b: str) -> int:
    """From 0 for names with the same beginning to 100 for names without a common one."""
    return _ALL_UNLIKE - _ALL_UNLIKE * shared_length(a, b) // max(len(a), len(b), 1)
