"""The ACLs that allow or deny exactly one question: the first of them, and their number.

The search takes short steps. Rows of the table are held from step to step, so take no step after a change of the image.
"""

from collections.abc import Generator, Iterable, Iterator
from itertools import islice

from app.core.authorize import Authorization
from app.core.explain.misses import Question
from app.core.image import AuthorizerImage
from app.core.index.buckets import all_packs
from app.core.index.holders import covering
from app.core.index.packing import operation_in, permission_type_in
from app.core.index.table import AclTable
from app.core.kafka.bindings import StandardAcl
from app.core.kafka.codes import AclPermissionType
from app.core.kafka.operations import ALLOW_MASK, DENY_MASK

MAX_LISTED = 100
"""At most this many matching ACLs, and as many denying ones, are listed; their counts are complete."""

MAX_LISTED_TEXT = 200_000
"""Fewer are listed if their names have many thousand characters: at most this many together, but at least one ACL."""

LONG = 1_000
"""This many characters of a name cost about as much as one more row."""

_STEP = 100
_ALLOW, _DENY = int(AclPermissionType.ALLOW), int(AclPermissionType.DENY)


def listed(
    acls: Iterable[StandardAcl], most: int = MAX_LISTED, most_text: int = MAX_LISTED_TEXT
) -> tuple[StandardAcl, ...]:
    found: list[StandardAcl] = []
    left = most_text
    for acl in islice(acls, most):
        left -= len(acl.binding.resource_name) + len(acl.binding.principal) + len(acl.binding.host)
        if left < 0 and found:
            break
        found.append(acl)
    return tuple(found)


class First:
    """The first rows of a walk from pattern to pattern, in list order on each, and how many it has met."""

    def __init__(self, table: AclTable) -> None:
        self.count = 0
        self._table = table
        self._rows: list[int] = []
        self._of_pattern: list[int] = []

    def add(self, rows: list[int]) -> None:
        self.count += len(rows)
        room = MAX_LISTED - len(self._rows)
        if rows and room:
            self._of_pattern = sorted(self._of_pattern + rows, key=self._table.key)[:room]

    def go_on(self) -> None:
        self._rows += self._of_pattern
        self._of_pattern = []

    def acls(self) -> tuple[StandardAcl, ...]:
        return listed(map(self._table.acl, self._rows))


class Matching:
    """The DENYs and the ALLOWs that match a question, each the most specific first. Run `steps` to the end first."""

    def __init__(self, image: AuthorizerImage, authorization: Authorization, question: Question) -> None:
        index = image.index
        self.denying = First(index.table)
        self.allowing = First(index.table)
        self.ended = First(index.table)
        """ALLOWs that have ended, and would match otherwise."""
        self._image = image
        self._index = index
        self._authorization = authorization
        self._question = question
        self._looked = 0

    def steps(self) -> Iterator[None]:
        name = self._question.resource_name
        for rows in self._authorization.speaking_rows(self._question.resource_type, name):
            self._looked += 1 + len(name) // LONG
            while some := list(islice(rows, _STEP)):
                self._take(some)
                yield from self._pause(len(some))
            yield from self._pause(0)
            self.denying.go_on()
            self.allowing.go_on()
            self.ended.go_on()

    def denies_are_all(self) -> Generator[None, None, bool]:
        """Whether the matching DENYs are the only ACLs on the resource, of any principal. Call it after `steps`."""
        # The DENYs that match are among those on the resource: if there are no more than these, there are no others.
        count = 0
        name = self._question.resource_name
        for bucket in covering(self._index, self._question.resource_type, name):
            yield from self._pause(1 + len(name) // LONG)
            for packed in all_packs(bucket):
                count += len(packed) // 4
                if count > self.denying.count:
                    return False
                yield from self._pause(1)
        return True

    def _take(self, rows: list[int]) -> None:
        codes, operation = self._index.table.codes, self._question.operation
        denying: list[int] = []
        allowing: list[int] = []
        ended: list[int] = []
        for row in rows:
            named, permission_type = operation_in(codes[row]), permission_type_in(codes[row])
            if permission_type == _DENY and DENY_MASK[named] >> operation & 1:
                denying.append(row)
            if permission_type == _ALLOW and ALLOW_MASK[named] >> operation & 1:
                (ended if self._image.has_ended(row) else allowing).append(row)
        self.denying.add(denying)
        self.allowing.add(allowing)
        self.ended.add(ended)

    def _pause(self, looked: int) -> Iterator[None]:
        self._looked += looked
        if self._looked >= _STEP:
            self._looked = 0
            yield
