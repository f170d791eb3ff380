"""Who has ACLs on the patterns that cover one resource: principals in order, and the rows of each, in short steps.

Rows of the table are held from step to step, so take no step after a change of the image.
"""

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterator

from app.core.index.buckets import Bucket, HotBucket, packs_of, unpack
from app.core.index.tree import AclIndex
from app.core.kafka.codes import WILDCARD

_CHUNK = 64

RankedRow = tuple[int, int]
"""The pattern's place, the most specific being 0, and the ACL's row in the table."""


class Holders:
    """Run `steps` to the end first."""

    def __init__(self, index: AclIndex, resource_type: int, resource_name: str) -> None:
        self._index = index
        self._name = resource_name
        self._type = resource_type
        self._hot: list[tuple[int, HotBucket]] = []
        self._cold: defaultdict[str, list[RankedRow]] = defaultdict(list)
        self._cold_principals: list[str] = []

    @property
    def is_covered(self) -> bool:
        """Whether any ACL is on the resource."""
        return bool(self._hot or self._cold)

    def steps(self) -> Iterator[None]:
        principals = self._index.table.principals
        for rank, bucket in enumerate(covering(self._index, self._type, self._name)):
            if isinstance(bucket, HotBucket):
                self._hot.append((rank, bucket))
                continue
            for row in unpack(bucket):
                self._cold[principals[row]].append((rank, row))
            yield
        self._cold_principals = sorted(self._cold)
        yield

    def principals(self, from_one: str | None) -> Iterator[list[str]]:
        """Every principal with an ACL here, in order and in chunks, from one of them on."""
        last, including = from_one, True
        while True:
            cold, at = self._cold_principals, 0
            if last is not None:
                at = bisect_left(cold, last) if including else bisect_right(cold, last)
            chunks = [bucket.principals.first(_CHUNK, last, including=including) for _, bucket in self._hot]
            chunks.append(cold[at : at + _CHUNK])
            if not any(chunks):
                return
            # Behind the end of a full chunk there may be more of its names.
            most = min((chunk[-1] for chunk in chunks if len(chunk) == _CHUNK), default=None)
            ready = sorted({each for chunk in chunks for each in chunk if most is None or each <= most})
            yield ready
            last, including = ready[-1], False

    def rows_of(self, principal: str) -> Iterator[list[RankedRow]]:
        yield self._cold.get(principal, [])
        for rank, bucket in self._hot:
            for rows in packs_of(bucket, principal, self._index.table):
                yield [(rank, row) for row in rows]


def covering(index: AclIndex, resource_type: int, name: str) -> Iterator[Bucket]:
    """The rows on each pattern that covers the resource, most specific first."""
    names = index.types[resource_type]
    if names is None:
        return
    literal = names.literals.get(name)
    if literal is not None:
        yield literal
    prefixes = map(names.prefixes.get, names.prefixes_of(name))
    yield from (bucket for bucket in prefixes if bucket is not None)
    wildcard = names.literals.get(WILDCARD) if name != WILDCARD else None
    if wildcard is not None:
        yield wildcard
