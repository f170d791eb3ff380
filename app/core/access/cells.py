"""Answers to single questions, gathered into the widest regions that they hold in (`core.access.diff`)."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from app.core.access.regions import Region, coalesced
from app.core.kafka.codes import AclOperation

ASKED_OPERATIONS = tuple(each for each in AclOperation if each > AclOperation.ALL)
Answers = tuple[tuple[str, int, int], ...]
"""By the keys of hosts: the operations that are gained, and those that are lost, as bits; empty if there are none."""

_Changes = tuple[tuple[Region, bool], ...]
"""For one operation, regions of clients and whether they gain it."""


@dataclass(frozen=True, slots=True)
class Cell:
    """A change of access of one principal: operations, as bits, that it gains or loses on names, from clients."""

    gained: bool
    names: Region
    hosts: Region
    operations: int


def cells_of(answers: Mapping[str, Answers]) -> list[Cell]:
    """The widest regions for each operation; operations with equal regions share a cell."""
    known: dict[tuple[Answers, int], _Changes] = {}
    cells: defaultdict[tuple[bool, Region, Region], int] = defaultdict(int)
    moved = {bits for each in answers.values() for _, *both in each for bits in both}
    for operation in ASKED_OPERATIONS:
        if not any(bits >> operation & 1 for bits in moved):
            continue
        changes: dict[str, _Changes] = {}
        for names, each in answers.items():
            if (each, operation) not in known:
                known[each, operation] = _of_operation(each, operation)
            changes[names] = known[each, operation]
        for region, some in coalesced(changes):
            for hosts, gained in some:
                cells[gained, region, hosts] |= 1 << operation
    return [Cell(gained, names, hosts, bits) for (gained, names, hosts), bits in cells.items()]


def _of_operation(answers: Answers, operation: int) -> _Changes:
    ways = {key: (gained >> operation & 1) - (lost >> operation & 1) for key, gained, lost in answers}
    return tuple((hosts, way > 0) for hosts, way in coalesced(ways) if way) if ways else ()
