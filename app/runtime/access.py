"""whoCan and whatCan in pages: worked out in short steps, each page at one offset."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from app.core.access import what, who
from app.core.access.what import Holding, WhatCan, WhatQuestion
from app.core.access.who import Holder, WhoCan, WhoQuestion
from app.core.image import AuthorizerImage
from app.core.kafka.errors import OffsetNotAvailableException
from app.runtime.cursors import Code, Cursors
from app.runtime.listing import check_limit
from app.runtime.pace import Pace
from app.runtime.ports import Images

_ACL = tuple[Code, str, Code, str, str, Code, Code]

WHO_CURSORS: Cursors[who.Place] = Cursors(tuple[str, str | None])
WHAT_CURSORS: Cursors[what.Place] = Cursors(tuple[Code, str, Code, str | tuple[str, _ACL]])

_ATTEMPTS = 5

P = TypeVar("P")
R = TypeVar("R")


class Search(Protocol[R, P]):
    """What `WhoCan` and `WhatCan` have in common."""

    rows: list[R]
    done: P | None

    @property
    def allowed_by_default(self) -> bool: ...

    def steps(self) -> Iterator[None]: ...

    def place_of(self, row: R, /) -> P: ...


@dataclass(frozen=True, slots=True)
class AccessPage(Generic[R]):
    """Rows of one image. A page may be shorter than was asked for although there are more."""

    rows: list[R]
    next_cursor: str | None
    image: AuthorizerImage
    allowed_by_default: bool
    """Whether allow.everyone.if.no.acl.found applies: to the resource (whoCan), wherever no ACL is (whatCan)."""


Permission = Callable[[], None]
"""Checks the asker's rights against the image in use. Raises ApiException."""


async def who_can(
    images: Images, permission: Permission, question: WhoQuestion, limit: int, cursor: str | None
) -> AccessPage[Holder]:
    permission()
    check_limit(limit)
    after = None if cursor is None else WHO_CURSORS.decode(cursor)
    return await _page(images, permission, lambda image: WhoCan(image, question, after), WHO_CURSORS, limit)


async def what_can(
    images: Images, permission: Permission, question: WhatQuestion, limit: int, cursor: str | None
) -> AccessPage[Holding]:
    permission()
    check_limit(limit)
    after = None if cursor is None else WHAT_CURSORS.decode(cursor)
    return await _page(images, permission, lambda image: WhatCan(image, question, after), WHAT_CURSORS, limit)


async def _page(
    images: Images,
    permission: Permission,
    begin: Callable[[AuthorizerImage], Search[R, P]],
    cursors: Cursors[P],
    limit: int,
) -> AccessPage[R]:
    for _ in range(_ATTEMPTS):
        permission()
        image = images.image
        search = begin(image)
        before, is_whole = search.done, await _run(images, image, search, limit)
        rows, last = search.rows[:limit], search.done
        if len(search.rows) > limit:
            last = search.place_of(rows[-1])
        elif is_whole:
            return AccessPage(rows, None, image, search.allowed_by_default)
        # A page may be cut short by a change of the image, but never leads back to where it began.
        if last is not None and last != before:
            return AccessPage(rows, cursors.encode(last), image, search.allowed_by_default)
    raise OffsetNotAvailableException(
        "the ACLs change too often to search one state of them; try again, or ask about less"
    )


async def _run(images: Images, image: AuthorizerImage, search: Search[R, P], limit: int) -> bool:
    """Whether the search is complete."""
    pace = Pace()
    for _ in search.steps():
        if len(search.rows) > limit:
            return False
        await pace.breathe()
        # INVARIANT: an index that has changed, or is no longer in use, is never read again.
        if images.image is not image:
            return False
    return True
