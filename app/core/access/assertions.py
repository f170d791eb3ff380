"""Whether an assertion about access holds for every principal, client and name that it is about.

Exact: names and hosts are examined region by region (`core.access.regions`), each as fine as the ACLs that apply to
it. A witness shows what does not hold: a request that `core.authorize` decides otherwise than was asserted.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from itertools import chain, islice
from typing import NamedTuple

from app.core.access.asserted import AclsOfType, Patterns
from app.core.access.holdings import after_denies
from app.core.access.host_keys import NOBODY, address_within, client_key, host_key
from app.core.access.regions import EVERYTHING, Nested, Region, acl_key, key_of_name, name_key, name_within, tree
from app.core.access.trial import image_of, somebody_besides
from app.core.grouped import authorization_of
from app.core.groups import GROUP_PREFIX, Groups, exclude_groups, groups_of, is_group, speaking_of
from app.core.index.masks import DENY_SHIFT, PACKED_MASKS
from app.core.kafka.bindings import AclBinding
from app.core.kafka.codes import WILDCARD, WILDCARD_PRINCIPAL, AclOperation, PatternType, ResourceType
from app.core.kafka.configs import AuthorizerConfig
from app.core.kafka.hosts import ClientAddress
from app.core.kafka.operations import from_bit_field, to_bit_field
from app.core.verdicts import Decision

MAX_STEPS = 5_000_000
"""About how many hosts of ACLs are examined for one assertion: some seconds' work."""

_Masks = Mapping[str, int]
"""By the keys of hosts: the packed masks (`core.index.masks`) of their ACLs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Assertion:
    """Each of these principals is allowed each of the operations, on every name of the pattern, from every client.

    Or, unless `allowed`, none of it. With `others` it is about all principals and groups but these and the super users.
    `Group:<name>` is anyone in that group, a principal without ACLs of its own; `groups` are names of groups that each
    of the principals is in. The clients are those of an ACL's `host`.
    """

    allowed: bool
    principals: tuple[str, ...]
    others: bool
    operations: tuple[AclOperation, ...]
    resource_type: ResourceType
    pattern_type: PatternType
    resource_name: str
    host: str = WILDCARD
    groups: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Witness:
    """A request that is decided otherwise than an assertion says."""

    principal: str
    client_address: str
    operation: AclOperation
    resource_type: ResourceType
    resource_name: str
    decision: Decision
    groups: tuple[str, ...] = ()
    """Names of groups that the principal is in."""


class _Caller(NamedTuple):
    principal: str
    groups: Groups | None = None


class TooMuchError(Exception):
    """An assertion is about more than can be examined."""


class AssertedAcls:
    """ACLs, and the assertions about them, which are checked one after another."""

    def __init__(self, acls: Iterable[AclBinding], assertions: Iterable[Assertion]) -> None:
        self._assertions = frozenset(assertions)
        keys: dict[ResourceType, list[str]] = {each: [] for each in ResourceType}
        for said in self._assertions:
            keys[said.resource_type].append(name_key(said.pattern_type, said.resource_name))
        asserted = {each: Nested(some) for each, some in keys.items()}
        self._types = {each: AclsOfType() for each in ResourceType}
        self._principals: set[str] = set()
        pattern: tuple[ResourceType, PatternType, str] | None = None
        key, counts = EVERYTHING, False
        for acl in acls:
            self._principals.add(acl.principal)
            # Lists are mostly in the order of their patterns.
            if pattern != (pattern := (acl.resource_type, acl.pattern_type, acl.resource_name)):
                key = acl_key(acl)
                counts = asserted[acl.resource_type].meets(key)
            # INVARIANT: a name under assertion has only ACLs whose patterns cover the assertion's, or lie within it.
            # The others, nearly all of a large store, are not examined again.
            if counts:
                self._types[acl.resource_type].add(key, acl)

    def speak_of(self, principal: str) -> bool:
        return principal in self._principals

    def witnesses(self, assertion: Assertion, config: AuthorizerConfig, most: int) -> list[Witness]:
        """Empty if it holds; else at most this many, of as many principals as there are. Raises TooMuchError."""
        if assertion not in self._assertions:
            raise ValueError(f"{assertion} is not one of the assertions that the ACLs were searched for")
        check = _Check(self._types[assertion.resource_type], assertion, config, self._principals)
        return list(islice(check.run(), most))


class _Check:
    """One assertion against the ACLs of its resource type."""

    def __init__(
        self, acls: AclsOfType, assertion: Assertion, config: AuthorizerConfig, principals: AbstractSet[str]
    ) -> None:
        self._acls = acls
        self._said = assertion
        self._config = config
        self._is_open = config.allow_everyone_if_no_acl_found
        self._key = name_key(assertion.pattern_type, assertion.resource_name)
        self._from = host_key(assertion.host)
        self._asked = to_bit_field(assertion.operations)
        self._left = MAX_STEPS
        self._somebody_else = somebody_besides(principals, assertion.principals, config.super_users)

    def run(self) -> Iterator[Witness]:
        """All witnesses of principals that are named, one of each other principal."""
        said = self._said
        if not said.others:
            for principal in said.principals:
                yield from self._of_caller(self._caller(principal))
            return
        yield from islice(self._of_caller(_Caller(self._somebody_else)), 1)
        apart = {*said.principals, *exclude_groups(self._config.super_users), WILDCARD_PRINCIPAL}
        # INVARIANT: a principal without an ACL that goes beyond those of `User:*` is decided as somebody else is, or as
        # asserted; one in several groups as asserted, unless one of them alone, or the principal alone, is not.
        for principal in sorted(self._deviating() - apart):
            yield from islice(self._of_caller(self._caller(principal), is_whole=False), 1)

    def _caller(self, principal: str) -> _Caller:
        if is_group(principal):
            return _Caller(self._somebody_else, Groups((*self._said.groups, principal.removeprefix(GROUP_PREFIX))))
        return _Caller(principal, groups_of(self._said.groups))

    def _deviating(self) -> AbstractSet[str]:
        """All principals with ACLs that may, on these names, allow more than was asserted, or deny it."""
        bits = self._asked << DENY_SHIFT if self._said.allowed else self._asked
        everything = self._acls.everything
        if everything.names.count_below(self._key) > len(self._acls.masks):
            return self._acls.saying(bits)
        inside = chain.from_iterable(everything.acls[key] for key in everything.names.below(self._key))
        return {
            acl.principal
            for acl in chain(everything.above(self._key), inside)
            if PACKED_MASKS[acl.operation, acl.permission_type] & bits
        }

    def _of_caller(self, caller: _Caller, *, is_whole: bool = True) -> Iterator[Witness]:
        """Unless `is_whole`, only the effect of its own ACLs, or its groups', is examined."""
        if caller.principal in self._config.super_users:
            if not self._said.allowed:
                yield self._witness(caller, Region(self._key), Region(self._from), self._asked)
            return
        # Those of `User:*` come last.
        speaking = self._speaking(caller)
        below = {key for each in speaking[: None if is_whole else -1] for key in each.names.below(self._key)}
        is_covered = not self._is_open or any(True for _ in self._acls.everything.above(self._key))
        if is_covered:
            below.add(self._key)
        elif is_whole:
            below.discard(self._key)
            for names in islice(self._by_default(speaking), 1):
                yield self._witness(caller, names, Region(self._from), self._asked)
        for key in sorted(below):
            acls = chain.from_iterable(each.above(key) for each in speaking)
            for hosts, operations in self._wrong(self._masks(acls)):
                yield self._witness(caller, _without(key, speaking), hosts, operations)

    def _speaking(self, caller: _Caller) -> list[Patterns]:
        return [self._acls.of(each) for each in speaking_of(*caller)]

    def _by_default(self, speaking: Sequence[Patterns]) -> Iterator[Region]:
        """Names where it matters that they have no ACL, or only ACLs of others."""
        names = self._acls.everything.names
        if not self._said.allowed:
            yield Region(self._key, tuple(names.below(self._key)))
        else:
            for key in names.below(self._key):
                if not any(True for each in speaking for _ in each.above(key)):
                    yield _without(key, speaking)

    def _masks(self, acls: Iterable[AclBinding]) -> _Masks:
        masks: dict[str, int] = {}
        asked = self._asked | self._asked << DENY_SHIFT
        for acl in acls:
            self._spend()
            mask, host = PACKED_MASKS[acl.operation, acl.permission_type] & asked, host_key(acl.host)
            if mask and host != NOBODY and (host.startswith(self._from) or self._from.startswith(host)):
                masks[host] = masks.get(host, 0) | mask
        return masks

    def _spend(self) -> None:
        self._left -= 1
        if self._left < 0:
            raise TooMuchError

    def _wrong(self, masks: _Masks) -> Iterator[tuple[Region, int]]:
        """Clients, with the operations that are decided otherwise than asserted where these ACLs apply."""
        around, inside = 0, {self._from: 0}
        for key, mask in masks.items():
            if self._from.startswith(key):
                around |= mask
            else:
                inside[key] = mask
        found: dict[str, int] = {}
        for node in tree(inside):
            mask = found[node.key] = inside[node.key] | (around if node.parent is None else found[node.parent.key])
            operations = self._deviates(mask)
            if operations and address_within(node.region) is not None:
                yield node.region, operations

    def _deviates(self, mask: int) -> int:
        allowed, _ = after_denies(mask, self._asked)
        return self._asked & ~allowed if self._said.allowed else allowed

    def _witness(self, caller: _Caller, names: Region, hosts: Region, operations: int) -> Witness:
        said, name, address = self._said, name_within(names), address_within(hosts)
        operation = from_bit_field(operations)[0]
        if address is None:
            raise RuntimeError(f"no client refutes {said}; this is a bug in Klamm")
        decision = self._decision(caller, address, operation, name)
        # INVARIANT: what is reported not to hold does not: authorize itself says so.
        if decision.verdict.allowed is said.allowed:
            raise RuntimeError(f"{decision} does not refute {said}; this is a bug in Klamm")
        groups = () if caller.groups is None else caller.groups.names
        return Witness(caller.principal, address.text, operation, said.resource_type, name, decision, groups)

    def _decision(self, caller: _Caller, address: ClientAddress, operation: AclOperation, name: str) -> Decision:
        """What authorize decides, from all ACLs that have a part in it."""
        client, key = client_key(address), key_of_name(name)
        acls = [
            acl
            for acl in chain.from_iterable(each.above(key) for each in self._speaking(caller))
            if client.startswith(host_key(acl.host))
        ]
        if self._is_open:
            acls += islice(self._acls.everything.above(key), 1)
        image = image_of(set(acls), self._config)
        authorization = authorization_of(image, caller.principal, address, caller.groups)
        return authorization.decision(operation, self._said.resource_type, name)


def _without(key: str, acls: Iterable[Patterns]) -> Region:
    """The names of a key, without those of the patterns below it."""
    return Region(key, tuple(each for patterns in acls for each in patterns.names.below(key) if each != key))
