"""What the rows of both whoCan and whatCan say: operations after DENYs, the ACLs behind them, and when they end."""

from collections.abc import Callable, Collection, Generator, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from heapq import merge
from itertools import islice
from typing import Generic, TypeVar

from app.core.explain.matching import listed
from app.core.index.masks import DENY_SHIFT
from app.core.index.table import SortKey
from app.core.kafka.bindings import StandardAcl

T = TypeVar("T")

_RUN = 1_000

MAX_LISTED = 20
"""At most this many ACLs are in one list of a row; their count is complete."""

_MAX_TEXT = 20_000
"""Fewer are listed if their names have many thousand characters."""


@dataclass(frozen=True, slots=True)
class Listed:
    """The first of some ACLs, and how many there are."""

    acls: tuple[StandardAcl, ...] = ()
    count: int = 0


class First(Generic[T]):
    """The first of many in an order, and their number; adding one costs little however many there are."""

    def __init__(self, order: Callable[[T], tuple[object, ...]]) -> None:
        self.count = 0
        self._order = order
        self._kept: list[T] = []

    def add(self, one: T) -> None:
        self.count += 1
        self._kept.append(one)
        if len(self._kept) > 2 * MAX_LISTED:
            self._kept = self._first()

    def listed(self, acl: Callable[[T], StandardAcl]) -> Listed:
        if not self._kept:
            return Listed()
        return Listed(first_listed(map(acl, self._first())), self.count)

    def _first(self) -> list[T]:
        return sorted(self._kept, key=self._order)[:MAX_LISTED]


def first_listed(acls: Iterable[StandardAcl]) -> tuple[StandardAcl, ...]:
    """As many as one list of a row may hold, and at least one if there is any."""
    return listed(acls, MAX_LISTED, _MAX_TEXT)


def after_denies(mask: int, operations: int) -> tuple[int, int]:
    """The operations of a packed mask that are allowed after DENYs, and those that a DENY forbids."""
    denied = mask >> DENY_SHIFT & operations
    return mask & ~denied & operations, denied


class Ends:
    """When what ALLOWs give ends: each operation ends with the last ALLOW that gives it."""

    def __init__(self) -> None:
        self._for_ever = 0
        self._until: dict[int, int] = {}

    def add(self, operations: int, ends_at: int | None) -> None:
        """`ends_at` is in seconds since 1970."""
        if ends_at is None:
            self._for_ever |= operations
        else:
            self._until[ends_at] = self._until.get(ends_at, 0) | operations

    def first(self, operations: int) -> datetime | None:
        """When the first of these is lost; None: never."""
        left, first = operations & ~self._for_ever, None
        for ends_at in sorted(self._until, reverse=True):
            if self._until[ends_at] & left:
                first, left = ends_at, left & ~self._until[ends_at]
        return None if first is None else datetime.fromtimestamp(first, UTC)


def sorted_in_steps(items: Collection[T], key: Callable[[T], SortKey | str]) -> Generator[None, None, list[T]]:
    """The items in order. However many they are, no step sorts more than a thousand."""
    if len(items) <= _RUN:
        return sorted(items, key=key)
    left, runs = iter(items), list[list[T]]()
    while run := sorted(islice(left, _RUN), key=key):
        runs.append(run)
        yield
    found: list[T] = []
    merged = merge(*runs, key=key)
    while some := list(islice(merged, _RUN)):
        found += some
        yield
    return found
