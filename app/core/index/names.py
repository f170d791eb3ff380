"""The resource patterns that ACLs are on, whoever they are for, and the rows on each."""

from app.core.index.buckets import Bucket
from app.core.index.containers import ShardedDict, SortedNames
from app.core.index.prefixes import PrefixSet
from app.core.kafka.codes import WILDCARD, PatternType
from app.core.kafka.hosts import ClientAddress

_LITERAL = int(PatternType.LITERAL)
_NOBODY = ClientAddress("", 0, 0)


class TypeNames(PrefixSet):
    """The resource patterns of one type, for all principals."""

    __slots__ = ("literals", "names", "prefixes")

    def __init__(self) -> None:
        super().__init__()
        self.literals: ShardedDict[str, Bucket] = ShardedDict()
        self.prefixes: ShardedDict[str, Bucket] = ShardedDict()
        self.names = SortedNames()

    def buckets(self, pattern_type: int) -> ShardedDict[str, Bucket]:
        return self.literals if pattern_type == _LITERAL else self.prefixes

    def prefixes_of(self, name: str) -> list[str]:
        return self.covering(name, self._has_prefix)

    def covers(self, name: str) -> bool:
        """Whether any ACL's pattern covers this name, whatever its principal, host, operation or permission."""
        return (
            self.literals.get(name) is not None
            or self.literals.get(WILDCARD) is not None
            or any(self._has_prefix(name[:length]) for length in self.lengths if length <= len(name))
            or (self.nested is not None and self.nested.mask(name, _any_mask, _NOBODY, 1) == 1)
        )

    def _has_prefix(self, name: str) -> bool:
        return self.prefixes.get(name) is not None

    def put(self, pattern_type: int, name: str, bucket: Bucket | None) -> None:
        buckets = self.buckets(pattern_type)
        other = self.prefixes if pattern_type == _LITERAL else self.literals
        known = buckets.get(name) is not None
        if bucket is not None:
            buckets.put(name, bucket)
        else:
            buckets.remove(name)
        if known == (bucket is not None):
            return
        if other.get(name) is None:
            (self.names.add if bucket is not None else self.names.remove)(name)
        if pattern_type != _LITERAL:
            (self.prefix_came if bucket is not None else self.prefix_gone)(name)


def _any_mask(_: str) -> int:
    return 1
