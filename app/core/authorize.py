"""Decisions: one caller against one image (KIP-504 authorize, authorizeByResourceType; KIP-430).

Rules, in Kafka's order: super users pass; any matching DENY forbids; any matching ALLOW permits; without a single ACL
on the resource allow.everyone.if.no.acl.found decides; everything else is denied.
"""

from collections.abc import Generator, Iterable, Iterator
from typing import Protocol, TypeVar

from app.core.image import AuthorizerImage
from app.core.index.any_resource import on_any_resource
from app.core.index.buckets import rows_at
from app.core.index.masks import DENY_SHIFT, Entry, HostMasks, plain_allow_bit
from app.core.index.packing import operation_in, permission_type_in
from app.core.index.tree import Pattern, PrincipalNode, TypeNode, mask_at
from app.core.kafka.bindings import StandardAcl
from app.core.kafka.codes import WILDCARD, AclOperation, AclPermissionType, PatternType, ResourceType
from app.core.kafka.errors import AuthorizerNotReadyException, InvalidRequestException
from app.core.kafka.hosts import ClientAddress
from app.core.kafka.operations import ALLOW_MASK, DENY_MASK, supported_operations, to_bit_field
from app.core.verdicts import Decision, Verdict

T = TypeVar("T")
# A member looked up on its class costs three times a global's look-up, on the path where that shows.
_SUPER_USER = Verdict.SUPER_USER
_DENIED_BY_ACL = Verdict.DENIED_BY_ACL
_ALLOWED_BY_ACL = Verdict.ALLOWED_BY_ACL
_DEFAULT_ALLOW = Verdict.DEFAULT_ALLOW
_DEFAULT_DENY = Verdict.DEFAULT_DENY
_LITERAL, _PREFIXED = int(PatternType.LITERAL), int(PatternType.PREFIXED)
_ALLOW, _DENY = int(AclPermissionType.ALLOW), int(AclPermissionType.DENY)


class _Types(Protocol):
    def grants(self, bit: int, name: str, address: ClientAddress, /) -> int: ...


class _TypesBy(Protocol):
    def __getitem__(self, resource_type: int, /) -> _Types | None: ...


class _Own(Protocol):
    """What the caller's own ACLs say, or those with its groups' (`app.core.grouped`)."""

    @property
    def types(self) -> _TypesBy: ...


class Authorization:
    """One caller against one image. Short-lived: the index beneath it may change at the next await."""

    __slots__ = ("_address", "_first_texts", "_own", "image", "is_super_user")

    def __init__(
        self, image: AuthorizerImage, principal: str, address: ClientAddress, *, unrestricted: bool = False
    ) -> None:
        """Raise AuthorizerNotReadyException for anyone but a super user while the image is not loaded (KIP-801)."""
        self.is_super_user = unrestricted or principal in image.config.super_users
        if not (self.is_super_user or image.loading_complete):
            # INVARIANT: from an image that holds no store's state, only super users are ever decided on.
            raise AuthorizerNotReadyException("the ACLs are not loaded yet; try again shortly")
        self.image = image
        # INVARIANT: masks are asked for an address as of the image's time. If no end lies ahead, all ALLOWs that ever
        # end have ended, and an address without a time sees none of them.
        self._address = image.asker(address) if image.index.ends.heap else address
        self._own: _Own | None = image.index.principals.get(principal)
        self._first_texts: dict[tuple[int, int], str] | None = None

    def decide(self, operation: int, resource_type: int, resource_name: str) -> Verdict:
        """Decide on a literal resource. This is the hot path: its cost grows with the name's length only."""
        if self.is_super_user:
            return _SUPER_USER
        image = self.image
        address = self._address
        bit = 1 << operation
        mask = 0
        own = self._own
        if own is not None:
            node = own.types[resource_type]
            if node is not None:
                mask = node.grants(bit, resource_name, address)
        node = image.index.everyone.types[resource_type]
        # INVARIANT: everything that may deny is searched to its end before anything is allowed.
        if node is not None and (node.may_deny or not mask & bit):
            mask |= node.grants(bit, resource_name, address)
        if mask >> (DENY_SHIFT + operation) & 1:
            return _DENIED_BY_ACL
        if mask & bit:
            return _ALLOWED_BY_ACL
        if image.config.allow_everyone_if_no_acl_found and not image.index.covers(resource_type, resource_name):
            return _DEFAULT_ALLOW
        return _DEFAULT_DENY

    @property
    def host(self) -> str:
        return self._address.text

    def decision(self, operation: int, resource_type: int, resource_name: str) -> Decision:
        verdict = self.decide(operation, resource_type, resource_name)
        acl = self.deciding_acl(verdict, operation, resource_type, resource_name)
        return Decision(verdict, acl, self.image.offset)

    def deciding_acl(
        self, verdict: Verdict, operation: int, resource_type: int, resource_name: str
    ) -> StandardAcl | None:
        """The ACL behind a verdict that `decide` gave for the same question; None if no ACL was."""
        row = self.deciding_row(verdict, operation, resource_type, resource_name)
        return None if row is None else self.acl_at(row)

    def acl_at(self, row: int) -> StandardAcl:
        return self.image.index.table.acl(row)

    def acl_id_at(self, row: int) -> bytes:
        """The 16 bytes of its id, at a tenth of the cost of the ACL."""
        return bytes(self.image.index.table.ids[16 * row : 16 * row + 16])

    def deciding_row(self, verdict: Verdict, operation: int, resource_type: int, resource_name: str) -> int | None:
        """The row of this ACL, for `acl_at` and `acl_id_at`; valid as long as this authorization."""
        if verdict is not _DENIED_BY_ACL and verdict is not _ALLOWED_BY_ACL:
            return None
        bit = 1 << (operation if verdict.allowed else DENY_SHIFT + operation)
        principal, pattern, entry = self._deciding_pattern(bit, resource_type, resource_name)
        index = self.image.index
        host = self._first_text_at(entry, bit) if isinstance(entry, HostMasks) else WILDCARD
        rows = rows_at(index.bucket(pattern), principal, host, index.table)
        if rows[1:]:
            rows = self._rows_that_say(verdict, operation, rows)
        return min(rows, key=index.table.key) if rows[1:] else rows[0]

    def _deciding_pattern(self, bit: int, resource_type: int, resource_name: str) -> tuple[str, Pattern, Entry]:
        """The most specific pattern whose entry has this bit for the caller: the principal, the pattern, the entry."""
        return next(
            (principal, (resource_type, pattern_type, name), entry)
            for principal, node, pattern_type, name in self._candidates(bit, resource_type, resource_name)
            if (entry := node.entries(pattern_type).get(name)) is not None and mask_at(entry, self._address) & bit
        )

    def _candidates(self, bit: int, resource_type: int, name: str) -> Iterator[tuple[str, TypeNode, int, str]]:
        speaking = self._together(resource_type)
        for principal, node in speaking:
            yield principal, node, _LITERAL, name
        longest = ((*each, each[1].longest_with(bit, name, self._address)) for each in speaking)
        found = [(principal, node, _PREFIXED, prefix) for principal, node, prefix in longest if prefix is not None]
        # The sort keeps the caller's own before those of `User:*`.
        yield from sorted(found, key=lambda each: -len(each[3]))
        yield from ((principal, node, _LITERAL, WILDCARD) for principal, node in speaking)

    def _first_text_at(self, entry: HostMasks, bit: int) -> str:
        # A thousand ranges on one pattern are searched once, however many actions of a request they decide.
        texts = self._first_texts = self._first_texts or {}
        known = texts.get((id(entry), bit))
        if known is None:
            known = texts[id(entry), bit] = entry.first_text_at(self._address, bit)
        return known

    def _speaking(self, resource_type: int) -> list[tuple[str, TypeNode]]:
        """The principals whose ACLs apply to the caller, with their nodes: the caller's own before `User:*`."""
        everyone, own = self.image.index.everyone, self._own_node()
        found = []
        if own is not None and own is not everyone and (node := own.types[resource_type]) is not None:
            found.append((own.principal, node))
        if (node := everyone.types[resource_type]) is not None:
            found.append((everyone.principal, node))
        return found

    def _together(self, resource_type: int) -> list[tuple[str, TypeNode]]:
        """The same in fewer nodes, if some of them are merged."""
        return self._speaking(resource_type)

    def _own_node(self) -> PrincipalNode | None:
        return self._own if isinstance(self._own, PrincipalNode) else None

    def _rows_that_say(self, verdict: Verdict, operation: int, rows: list[int]) -> list[int]:
        table = self.image.index.table
        permission, covers = (_ALLOW, ALLOW_MASK) if verdict.allowed else (_DENY, DENY_MASK)
        found = []
        for row in rows:
            codes = table.codes[row]
            says = permission_type_in(codes) == permission and covers[operation_in(codes)] >> operation & 1
            if says and not self.image.has_ended(row):
                found.append(row)
        return found

    def speaking_rows(self, resource_type: int, resource_name: str) -> Iterator[Iterator[int]]:
        """The rows of every ACL on this resource that applies to this caller, whatever its operation; for `acl_at`.

        They come pattern by pattern and principal by principal, most specific first, unordered within each. Sorted by
        `AclTable.key`, the first with a verdict's permission and operation is its `deciding_acl`.
        """
        speaking = self._speaking(resource_type)
        for pattern_type, name in _patterns(resource_name, [node for _, node in speaking]):
            for principal, node in speaking:
                entry = node.entries(pattern_type).get(name)
                yield (
                    iter(()) if entry is None else self._rows_of(entry, (resource_type, pattern_type, name), principal)
                )

    def _rows_of(self, entry: Entry, pattern: Pattern, principal: str) -> Iterator[int]:
        index = self.image.index
        bucket = index.bucket(pattern)
        for host in entry.texts_at(self._address) if isinstance(entry, HostMasks) else (WILDCARD,):
            yield from rows_at(bucket, principal, host, index.table)

    def matching_acls(self, resource_type: int, resource_name: str) -> Iterator[StandardAcl]:
        for rows in self.speaking_rows(resource_type, resource_name):
            yield from map(self.acl_at, sorted(rows, key=self.image.index.table.key))

    def authorized_operations(self, resource_type: int, resource_name: str) -> int:
        supported = to_bit_field(supported_operations(ResourceType(resource_type)))
        if self.is_super_user:
            return supported
        mask = 0
        for node in self._nodes(resource_type):
            mask |= node.mask(resource_name, self._address)
        if (
            not mask
            and self.image.config.allow_everyone_if_no_acl_found
            and not self.image.index.covers(resource_type, resource_name)
        ):
            return supported
        return mask & ~(mask >> DENY_SHIFT) & supported

    def authorize_by_resource_type(self, operation: int, resource_type: int) -> Verdict:
        return result_of(self.by_resource_type(operation, resource_type))

    def by_resource_type(self, operation: int, resource_type: int) -> Generator[None, None, Verdict]:
        """Whether the caller may do this on any resource of the type at all (KIP-504, as Kafka's default method).

        In short steps, as every pattern of the caller's may have to be examined; the image must stay the same from the
        first to the last. Raises InvalidRequestException for ANY and UNKNOWN.
        """
        if resource_type <= ResourceType.ANY:
            raise InvalidRequestException("must specify a non-filter resource type for authorizeByResourceType")
        if operation <= AclOperation.ANY:
            raise InvalidRequestException("must specify a non-filter operation type for authorizeByResourceType")
        # Kafka asks for this very name first, so super users, implied operations and the default come in by it.
        verdict = self.decide(operation, resource_type, "hardcode")
        if verdict.allowed:
            return verdict
        allow, deny = plain_allow_bit(operation), 1 << (DENY_SHIFT + operation)
        nodes = tuple(self._nodes(resource_type))
        allowed, denied = yield from on_any_resource(nodes, allow, deny, self._address)
        if allowed:
            return _ALLOWED_BY_ACL
        return _DENIED_BY_ACL if denied else _DEFAULT_DENY

    def _nodes(self, resource_type: int) -> Iterable[TypeNode]:
        """Nodes that hold every ACL which applies to the caller, and stay as they are while the image does."""
        return (node for _, node in self._speaking(resource_type))


def _patterns(resource_name: str, nodes: list[TypeNode]) -> Iterator[tuple[int, str]]:
    """The patterns of these nodes that cover a resource, most specific first; the literal ones in any case."""
    yield _LITERAL, resource_name
    prefixes = {prefix for node in nodes for prefix in node.prefixes_of(resource_name)}
    for prefix in sorted(prefixes, key=len, reverse=True):
        yield _PREFIXED, prefix
    if resource_name != WILDCARD:
        yield _LITERAL, WILDCARD


def result_of(steps: Generator[None, None, T]) -> T:
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: T = end.value
            return result
