"""What one principal can do: its patterns and those of `User:*`, with what DENYs take away (KIP-11, KIP-290).

A row is what ALLOWs on one pattern and for one host give. Operations that a DENY forbids on all of its names and for
all of its hosts are not among them any more; DENYs that forbid them on a part of it are told with it. A request is
allowed if any row covers it and none of that row's DENYs does.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from app.core.access.holdings import Listed, first_end, first_listed, sorted_in_steps
from app.core.access.host_keys import NOBODY, client_key, host_key
from app.core.access.regions import name_key
from app.core.image import AuthorizerImage
from app.core.index.search import search
from app.core.index.table import SortKey, sort_key
from app.core.kafka.bindings import AclBinding, StandardAcl
from app.core.kafka.codes import WILDCARD_PRINCIPAL, AclOperation, AclPermissionType, PatternType, ResourceType
from app.core.kafka.filters import AclBindingFilter
from app.core.kafka.hosts import ClientAddress
from app.core.kafka.operations import ALLOW_MASK, DENY_MASK, supported_operations, to_bit_field

_STEP = 100
_LAST_CODE = 127

_LAST_HOST = "~"
"""Behind every host that a client may have."""

Place = tuple[int, str, int, str]
"""A resource type and name, a pattern type and a host: rows behind it are to come."""

Denies = dict[str, list[StandardAcl]]
"""DENYs on one pattern, by the key of their hosts."""


@dataclass(frozen=True, slots=True)
class WhatQuestion:
    """`address` is a client's if only that one is asked about."""

    principal: str
    address: ClientAddress | None = None

    @property
    def speaking(self) -> tuple[str, ...]:
        """All whose ACLs speak of the principal."""
        return tuple(dict.fromkeys((self.principal, WILDCARD_PRINCIPAL)))


@dataclass(frozen=True, slots=True)
class Holding:
    """`host` is an ACL's, or the client's if one was asked about.

    `operations` are what ALLOWs here give, and `denied` what they would give if no DENY forbade it on all of this.
    `listed` are those ALLOWs, and before them those DENYs; `cut_out` are the DENYs that forbid any of the operations
    for a part of the names or hosts. `ends_at` is when the first of the operations is lost.
    """

    resource_type: ResourceType
    pattern_type: PatternType
    resource_name: str
    host: str
    operations: int
    denied: int
    listed: Listed
    cut_out: Listed
    ends_at: datetime | None


class WhatCan:
    """The rows after `after`, in order: by resource type, name, pattern type and host.

    Run `steps` until there are enough `rows`, or to the end. INVARIANT: none is taken after a change of the image.
    """

    def __init__(self, image: AuthorizerImage, question: WhatQuestion, after: Place | None = None) -> None:
        self.rows: list[Holding] = []
        self.done: Place | None = after
        """All rows up to here are found."""
        self.allowed_by_default = image.config.allow_everyone_if_no_acl_found
        """Whether everybody may do everything where no ACL is."""
        self.is_super_user = question.principal in image.config.super_users
        """Then there are no rows: it may do everything, whatever ACLs say."""
        self._index = image.index
        self._question = question
        self._client = None if question.address is None else client_key(question.address)
        self._after = after
        self._denies: defaultdict[ResourceType, dict[str, Denies]] = defaultdict(dict)
        self._denied_names: dict[ResourceType, list[str]] = {}
        self._denied_lengths: dict[ResourceType, list[int]] = {}

    def place_of(self, row: Holding) -> Place:
        host = row.host if self._client is None else _LAST_HOST
        return int(row.resource_type), row.resource_name, int(row.pattern_type), host

    def steps(self) -> Iterator[None]:
        if self.is_super_user:
            return
        yield from self._collect_denies()
        allows: list[StandardAcl] = []
        for acl in self._in_order():
            if acl is None:
                yield
                continue
            if allows and self._place(allows[0]) != self._place(acl):
                yield from self._add_row(allows)
                allows = []
            allows.append(acl)
        if allows:
            yield from self._add_row(allows)

    def _place(self, acl: StandardAcl) -> Place:
        b = acl.binding
        return (
            int(b.resource_type),
            b.resource_name,
            int(b.pattern_type),
            b.host if self._client is None else _LAST_HOST,
        )

    def _speaks(self, acl: StandardAcl) -> bool:
        key = host_key(acl.binding.host)
        return key != NOBODY and (self._client is None or self._client.startswith(key))

    def _in_order(self) -> Iterator[StandardAcl | None]:
        """The ALLOWs of all the principals together, in the order of the rows; None for a step."""
        streams = [
            _Stream(self._search(each, AclPermissionType.ALLOW, self._after)) for each in self._question.speaking
        ]
        while True:
            for stream in streams:
                while not stream.acls and not stream.ended:
                    stream.take()
                    yield None
            left = [stream for stream in streams if stream.acls]
            if not left:
                return
            first = min(left, key=lambda each: self._place(each.acls[-1]))
            acl = first.acls.pop()
            if self._speaks(acl):
                yield acl

    def _search(
        self, principal: str, permission: AclPermissionType, after: Place | None = None
    ) -> Iterator[list[StandardAcl]]:
        of_one = AclBindingFilter(
            ResourceType.ANY, None, PatternType.ANY, principal, None, AclOperation.ANY, permission
        )
        behind: SortKey | None = None
        if after is not None:
            resource_type, name, pattern_type, host = after
            behind = (resource_type, name, pattern_type, principal, host, _LAST_CODE, _LAST_CODE)
        return search(self._index, of_one, behind)

    def _collect_denies(self) -> Iterator[None]:
        for principal in self._question.speaking:
            node = self._index.principal(principal)
            if node is None or not any(types is not None and types.may_deny for types in node.types):
                continue
            for some in self._search(principal, AclPermissionType.DENY):
                for acl in some:
                    if self._speaks(acl):
                        b = acl.binding
                        on_pattern = self._denies[b.resource_type].setdefault(
                            name_key(b.pattern_type, b.resource_name), {}
                        )
                        on_pattern.setdefault(host_key(b.host), []).append(acl)
                yield
        for resource_type, by_name in self._denies.items():
            self._denied_names[resource_type] = yield from sorted_in_steps(by_name)
            self._denied_lengths[resource_type] = sorted(set(map(len, by_name)))

    def _add_row(self, allows: list[StandardAcl]) -> Iterator[None]:
        b = allows[0].binding
        allowed = _together(ALLOW_MASK, allows) & to_bit_field(supported_operations(b.resource_type))
        whole: list[StandardAcl] = []
        part: list[StandardAcl] = []
        for acl, is_whole in self._denies_about(b):
            if acl is None:
                yield
            elif DENY_MASK[acl.binding.operation] & allowed:
                (whole if is_whole else part).append(acl)
        operations = allowed & ~_together(DENY_MASK, whole)
        part = [each for each in part if DENY_MASK[each.binding.operation] & operations]
        self.done = self._place(allows[0])
        if allowed:
            ends = [(ALLOW_MASK[each.binding.operation], each.expires_at) for each in allows]
            row = Holding(
                resource_type=b.resource_type,
                pattern_type=b.pattern_type,
                resource_name=b.resource_name,
                host=b.host if self._question.address is None else self._question.address.text,
                operations=operations,
                denied=allowed & ~operations,
                listed=first_listed([*whole, *allows], _order, _itself),
                cut_out=first_listed(part, _order, _itself),
                ends_at=first_end(operations, ends),
            )
            self.rows.append(row)
        yield

    def _denies_about(self, b: AclBinding) -> Iterator[tuple[StandardAcl | None, bool]]:
        """The DENYs for any of the names and hosts of an ALLOW, and whether for all of them; None for a step."""
        by_name = self._denies.get(b.resource_type)
        if by_name is None:
            return
        name, host, looked = name_key(b.pattern_type, b.resource_name), host_key(b.host), 0
        for denied in self._denied_names_about(b.resource_type, name):
            is_wider = name.startswith(denied)
            for key, acls in by_name[denied].items():
                # The DENYs of one client's question are all for its host.
                is_for_all = self._client is not None or host.startswith(key)
                if is_for_all or key.startswith(host):
                    yield from ((acl, is_wider and is_for_all) for acl in acls)
                looked += 1
                if not looked % _STEP:
                    yield None, False

    def _denied_names_about(self, resource_type: ResourceType, name: str) -> Iterator[str]:
        by_name, names = self._denies[resource_type], self._denied_names[resource_type]
        for length in self._denied_lengths[resource_type]:
            if length <= len(name) and name[:length] in by_name:
                yield name[:length]
        for at in range(bisect_left(names, name), len(names)):
            if not names[at].startswith(name):
                return
            if names[at] != name:
                yield names[at]


class _Stream:
    """ACLs of one principal in list order, the next one last in `acls`."""

    def __init__(self, found: Iterator[list[StandardAcl]]) -> None:
        self.acls: list[StandardAcl] = []
        self.ended = False
        self._found = found

    def take(self) -> None:
        some = next(self._found, None)
        self.ended = some is None
        self.acls = [] if some is None else some[::-1]


def _together(masks: Sequence[int], acls: list[StandardAcl]) -> int:
    found = 0
    for acl in acls:
        found |= masks[acl.binding.operation]
    return found


def _order(acl: StandardAcl) -> tuple[object, ...]:
    return acl.binding.permission_type is AclPermissionType.ALLOW, *sort_key(acl.binding)


def _itself(acl: StandardAcl) -> StandardAcl:
    return acl
