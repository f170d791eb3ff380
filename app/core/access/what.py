"""What one principal can do: its patterns, its groups' and those of `User:*`, after DENYs (KIP-11, KIP-290).

A row is what ALLOWs on one pattern and for one host give. Operations that a DENY forbids on all of its names and for
all of its hosts are not among them any more; DENYs that forbid them on a part of it are listed with it. A request is
allowed if any row covers it and none of that row's DENYs does. If it has too many DENYs for one row, the rows after it
have the same pattern and host, and the next of them.
"""

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from heapq import heappop, heappush
from itertools import chain

from app.core.access.holdings import MAX_LISTED, Ends, First, Listed, first_listed, sorted_in_steps
from app.core.access.host_keys import NOBODY, client_key, host_key
from app.core.access.regions import acl_key
from app.core.digest import seconds_of
from app.core.groups import Groups, speaking_of
from app.core.image import AuthorizerImage
from app.core.index.denies import denies_of
from app.core.index.search import search
from app.core.index.table import SortKey, sort_key
from app.core.kafka.bindings import StandardAcl
from app.core.kafka.codes import AclPermissionType, PatternType, ResourceType
from app.core.kafka.filters import AclBindingFilter
from app.core.kafka.hosts import ClientAddress
from app.core.kafka.operations import ALLOW_MASK, DENY_MASK, supported_operations, to_bit_field

_STEP = 100
_SUPPORTED = {each: to_bit_field(supported_operations(each)) for each in ResourceType if each > ResourceType.ANY}
_LAST_CODE = 127

_LAST_HOST = "~"
"""Behind every host that a client may have."""

_FIRST_CODE = -1
"""Before every operation and permission type."""

PatternAndHost = tuple[int, str, int, str]
"""A resource type and name, a pattern type and a host, in the order of the rows."""

Place = tuple[int, str, int, str | tuple[str, SortKey]]
"""The pattern and host after which the next rows come.

With a DENY beside the host, they have the same pattern and host, and what comes after the DENY in `cut_out`.
"""

Denies = dict[str, list[StandardAcl]]
"""DENYs on one pattern, by the key of their hosts."""


@dataclass(frozen=True, slots=True)
class WhatQuestion:
    """`address` is a client's if only that one is asked about."""

    principal: str
    address: ClientAddress | None = None
    groups: Groups | None = None

    @property
    def speaking(self) -> tuple[str, ...]:
        """All principals whose ACLs apply to this one."""
        return speaking_of(self.principal, self.groups)


@dataclass(frozen=True, slots=True)
class Holding:
    """`host` is an ACL's, or the client's if one was asked about.

    `operations` are what ALLOWs here give, and `denied` what they would give if no DENY forbade it on all of this.
    `listed` are those ALLOWs, and before them those DENYs; `cut_out` are the DENYs that forbid any of the operations
    for a part of the names or hosts, and `is_last` is false if the next row has more of them. `ends_at` is when the
    first of the operations is lost.
    """

    resource_type: ResourceType
    pattern_type: PatternType
    resource_name: str
    host: str
    operations: int
    denied: int
    listed: Listed
    cut_out: Listed
    is_last: bool
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
        """If so, there are no rows: it may do everything, whatever ACLs say."""
        self._index = image.index
        self._image = image
        self._question = question
        self._client = None if question.address is None else client_key(question.address)
        self._after, self._after_deny = _pattern_and_deny(after)
        self._denies: defaultdict[ResourceType, dict[str, Denies]] = defaultdict(dict)
        self._denied_names: dict[ResourceType, list[str]] = {}
        self._denied_lengths: dict[ResourceType, list[int]] = {}

    def place_of(self, row: Holding) -> Place:
        host = row.host if self._client is None else _LAST_HOST
        end = host if row.is_last else (host, _sort_key(row.cut_out.acls[-1]))
        return int(row.resource_type), row.resource_name, int(row.pattern_type), end

    def steps(self) -> Iterator[None]:
        if self.is_super_user:
            return
        yield from self._collect_denies()
        allows: list[StandardAcl] = []
        place: PatternAndHost | None = None
        for acl in self._in_order():
            if acl is None:
                yield
                continue
            last, place = place, self._place(acl)
            if allows and last != place:
                yield from self._add_row(allows)
                allows = []
            allows.append(acl)
        if allows:
            yield from self._add_row(allows)

    def _place(self, acl: StandardAcl) -> PatternAndHost:
        b = acl.binding
        return (
            int(b.resource_type),
            b.resource_name,
            int(b.pattern_type),
            b.host if self._client is None else _LAST_HOST,
        )

    def _speaks(self, acl: StandardAcl) -> bool:
        if self._image.has_acl_ended(acl):
            return False
        key = host_key(acl.binding.host)
        return key != NOBODY and (self._client is None or self._client.startswith(key))

    def _in_order(self) -> Iterator[StandardAcl | None]:
        """The ALLOWs of all the principals together, in the order of the rows; None for a step."""
        streams = [_Stream(self._allows(each)) for each in self._question.speaking]
        first: list[tuple[PatternAndHost, int]] = []
        for number, stream in enumerate(streams):
            yield from self._put_next(first, number, stream)
        while first:
            number = heappop(first)[1]
            acl = streams[number].acls.pop()
            if self._speaks(acl):
                yield acl
            yield from self._put_next(first, number, streams[number])

    def _put_next(self, first: list[tuple[PatternAndHost, int]], number: int, stream: "_Stream") -> Iterator[None]:
        while not stream.acls and not stream.ended:
            stream.take()
            yield None
        if stream.acls:
            heappush(first, (self._place(stream.acls[-1]), number))

    def _allows(self, principal: str) -> Iterator[list[StandardAcl]]:
        of_one = AclBindingFilter(principal=principal, permission_type=AclPermissionType.ALLOW)
        if self._after is None:
            return search(self._index, of_one)
        resource_type, name, pattern_type, host = self._after
        code = _LAST_CODE
        if self._after_deny is not None:
            host, code = host if self._client is None else "", _FIRST_CODE
        return search(self._index, of_one, (resource_type, name, pattern_type, principal, host, code, code))

    def _collect_denies(self) -> Iterator[None]:
        for principal in self._question.speaking:
            for number, acl in enumerate(denies_of(self._index, principal), 1):
                if acl is not None and self._speaks(acl):
                    b = acl.binding
                    on_pattern = self._denies[b.resource_type].setdefault(acl_key(b), {})
                    on_pattern.setdefault(host_key(b.host), []).append(acl)
                if acl is None or not number % _STEP:
                    yield
        for resource_type, by_name in self._denies.items():
            self._denied_names[resource_type] = yield from sorted_in_steps(by_name, str)
            self._denied_lengths[resource_type] = sorted(set(map(len, by_name)))

    def _add_row(self, allows: list[StandardAcl]) -> Iterator[None]:
        b = allows[0].binding
        allowed = 0
        found, ends = First(_order), Ends()
        for acl in allows:
            gives = ALLOW_MASK[acl.binding.operation]
            allowed |= gives
            found.add(acl)
            ends.add(gives, _ends_at(acl))
        allowed &= _SUPPORTED[b.resource_type]
        name, host = acl_key(b), host_key(b.host)
        operations, crossing = allowed, list[StandardAcl]()
        for deny, is_for_all in self._denies_on(b.resource_type, self._wider_names(b.resource_type, name), host):
            if deny is None:
                yield
            elif not is_for_all:
                crossing.append(deny)
            elif DENY_MASK[deny.binding.operation] & allowed:
                operations &= ~DENY_MASK[deny.binding.operation]
                found.add(deny)
        cut_out = list[StandardAcl]()
        narrower = self._denies_on(b.resource_type, self._narrower_names(b.resource_type, name), host)
        for number, (deny, _) in enumerate(chain(((each, False) for each in crossing), narrower), 1):
            if deny is not None and DENY_MASK[deny.binding.operation] & operations:
                cut_out.append(deny)
            if deny is None or not number % _STEP:
                yield
        if allowed:
            row = Holding(
                resource_type=b.resource_type,
                pattern_type=b.pattern_type,
                resource_name=b.resource_name,
                host=b.host if self._question.address is None else self._question.address.text,
                operations=operations,
                denied=allowed & ~operations,
                listed=found.listed(_itself),
                cut_out=Listed(),
                is_last=True,
                ends_at=ends.first(operations),
            )
            yield from self._add_with(cut_out, row, self._place(allows[0]))
        self.done = self._place(allows[0])
        yield

    def _add_with(self, cut_out: Sequence[StandardAcl], row: Holding, place: PatternAndHost) -> Iterator[None]:
        """The row, as many times as it takes to list all of `cut_out`."""
        left = yield from sorted_in_steps(cut_out, _sort_key)
        if self._after_deny is not None and place == self._after:
            left = left[bisect_right(left, self._after_deny, key=_sort_key) :]
            if not left:
                return
        at, is_last = 0, False
        while not is_last:
            some = first_listed(left[at : at + MAX_LISTED])
            at += len(some)
            is_last = at >= len(left)
            self.rows.append(replace(row, cut_out=Listed(some, len(cut_out)), is_last=is_last))
            self.done = self.place_of(self.rows[-1])
            yield

    def _denies_on(
        self, resource_type: ResourceType, names: Iterable[str], host: str
    ) -> Iterator[tuple[StandardAcl | None, bool]]:
        """The DENYs on these names for any client of the host, and whether for all of them; None for a step."""
        if resource_type not in self._denies:
            return
        looked = 0
        for name in names:
            for key, acls in self._denies[resource_type][name].items():
                # All DENYs that were collected are for the one client, if the question is about one.
                is_for_all = self._client is not None or host.startswith(key)
                if is_for_all or key.startswith(host):
                    yield from ((acl, is_for_all) for acl in acls)
                looked += 1
                if not looked % _STEP:
                    yield None, False

    def _wider_names(self, resource_type: ResourceType, name: str) -> Iterator[str]:
        by_name = self._denies.get(resource_type, {})
        for length in self._denied_lengths.get(resource_type, ()):
            if length <= len(name) and name[:length] in by_name:
                yield name[:length]

    def _narrower_names(self, resource_type: ResourceType, name: str) -> Iterator[str]:
        names = self._denied_names.get(resource_type, [])
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


def _pattern_and_deny(place: Place | None) -> tuple[PatternAndHost | None, SortKey | None]:
    if place is None:
        return None, None
    resource_type, name, pattern_type, host = place
    if isinstance(host, str):
        return (resource_type, name, pattern_type, host), None
    return (resource_type, name, pattern_type, host[0]), host[1]


def _ends_at(acl: StandardAcl) -> int | None:
    """The second since 1970 at which an ALLOW ends; a DENY holds until its removal comes."""
    is_allow = acl.binding.permission_type is AclPermissionType.ALLOW
    return seconds_of(acl.expires_at) if is_allow and acl.expires_at is not None else None


def _sort_key(acl: StandardAcl) -> SortKey:
    return sort_key(acl.binding)


def _order(acl: StandardAcl) -> tuple[object, ...]:
    return acl.binding.permission_type is AclPermissionType.ALLOW, *_sort_key(acl)


def _itself(acl: StandardAcl) -> StandardAcl:
    return acl
