"""The ACLs of one resource type that assertions are checked against, found by their patterns and principals."""

from collections import defaultdict
from collections.abc import Iterable, Iterator

from app.core.access.regions import Nested, acl_key
from app.core.index.masks import PACKED_MASKS
from app.core.kafka.bindings import AclBinding


class Patterns:
    """Some ACLs of one resource type by the keys of their patterns."""

    def __init__(self, acls: Iterable[AclBinding] = ()) -> None:
        self.acls: defaultdict[str, list[AclBinding]] = defaultdict(list)
        for acl in acls:
            self.acls[acl_key(acl)].append(acl)
        self._names: Nested | None = None

    @property
    def names(self) -> Nested:
        if self._names is None:
            self._names = Nested(self.acls)
        return self._names

    def above(self, key: str) -> Iterator[AclBinding]:
        """All ACLs whose patterns cover that of the key, its own among them."""
        for each in dict.fromkeys((*self.names.above(key), key)):
            yield from self.acls.get(each, ())


class AclsOfType:
    """All ACLs of one resource type on names that assertions are about."""

    def __init__(self) -> None:
        self.everything = Patterns()
        self.masks: defaultdict[str, int] = defaultdict(int)
        """By principal: what its ACLs say together, packed."""
        self._by_principal: defaultdict[str, list[AclBinding]] = defaultdict(list)
        self._own: dict[str, Patterns] = {}
        self._saying: dict[int, frozenset[str]] = {}

    def add(self, key: str, acl: AclBinding) -> None:
        self.everything.acls[key].append(acl)
        self._by_principal[acl.principal].append(acl)
        self.masks[acl.principal] |= PACKED_MASKS[acl.operation, acl.permission_type]

    def saying(self, bits: int) -> frozenset[str]:
        """The principals whose ACLs say any of this, on any name."""
        found = self._saying.get(bits)
        if found is None:
            found = frozenset(principal for principal, mask in self.masks.items() if mask & bits)
            self._saying[bits] = found
        return found

    def of(self, principal: str) -> Patterns:
        found = self._own.get(principal)
        if found is None:
            found = self._own[principal] = Patterns(self._by_principal.get(principal, ()))
        return found
