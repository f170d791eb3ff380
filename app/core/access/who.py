"""Who can do what on one resource: its principals, with the hosts, after DENYs and what `User:*` has (KIP-11, KIP-290).

A principal is listed if ACLs of its own name the operations asked about; all others have what `User:*` has. Of a
principal's rows, the one with the most specific host that matches a client says what it can do from there; if none
matches, the rows of `User:*` do.
"""

from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from app.core.access.holdings import Ends, First, Listed, after_denies, sorted_in_steps
from app.core.access.host_keys import END, NOBODY, addresses_in, client_key, host_key
from app.core.groups import exclude_groups
from app.core.image import AuthorizerImage
from app.core.index.holders import Holders, RankedRow
from app.core.index.masks import DENY_SHIFT, PACKED_MASKS
from app.core.index.packing import operation_in, permission_type_in
from app.core.index.table import SortKey
from app.core.kafka.codes import WILDCARD_PRINCIPAL, AclPermissionType, ResourceType
from app.core.kafka.hosts import ClientAddress

_STEP = 100
_DENY = int(AclPermissionType.DENY)
_END = "~"
"""Behind the keys of all hosts."""

Place = tuple[str, str | None]
"""A principal, and the key of the host after which to go on; None: this principal is done."""


@dataclass(frozen=True, slots=True)
class WhoQuestion:
    """`operations` are bits, and `address` is a client's if only that one is asked about."""

    resource_type: ResourceType
    resource_name: str
    operations: int
    address: ClientAddress | None = None


@dataclass(frozen=True, slots=True)
class Holder:
    """What a principal's clients can do from a host, except those of a narrower host that has a row of its own.

    `denied` are operations that a DENY forbids. `listed` are the ACLs on the operations asked about there:
    DENYs before ALLOWs, the most specific pattern first. `ends_at` is when the first of the operations is lost.
    """

    principal: str
    host: str
    operations: int
    denied: int
    listed: Listed
    ends_at: datetime | None
    key: str
    """The host's key (`core.access.host_keys`)."""


@dataclass(slots=True)
class _Host:
    """The ACLs of one principal with hosts of one key."""

    text: str
    mask: int = 0
    rows: list[RankedRow] = field(default_factory=list)


_Hosts = dict[str, _Host]
_Found = tuple[int, int, int]
"""A row, the place of its pattern, and whether it is an ACL of `User:*`."""


@dataclass(slots=True)
class _Region:
    """The clients of a key, without those of the keys below it. `mask` is that of all ACLs which match them."""

    key: str
    mask: int
    own: int
    """How many hosts of the principal's own ACLs match them."""
    parent: "_Region | None"
    left: int
    """How many addresses the keys below leave."""
    row: "_Region | None" = None
    """The nearest region with a row: this one, or one around it."""


class WhoCan:
    """The rows after `after`, in order: `User:*` first, then by principal, then by host, the wider before the narrower.

    Run `steps` until there are enough `rows`, or to the end. INVARIANT: none is taken after a change of the image.
    """

    def __init__(self, image: AuthorizerImage, question: WhoQuestion, after: Place | None = None) -> None:
        self.rows: list[Holder] = []
        self.done: Place | None = after
        """All rows up to here are found."""
        self._question = question
        self._wanted = question.operations | question.operations << DENY_SHIFT
        self._client = None if question.address is None else client_key(question.address)
        self._after = after
        self._is_open = image.config.allow_everyone_if_no_acl_found
        self._super_users = exclude_groups(image.config.super_users)
        self._table = image.index.table
        self._ends = image.index.table.ends if len(image.index.table.ends) else None
        self._now = image.now
        self._holders = Holders(image.index, question.resource_type, question.resource_name)
        self._everyone: _Hosts = {}

    def place_of(self, row: Holder) -> Place:
        return row.principal, row.key

    @property
    def allowed_by_default(self) -> bool:
        """Whether no ACL is on the resource and everybody may do everything; once a principal is done."""
        return self._is_open and not self._holders.is_covered

    def steps(self) -> Iterator[None]:
        yield from self._holders.steps()
        self._everyone = yield from self._hosts_of(WILDCARD_PRINCIPAL)
        after = self._after
        if after is None or after[0] == WILDCARD_PRINCIPAL:
            yield from self._principal(WILDCARD_PRINCIPAL, self._everyone, {})
            after = None
        for some in self._holders.principals(None if after is None else after[0]):
            for principal in some:
                if principal != WILDCARD_PRINCIPAL and principal not in self._super_users:
                    own = yield from self._hosts_of(principal)
                    yield from self._principal(principal, own, self._everyone)
            yield

    def _principal(self, principal: str, own: _Hosts, everyone: _Hosts) -> Iterator[None]:
        after = None
        if self._after is not None and self._after[0] == principal:
            after = _END if self._after[1] is None else self._after[1]
        found = yield from self._regions(own, everyone)
        for number, region in enumerate(found, 1):
            around = None if region.parent is None else region.parent.row
            has_row = self._has_row(region, around)
            region.row = region if has_row else around
            if has_row and (after is None or region.key > after):
                yield from self._add_row(principal, region, own, everyone)
                yield
            elif not number % _STEP:
                yield
        self.done = principal, None

    def _hosts_of(self, principal: str) -> Generator[None, None, _Hosts]:
        hosts: _Hosts = {}
        looked = 0
        for some in self._holders.rows_of(principal):
            for ranked in some:
                self._put(hosts, ranked)
            looked += 1 + len(some)
            if looked >= _STEP:
                looked = 0
                yield
        return hosts

    def _put(self, hosts: _Hosts, ranked: RankedRow) -> None:
        mask = self._mask(ranked[1]) & self._wanted
        if not mask:
            return
        text = self._table.hosts[ranked[1]]
        key = host_key(text)
        if key == NOBODY or not (self._client is None or self._client.startswith(key)):
            return
        host = hosts.get(key)
        if host is None:
            host = hosts[key] = _Host(text)
        host.text = min(host.text, text)
        host.mask |= mask
        host.rows.append(ranked)

    def _regions(self, own: _Hosts, everyone: _Hosts) -> Generator[None, None, Sequence[_Region]]:
        found: list[_Region] = []
        if not own:
            return found
        above: _Region | None = None
        keys = yield from sorted_in_steps({*own, *everyone}, str)
        for number, key in enumerate(keys, 1):
            while above is not None and not key.startswith(above.key):
                above = above.parent
            mask, count = (0, 0) if above is None else (above.mask, above.own)
            for hosts in (own, everyone):
                mask |= hosts[key].mask if key in hosts else 0
            addresses = addresses_in(key)
            if above is not None:
                above.left -= addresses
            above = _Region(key, mask, count + (key in own), above, addresses)
            found.append(above)
            if not number % _STEP:
                yield
        # All that match one client nest, and the narrowest says what it can do.
        return found if self._client is None else found[-1:]

    def _has_row(self, region: _Region, around: _Region | None) -> bool:
        """INVARIANT: where a region with clients has no row, `around`, which a reader takes instead, says the same."""
        if not region.own:
            return False
        if self._client is not None:
            return True
        is_new = around is None or region.own > around.own or self._answer(region) != self._answer(around)
        return is_new and (region.left > 0 or region.key.endswith(END))

    def _answer(self, region: _Region) -> tuple[int, int]:
        return after_denies(region.mask, self._question.operations)

    def _add_row(self, principal: str, region: _Region, own: _Hosts, everyone: _Hosts) -> Iterator[None]:
        operations, denied = self._answer(region)
        found, ends, table = First(self._order), Ends(), self._table
        for number, each in enumerate(_speaking(region, own, everyone), 1):
            found.add(each)
            ends.add(self._mask(each[0]), None if self._ends is None else self._ends.get(each[0]))
            if not number % _STEP:
                yield
        host, acls = own.get(region.key) or everyone[region.key], found.listed(lambda each: table.acl(each[0]))
        self.rows.append(Holder(principal, host.text, operations, denied, acls, ends.first(operations), region.key))
        self.done = principal, region.key

    def _mask(self, row: int) -> int:
        """What the ACL says; nothing if it has ended, even if it is not removed yet."""
        ends_at = None if self._ends is None else self._ends.get(row)
        if ends_at is not None and ends_at <= self._now:
            return 0
        codes = self._table.codes[row]
        return PACKED_MASKS[operation_in(codes), permission_type_in(codes)]

    def _order(self, found: _Found) -> tuple[bool, int, int, SortKey]:
        row, rank, is_shared = found
        is_allow = permission_type_in(self._table.codes[row]) != _DENY
        return is_allow, rank, is_shared, self._table.key(row)


def _speaking(region: _Region, own: _Hosts, everyone: _Hosts) -> Iterator[_Found]:
    at: _Region | None = region
    while at is not None:
        for is_shared, hosts in enumerate((own, everyone)):
            if at.key in hosts:
                yield from ((row, rank, is_shared) for rank, row in hosts[at.key].rows)
        at = at.parent
