"""The ACLs that nearly match: found by the index, in short steps, without a scan of the store (KIP-140).

The search examines the ACLs on the resource, of any principal, and those that apply to the caller on any resource. It
examines all of them if they are few, else those with names like the ones asked for, so the work stays the same at a
million ACLs. The choice depends only on the ACLs that exist: every replica finds the same.

The index may change between two steps; look up again what was found before showing it (`still_there`).
"""

from bisect import insort
from collections.abc import Generator, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from heapq import nsmallest
from itertools import chain

from app.core.explain.matching import LONG
from app.core.explain.misses import PRINCIPAL, Question, dimensions_in, distance, hosts_around, words_for
from app.core.index.buckets import Bucket, HotBucket, rows_at, rows_of, unpack
from app.core.index.containers import SortedNames
from app.core.index.packing import PATTERN_TYPES, permission_type_in
from app.core.index.table import SortKey
from app.core.index.tree import AclIndex, Pattern
from app.core.kafka.bindings import StandardAcl, rfc3339
from app.core.kafka.codes import WILDCARD, AclPermissionType, ResourceType
from app.core.kafka.validation import MAX_TEXT_BYTES

MAX_NEAR_MISSES = 10
MAX_OF_A_KIND = 3
"""At most this many that miss in the same dimensions, so that one kind does not hide the others."""

_STEP = 50
_FEW = 256
"""How many patterns of a principal, principals on a pattern, or ACLs of such a principal are examined."""

_MOST_LOOKED_AT = 20_000
"""After this many ACLs no further pattern is examined."""

_MOST_HOSTS = 2_000
"""Up to this many hosts of a principal's ACLs on a pattern the first in order are examined; above it, likely ones."""

_LONGEST_HOST = 128
_NEIGHBOURS = 32
_MOST_PATTERNS = 256
_MOST_PIECES = 250
_TYPES = tuple(int(each) for each in ResourceType if each > ResourceType.ANY)
_LITERAL, _PREFIXED = PATTERN_TYPES
_SPELLINGS = (str.lower, str.upper, str.capitalize, str.swapcase, str.strip)

EXPIRY = "expiry"


@dataclass(frozen=True, slots=True)
class NearMiss:
    """An ACL that misses a question in one dimension or two, or an ALLOW that has ended.

    `missed` names them (principal, host, operation, resource; expiry); `detail` says what would make it match.
    """

    acl: StandardAcl
    missed: tuple[str, ...]
    detail: str


class NearMissSearch:
    """A search for near misses of one permission type. Run `steps` to the end, then call `found`.

    Without `of_others` only ACLs that apply to the caller are examined.
    """

    def __init__(
        self, index: AclIndex, question: Question, permission_type: AclPermissionType, *, of_others: bool = True
    ) -> None:
        self._index = index
        self._table = index.table
        self._question = question
        self._permission = int(permission_type)
        self._of_others = of_others
        self._principals = question.speaking
        self._kept: dict[int, list[tuple[int, SortKey, bytes]]] = {}
        self._looked = 0
        self._left = _MOST_LOOKED_AT

    def steps(self) -> Iterator[None]:
        yield from self._on_the_resource()
        for principal in self._principals:
            yield from self._of_principal(principal)

    def found(self) -> list[NearMiss]:
        nearest = sorted(chain.from_iterable(self._kept.values()), key=_place)[:MAX_NEAR_MISSES]
        question = self._question
        return [
            NearMiss(acl, dimensions_in(question.missed_by(key)), words_for(question, acl.binding))
            for _, key, acl_id in nearest
            for acl in (_acl(key, acl_id),)
        ]

    def _on_the_resource(self) -> Iterator[None]:
        for pattern in (yield from self._covering_patterns()):
            if self._left <= 0:
                return
            bucket = self._index.bucket(pattern)
            if self._of_others and bucket is not None and not isinstance(bucket, HotBucket):
                yield from self._look_at(unpack(bucket))
                continue
            for principal in self._principals_like_it(bucket):
                yield from self._look_at_those_of(principal, pattern)

    def _of_principal(self, principal: str) -> Iterator[None]:
        for pattern in chain.from_iterable(self._patterns_like_it(principal, each) for each in _TYPES):
            if self._left <= 0:
                return
            if not self._question.covered_by(*pattern):
                yield from self._look_at_those_of(principal, pattern)
            yield from self._pause(1)

    def _covering_patterns(self) -> Generator[None, None, list[Pattern]]:
        """The patterns that cover the resource and that the asker may see ACLs on, the most specific first."""
        name, resource_type = self._question.resource_name, int(self._question.resource_type)
        names = self._index.types[resource_type]
        if names is None:
            return []
        # INVARIANT: without `of_others`, what is examined does not depend on ACLs of others.
        if self._of_others:
            prefixes = names.prefixes_of(name)
        else:
            nodes = (self._index.node(each, resource_type) for each in self._principals)
            own = {prefix for node in nodes if node is not None for prefix in node.prefixes_of(name)}
            prefixes = sorted(own, key=len, reverse=True)
        yield from self._pause(1 + len(prefixes) // _MOST_PATTERNS + len(name) // LONG)
        patterns = [(_LITERAL, name), *((_PREFIXED, each) for each in prefixes[:_MOST_PATTERNS]), (_LITERAL, WILDCARD)]
        return [(resource_type, *each) for each in dict.fromkeys(patterns)]

    def _patterns_like_it(self, principal: str, resource_type: int) -> list[Pattern]:
        types = self._index.node(principal, resource_type)
        if types is None:
            return []
        names: Iterable[str] | None = (self._question.resource_name,)
        if resource_type == self._question.resource_type:
            names = types.names_if_few(_FEW)
        if names is None:
            names = self._names_like_it(resource_type)
        return [(resource_type, each, name) for name in names for each in PATTERN_TYPES if name in types.entries(each)]

    def _names_like_it(self, resource_type: int) -> dict[str, None]:
        name = self._question.resource_name
        pieces = [name[:length] for length in range(1, min(len(name), _MOST_PIECES) + 1)]
        found = dict.fromkeys(chain((WILDCARD,), pieces, (piece + WILDCARD for piece in pieces)))
        found.update(dict.fromkeys(_spellings(name)))
        names = self._index.types[resource_type]
        # INVARIANT: what lies between two of the caller's own names belongs to others.
        if names is not None and self._of_others:
            found.update(dict.fromkeys(_neighbours(names.names, name)))
        return found

    def _principals_like_it(self, bucket: Bucket | None) -> list[str]:
        if not self._of_others or not isinstance(bucket, HotBucket):
            return list(self._principals)
        if len(bucket.by_principal) <= _FEW:
            return sorted(bucket.by_principal)
        principal = self._question.principal
        kind, _, name = principal.partition(":")
        spelled = (f"{kind}:{each}" for each in _spellings(name))
        return list(dict.fromkeys(chain(self._principals, spelled, _neighbours(bucket.principals, principal))))

    def _look_at_those_of(self, principal: str, pattern: Pattern) -> Iterator[None]:
        bucket = self._index.bucket(pattern)
        rows = bucket.by_principal.get(principal, b"") if isinstance(bucket, HotBucket) else b""
        if isinstance(rows, bytes):
            yield from self._look_at(rows_of(bucket, principal, self._table))
            return
        enough = self._left - _FEW
        for host in self._hosts_like_it(rows.by_host):
            yield from self._look_at(rows_at(self._index.bucket(pattern), principal, host, self._table))
            if self._left <= enough:
                return

    def _hosts_like_it(self, rows: Mapping[str, bytes]) -> list[str]:
        """Hosts of these rows: those at or near the caller's address, and others; all hosts if they are few."""
        others: Iterable[str] = ()
        if len(rows) <= _FEW:
            others = sorted(rows)
        elif len(rows) <= _MOST_HOSTS:
            others = nsmallest(_FEW, (each for each in rows if len(each) <= _LONGEST_HOST))
        return [each for each in dict.fromkeys(chain(hosts_around(self._question.address), others)) if each in rows]

    def _look_at(self, rows: list[int]) -> Iterator[None]:
        # INVARIANT: no row number is held over a yield; rows are used again.
        table = self._table
        wanted = [
            (table.key(at), bytes(table.ids[16 * at : 16 * at + 16]))
            for at in rows
            if permission_type_in(table.codes[at]) == self._permission
        ]
        self._left -= len(rows)
        yield from self._pause(1)
        for key, acl_id in wanted:
            self._consider(key, acl_id)
            yield from self._pause(1 + (len(key[1]) + len(key[3]) + len(key[4])) // LONG)

    def _consider(self, key: SortKey, acl_id: bytes) -> None:
        question = self._question
        missed = question.missed_by(key)
        is_hidden = missed & PRINCIPAL and not self._of_others
        far = None if is_hidden else distance(question, key, missed)
        if far is None:
            return
        kept = self._kept.setdefault(missed, [])
        if len(kept) < MAX_OF_A_KIND or (far, key) < kept[-1][:2]:
            insort(kept, (far, key, acl_id), key=_place)
            del kept[MAX_OF_A_KIND:]

    def _pause(self, looked: int) -> Iterator[None]:
        self._looked += looked
        if self._looked >= _STEP:
            self._looked = 0
            yield


def still_there(index: AclIndex, near: Iterable[NearMiss]) -> list[NearMiss]:
    found = [(each, index.find(each.acl.binding)) for each in near]
    return [replace(each, acl=acl) for each, acl in found if acl is not None and acl.id == each.acl.id]


def ended_miss(acl: StandardAcl) -> NearMiss:
    """The near miss of an ALLOW that would match, had it not ended."""
    at = "" if acl.expires_at is None else f" at {rfc3339(acl.expires_at)}"
    return NearMiss(acl, (EXPIRY,), f"ended{at} and is about to be removed; otherwise it would match")


def _acl(key: SortKey, acl_id: bytes) -> StandardAcl:
    resource_type, name, pattern_type, principal, host, operation, permission_type = key
    return StandardAcl.from_row(
        (acl_id, resource_type, pattern_type, operation, permission_type, name, principal, host)
    )


def _spellings(name: str) -> Iterator[str]:
    return (spelled(name) for spelled in _SPELLINGS if len(name) <= MAX_TEXT_BYTES)


def _place(kept: tuple[int, SortKey, bytes]) -> tuple[int, SortKey]:
    return kept[:2]


def _neighbours(names: SortedNames, name: str) -> Iterator[str]:
    length = len(name)
    for stem in (name, name[: length * 3 // 4], name[: length // 2], name[: length // 4]):
        yield from names.first(_NEIGHBOURS, stem, including=True)
