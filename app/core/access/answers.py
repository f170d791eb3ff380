"""How requests are decided before and after ACLs change, region by region (`core.access.diff`)."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from app.core.access.host_keys import NOBODY, address_within, host_key
from app.core.access.regions import (
    ASKED_OPERATIONS,
    EVERYTHING,
    Answers,
    Cell,
    Nested,
    Region,
    acl_key,
    cells_of,
    coalesced,
    name_within,
    tree,
)
from app.core.access.trial import image_of, somebody_besides
from app.core.authorize import Authorization
from app.core.groups import exclude_groups
from app.core.image import AuthorizerImage
from app.core.kafka.bindings import AclBinding
from app.core.kafka.codes import WILDCARD_PRINCIPAL, AclOperation, ResourceType
from app.core.kafka.configs import AuthorizerConfig
from app.core.kafka.hosts import ClientAddress
from app.core.kafka.operations import ALLOW_MASK, DENY_MASK

_KEYS_A_QUESTION = 16
"""Visiting this many keys of a tree costs about as much as one question."""


class Budget:
    def __init__(self, questions: int) -> None:
        self._left = questions

    def look_at(self, keys: int) -> bool:
        self._left -= keys // _KEYS_A_QUESTION
        return self._left > 0

    def spend(self, questions: int) -> bool:
        if questions > self._left:
            return False
        self._left -= questions
        return True


@dataclass(frozen=True, slots=True)
class _Place:
    """A region of names, and what is known about it for one principal before anything is asked."""

    region: Region
    hosts: frozenset[str]
    """From all ACLs there that apply to the principal."""
    changed: bool
    """Whether any of these ACLs is a changed one."""
    default: int
    """Whether names get their first ACL (1) or lose their last one (-1), which changes what the default decides."""
    own: bool
    """Whether any of these ACLs is the principal's own; if not, the decision is the same as for everybody."""

    @property
    def touched(self) -> bool:
        return self.changed or self.default != 0


_OUTSIDE = _Place(Region(EVERYTHING), frozenset(), changed=False, default=0, own=False)


def questions_of(
    before: frozenset[AclBinding], after: frozenset[AclBinding], config: AuthorizerConfig
) -> Iterator["TypeAnswers"]:
    # Rows about `Group:g` are about the group, even if a super user is called that.
    config = replace(config, super_users=exclude_groups(config.super_users))
    changed = before ^ after
    keys: defaultdict[ResourceType, set[str]] = defaultdict(set)
    principals: defaultdict[ResourceType, set[str]] = defaultdict(lambda: {WILDCARD_PRINCIPAL})
    for acl in changed:
        keys[acl.resource_type].add(acl_key(acl))
        principals[acl.resource_type].add(acl.principal)
    everybody = {acl.resource_type for acl in changed if acl.principal == WILDCARD_PRINCIPAL}
    if config.allow_everyone_if_no_acl_found:
        everybody = set(keys)
    overlaps = {resource_type: Nested(some) for resource_type, some in keys.items()}

    def is_near(acl: AclBinding) -> bool:
        resource_type = acl.resource_type
        return (
            resource_type in overlaps
            and (resource_type in everybody or acl.principal in principals[resource_type])
            and overlaps[resource_type].meets(acl_key(acl))
        )

    old, new = list(filter(is_near, before)), list(filter(is_near, after))
    images = image_of(old, config), image_of(new, config)
    for resource_type in sorted(overlaps):
        of_type = [[acl for acl in acls if acl.resource_type is resource_type] for acls in (old, new)]
        yield TypeAnswers(resource_type, of_type[0], of_type[1], images)


class TypeAnswers:
    """The answers for one resource type. `unresolved` are principals with too many questions to ask.

    The images hold all ACLs that overlap a changed one, before and after the change.
    """

    def __init__(
        self,
        resource_type: ResourceType,
        before: Sequence[AclBinding],
        after: Sequence[AclBinding],
        images: tuple[AuthorizerImage, AuthorizerImage],
    ) -> None:
        config = images[0].config
        self.resource_type = resource_type
        self.super_users = config.super_users
        self.unresolved: list[str] = []
        self._images = images
        self._hosts: defaultdict[str, defaultdict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
        for acl in (*before, *after):
            hosts = self._hosts[acl.principal][acl_key(acl)]
            key = host_key(acl.host)
            if key != NOBODY:
                hosts.add(key)
        changed = frozenset(before) ^ frozenset(after)
        self._changed_acls = Counter(acl.principal for acl in changed)
        self._changed_keys: defaultdict[str, set[str]] = defaultdict(set)
        for acl in changed:
            self._changed_keys[acl.principal].add(acl_key(acl))
        opened = config.allow_everyone_if_no_acl_found
        self._defaults = _changed_defaults(set(map(acl_key, before)), set(map(acl_key, after))) if opened else {}
        self._operations = ASKED_OPERATIONS if self._defaults else _operations_of(changed)
        self._shared = Nested({EVERYTHING, *self._hosts[WILDCARD_PRINCIPAL], *self._defaults})
        self._touched_roots = Nested()
        self.places_of: dict[str, frozenset[str]] = {}
        """By principal: the keys of all regions where its decisions may differ from everybody's."""
        self._of_all: dict[str, Answers] = {}
        self._clients: dict[frozenset[str], list[tuple[str, ClientAddress]]] = {}
        self.somebody_else = somebody_besides(self._hosts, self.super_users)

    def changed_acls_of(self, principal: str) -> int:
        if principal == WILDCARD_PRINCIPAL:
            return self._changed_acls.total()
        return self._changed_acls[principal] + self._changed_acls[WILDCARD_PRINCIPAL]

    def cells(self, budget: Budget) -> dict[str, Sequence[Cell]]:
        """The changes of each principal that is asked about; `User:*` stands for all that have no ACLs here."""
        found: dict[str, Sequence[Cell]] = {}
        asked = set(self._changed_keys)
        if WILDCARD_PRINCIPAL in asked or any(self._defaults.values()):
            answers = self._answers(WILDCARD_PRINCIPAL, budget)
            if answers is None:
                self.unresolved = [WILDCARD_PRINCIPAL]
                return {}
            self._of_all = answers
            found[WILDCARD_PRINCIPAL] = cells_of(answers)
            asked = set(self._hosts)
        for principal in sorted(asked - self.super_users - {WILDCARD_PRINCIPAL}):
            answers = self._answers(principal, budget)
            if answers is None:
                self.unresolved.append(principal)
            else:
                found[principal] = cells_of(answers)
        return found

    def _answers(self, principal: str, budget: Budget) -> dict[str, Answers] | None:
        """By key of names: what changes for a principal there. None if the budget does not allow it."""
        everybody = principal == WILDCARD_PRINCIPAL
        if not budget.look_at(0):
            return None
        keys = self._shared.keys if everybody else self._keys_about(self._hosts[principal])
        if not budget.look_at(len(keys)):
            return None
        places = self._places(principal, keys)
        to_ask = [each for each in places if each.touched and (each.own or everybody)]
        if not budget.spend(sum(1 + len(each.hosts) for each in to_ask)):
            return None
        if everybody:
            self._touched_roots = Nested(_outermost(each.region.key for each in places if each.touched))
        else:
            self.places_of[principal] = keys
        answers = {each.region.key: self._of_all.get(each.region.key, ()) if each.touched else () for each in places}
        for each in to_ask:
            asker = self.somebody_else if everybody else principal
            answers[each.region.key] = self._at(asker, name_within(each.region), each.hosts)
        return answers

    def _keys_about(self, own: Iterable[str]) -> frozenset[str]:
        """The keys of names where a principal with ACLs on `own` may be decided differently from everybody.

        These are its own keys and those that overlap them; and all keys of each region that changes for everybody and
        contains one of its own, because its part of that region is reported separately.
        """
        keys = {EVERYTHING, *own}
        roots: set[str] = set()
        for key in own:
            keys.update(self._shared.below(key))
            keys.update(self._shared.above(key))
            roots.update(self._touched_roots.above(key))
        for root in roots:
            keys.update(self._shared.below(root))
        return frozenset(keys)

    def _places(self, principal: str, keys: Iterable[str]) -> list[_Place]:
        nowhere: dict[str, set[str]] = {}
        of_all, own = self._hosts.get(WILDCARD_PRINCIPAL, nowhere), self._hosts.get(principal, nowhere)
        changed = self._changed_keys.get(principal, set()) | self._changed_keys.get(WILDCARD_PRINCIPAL, set())
        places: dict[str, _Place] = {}
        for node in tree(keys):
            key = node.key
            above = _OUTSIDE if node.parent is None else places[node.parent.key]
            places[key] = _Place(
                node.region,
                above.hosts.union(of_all.get(key, ()), own.get(key, ())),
                changed=above.changed or key in changed,
                default=self._defaults.get(key, above.default),
                own=above.own or key in own,
            )
        return list(places.values())

    def _at(self, principal: str, name: str, hosts: frozenset[str]) -> Answers:
        changes = {EVERYTHING: (0, 0)}
        for key, address in self._clients_of(hosts):
            before, after = (Authorization(image, principal, address) for image in self._images)
            gained = lost = 0
            for operation in self._operations:
                was = before.decide(operation, self.resource_type, name).allowed
                if was is not after.decide(operation, self.resource_type, name).allowed:
                    gained |= 0 if was else 1 << operation
                    lost |= 1 << operation if was else 0
            changes[key] = (gained, lost)
        return tuple((key, *bits) for key, bits in changes.items()) if any(map(any, changes.values())) else ()

    def _clients_of(self, hosts: frozenset[str]) -> Sequence[tuple[str, ClientAddress]]:
        known = self._clients.get(hosts)
        if known is None:
            found = ((node.key, address_within(node.region)) for node in tree({EVERYTHING, *hosts}))
            known = self._clients[hosts] = [(key, address) for key, address in found if address is not None]
        return known


def _operations_of(acls: Iterable[AclBinding]) -> tuple[AclOperation, ...]:
    bits = 0
    for acl in acls:
        bits |= ALLOW_MASK[acl.operation] | DENY_MASK[acl.operation]
    return tuple(each for each in ASKED_OPERATIONS if bits >> each & 1)


def _outermost(keys: Iterable[str]) -> Iterator[str]:
    last: str | None = None
    for key in keys:
        if last is None or not key.startswith(last):
            last = key
            yield key


def _changed_defaults(before: set[str], after: set[str]) -> dict[str, int]:
    """By key: 1 where names get their first ACL, -1 where they lose their last one, else 0; {} if neither happens."""
    covered: dict[str, tuple[bool, bool]] = {}
    for node in tree({EVERYTHING, *before, *after}):
        was, is_ = (False, False) if node.parent is None else covered[node.parent.key]
        covered[node.key] = (was or node.key in before, is_ or node.key in after)
    moved = {region.key: way for region, way in coalesced({key: is_ - was for key, (was, is_) in covered.items()})}
    return moved if any(moved.values()) else {}
