"""The ACLs that nearly match: found by the index, in short steps, without a scan of the store (KIP-140).

Looked at are the ACLs on the resource, whoever they are for, and the caller's own and those of `User:*`, whatever they
are on. Where these are few they are looked at one and all; where they are many, those with names like the ones asked
for are, so that the work stays the same at a million ACLs.

The index may change between two steps; what is found is to be looked up again before it is shown (`still_there`).
"""

from bisect import insort
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, islice

from app.core.bindings import StandardAcl
from app.core.buckets import Bucket, HotBucket, rows_of, unpack
from app.core.codes import WILDCARD, WILDCARD_PRINCIPAL, AclPermissionType, PatternType, ResourceType
from app.core.containers import SortedNames
from app.core.index import AclIndex
from app.core.misses import PRINCIPAL, Question, dimensions_in, distance, words_for
from app.core.table import SortKey

MAX_NEAR_MISSES = 10
"""So many are shown of one question."""

MAX_OF_A_KIND = 3
"""So many of those that miss in the same dimensions, so that one kind does not hide the others."""

_STEP = 100
_FEW = 256
"""So many patterns of a principal, or principals on a pattern, are looked at one and all."""

_SOME_HOSTS = 50
_NEIGHBOURS = 32
_MOST_PATTERNS = 256
_MOST_PIECES = 250
_TYPES = tuple(int(each) for each in ResourceType if each > ResourceType.ANY)
_PATTERN_TYPES = (int(PatternType.LITERAL), int(PatternType.PREFIXED))
_LITERAL, _PREFIXED = _PATTERN_TYPES
_SPELLINGS = (str.lower, str.upper, str.capitalize, str.swapcase, str.strip)


@dataclass(frozen=True, slots=True)
class NearMiss:
    """An ACL that misses a question in one dimension or two.

    `missed` names them (principal, host, operation, resource); `detail` says what would have to be so for it to match.
    """

    acl: StandardAcl
    missed: tuple[str, ...]
    detail: str


class NearMissSearch:
    """A search for near misses of one permission type. First every step of `steps`, then `found`.

    Without `of_others` only ACLs that speak of the caller's principal are found.
    """

    def __init__(
        self, index: AclIndex, question: Question, permission_type: AclPermissionType, *, of_others: bool = True
    ) -> None:
        self._index = index
        self._table = index.table
        self._question = question
        self._permission = int(permission_type)
        self._of_others = of_others
        self._principals = tuple(dict.fromkeys((question.principal, WILDCARD_PRINCIPAL)))
        self._kept: dict[int, list[tuple[int, SortKey, StandardAcl]]] = {}
        self._looked = 0

    def steps(self) -> Iterator[None]:
        """Look further, some hundred ACLs at a time."""
        yield from self._on_the_resource()
        for principal in self._principals:
            yield from self._of_principal(principal)

    def found(self) -> list[NearMiss]:
        """The nearest, nearest first; at equal distance in list order."""
        nearest = sorted(chain.from_iterable(self._kept.values()), key=_place)[:MAX_NEAR_MISSES]
        question = self._question
        return [
            NearMiss(acl, dimensions_in(question.missed_by(key)), words_for(question, acl.binding))
            for _, key, acl in nearest
        ]

    def _on_the_resource(self) -> Iterator[None]:
        """The ACLs whose patterns cover the resource."""
        resource_type = int(self._question.resource_type)
        for pattern_type, name in self._covering_patterns():
            bucket = self._bucket(resource_type, pattern_type, name)
            if bucket is not None and not isinstance(bucket, HotBucket):
                self._look_at(unpack(bucket))
                yield from self._pause()
            elif bucket is not None:
                for principal in self._principals_like_it(bucket):
                    self._look_at(self._some_rows(bucket, principal))
                    yield from self._pause()

    def _of_principal(self, principal: str) -> Iterator[None]:
        """The ACLs of this principal on other resources of the type, and on those of other types with the same name."""
        for resource_type in _TYPES:
            for pattern_type, name in self._patterns_like_it(principal, resource_type):
                if self._question.covered_by(resource_type, pattern_type, name):
                    continue
                bucket = self._bucket(resource_type, pattern_type, name)
                if bucket is not None:
                    self._look_at(self._some_rows(bucket, principal))
                self._looked += 1
                yield from self._pause()

    def _covering_patterns(self) -> list[tuple[int, str]]:
        name = self._question.resource_name
        names = self._index.types[self._question.resource_type]
        if names is None:
            return []
        prefixes = islice(names.prefixes_of(name), _MOST_PATTERNS)
        patterns = [(_LITERAL, name), *((_PREFIXED, each) for each in prefixes), (_LITERAL, WILDCARD)]
        return list(dict.fromkeys(patterns))

    def _patterns_like_it(self, principal: str, resource_type: int) -> list[tuple[int, str]]:
        """Patterns of this type on which the principal has ACLs: all, or those with a name like the one asked for."""
        node = self._index.principal(principal)
        types = None if node is None else node.types[resource_type]
        if types is None:
            return []
        if resource_type != self._question.resource_type:
            names: Iterable[str] = (self._question.resource_name,)
        elif len(types.literals) + len(types.prefixes) <= _FEW:
            names = {*types.literals, *types.prefixes}
        else:
            names = self._names_like_it(resource_type)
        return [(each, name) for name in names for each in _PATTERN_TYPES if name in types.entries(each)]

    def _names_like_it(self, resource_type: int) -> dict[str, None]:
        """Names that look like the one asked for; whoever has ACLs on them."""
        name = self._question.resource_name
        pieces = [name[:length] for length in range(1, min(len(name), _MOST_PIECES) + 1)]
        found = dict.fromkeys(chain((WILDCARD,), pieces, (piece + WILDCARD for piece in pieces)))
        found.update(dict.fromkeys(spelled(name) for spelled in _SPELLINGS))
        names = self._index.types[resource_type]
        if names is not None:
            found.update(dict.fromkeys(_neighbours(names.names, name)))
        return found

    def _principals_like_it(self, bucket: HotBucket) -> list[str]:
        """Principals with ACLs on this pattern: the caller's, and others, all if they are few."""
        if len(bucket.by_principal) <= _FEW:
            return list(bucket.by_principal)
        principal = self._question.principal
        kind, _, name = principal.partition(":")
        spelled = (f"{kind}:{spelling(name)}" for spelling in _SPELLINGS)
        found = dict.fromkeys(chain(self._principals, spelled, _neighbours(bucket.principals, principal)))
        return [each for each in found if each in bucket.by_principal]

    def _bucket(self, resource_type: int, pattern_type: int, name: str) -> Bucket | None:
        names = self._index.types[resource_type]
        return None if names is None else names.buckets(pattern_type).get(name)

    def _some_rows(self, bucket: Bucket, principal: str) -> list[int]:
        """The rows of the principal on this pattern; of very many those for the caller's address, and some others."""
        rows = bucket.by_principal.get(principal, b"") if isinstance(bucket, HotBucket) else b""
        if isinstance(rows, bytes):
            return rows_of(bucket, principal, self._table)
        hosts = dict.fromkeys(chain((WILDCARD, self._question.address.text), islice(rows, _SOME_HOSTS)))
        return [row for host in hosts for row in unpack(rows.get(host, b""))]

    def _look_at(self, rows: list[int]) -> None:
        # INVARIANT: no row number is held over a yield; rows are used again.
        table, question = self._table, self._question
        for at in rows:
            if table.codes[at] >> 10 != self._permission:
                continue
            key = table.key(at)
            missed = question.missed_by(key)
            if missed & PRINCIPAL and not self._of_others:
                continue
            far = distance(question, key, missed)
            if far is None:
                continue
            kept = self._kept.setdefault(missed, [])
            if len(kept) < MAX_OF_A_KIND or (far, key) < kept[-1][:2]:
                insort(kept, (far, key, table.acl(at)), key=_place)
                del kept[MAX_OF_A_KIND:]
        self._looked += len(rows)

    def _pause(self) -> Iterator[None]:
        if self._looked >= _STEP:
            self._looked = 0
            yield


def still_there(index: AclIndex, near: Iterable[NearMiss]) -> list[NearMiss]:
    """Those whose ACL the index holds."""
    return [each for each in near if index.find(each.acl.binding) == each.acl]


def _place(kept: tuple[int, SortKey, StandardAcl]) -> tuple[int, SortKey]:
    return kept[:2]


def _neighbours(names: SortedNames, name: str) -> Iterator[str]:
    """Names that begin as this one does, by ever less of it."""
    length = len(name)
    for stem in (name, name[: length * 3 // 4], name[: length // 2], name[: length // 4]):
        yield from names.first(_NEIGHBOURS, stem, including=True)
