"""What rows of both who can and what can say: operations after DENYs, the ACLs behind them, and when they end."""

from collections.abc import Callable, Collection, Generator, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from heapq import merge, nsmallest
from itertools import islice
from typing import TypeVar

from app.core.explain.matching import listed
from app.core.index.masks import DENY_SHIFT
from app.core.kafka.bindings import StandardAcl

T = TypeVar("T")

_RUN = 1_000

MAX_LISTED = 20
"""At most this many ACLs are listed with a row; their count is complete."""

_MAX_TEXT = 20_000
"""Of ACLs with names of many thousand characters fewer are listed."""


@dataclass(frozen=True, slots=True)
class Listed:
    """The first of some ACLs, and how many there are."""

    acls: tuple[StandardAcl, ...] = ()
    count: int = 0


def after_denies(mask: int, operations: int) -> tuple[int, int]:
    """Of a packed mask the operations that are allowed after DENYs, and those that a DENY forbids."""
    denied = mask >> DENY_SHIFT & operations
    return mask & ~denied & operations, denied


def first_listed(
    found: Sequence[T], order: Callable[[T], tuple[object, ...]], acl: Callable[[T], StandardAcl]
) -> Listed:
    return Listed(listed(map(acl, nsmallest(MAX_LISTED, found, key=order)), MAX_LISTED, _MAX_TEXT), len(found))


def first_end(operations: int, given: Iterable[tuple[int, datetime | None]]) -> datetime | None:
    """When the first of the operations is lost, from what each ALLOW gives and its end; None: none of them ends.

    An operation is lost when the last ALLOW that gives it ends.
    """
    ends: dict[datetime, int] = {}
    left = operations
    for bits, end in given:
        if end is None:
            left &= ~bits
        else:
            ends[end] = ends.get(end, 0) | bits
    first = None
    for end in sorted(ends, reverse=True):
        if ends[end] & left:
            first, left = end, left & ~ends[end]
    return first


def sorted_in_steps(texts: Collection[str]) -> Generator[None, None, list[str]]:
    """The texts in order. However many they are, no step sorts more than a thousand."""
    if len(texts) <= _RUN:
        return sorted(texts)
    left, runs = iter(texts), list[list[str]]()
    while run := sorted(islice(left, _RUN)):
        runs.append(run)
        yield
    found: list[str] = []
    merged = merge(*runs)
    while some := list(islice(merged, _RUN)):
        found += some
        yield
    return found
