"""What is wrong with a value by its shape: each mistake once, with its line and its place."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import takewhile
from typing import TypeAlias

from app.formats.acl_entries import MAX_SHOWN, Entry, FieldPlace, Problem
from app.formats.reading import Reading
from app.formats.yaml_documents import Scalar, Value, line_of

_MAX_FAULTS = 100
"""Of one value; with as many it is read no further."""
Fault: TypeAlias = tuple[int, Problem]


class Refused(Exception):
    """A value has not the shape. `faults` are all that is wrong with it, each with its line."""

    def __init__(self, faults: Sequence[Fault]) -> None:
        super().__init__(f"{len(faults)} faults")
        self.faults = faults

    def entries(self) -> Iterator[Entry]:
        return ((line, [problem]) for line, problem in self.faults)


def shown_place(place: FieldPlace) -> str:
    return ".".join(place)[:MAX_SHOWN]


class ShapeCheck:
    """The faults of one value, as they are found."""

    def __init__(self, reading: Reading, place: FieldPlace, places: Mapping[str, Sequence[FieldPlace]]) -> None:
        self.reading = reading
        self.faults: list[Fault] = []
        self._outside = place
        self._places = places
        self._misplaced: list[tuple[str, Sequence[FieldPlace]]] = []
        self._missing: list[Fault] = []

    def fail(self, value: Value, place: FieldPlace, text: str) -> None:
        self.faults.append((line_of(value), Problem(text, place)))
        if len(self.faults) >= _MAX_FAULTS:
            raise self.refused()

    def miss(self, value: Value, place: FieldPlace) -> None:
        self.fail(value, place, "the field is missing")
        self._missing.append(self.faults[-1])

    def misplace(self, key: Scalar, place: FieldPlace) -> bool:
        """Whether other blocks have a field of this name."""
        blocks = [(*self._outside, *each) for each in self._places.get(place[-1], ())]
        blocks = [each for each in blocks if each != place[:-1]]
        if not blocks:
            return False
        self._misplaced.append((place[-1], blocks))
        ways = [_way(each, place[:-1]) for each in blocks]
        near = [each for each, way in zip(blocks, ways, strict=True) if way == min(ways)]
        belongs = " or ".join(f"`{shown_place(each)}`" if each else "the outermost level" for each in near[:2])
        self.fail(key, place, f"there is no such field here; it belongs to {belongs}")
        return True

    def refused(self) -> Refused:
        """One fault for one mistake: what is misplaced is not missing as well, nor is the block around its place."""
        missing = list(self._missing)
        for name, blocks in self._misplaced:
            places = {(*block, name) for block in blocks} | {
                block[:end] for block in blocks for end in range(len(block) + 1)
            }
            missing = _without_first(missing, places)
        gone = {id(each) for each in self._missing} - {id(each) for each in missing}
        return Refused([each for each in self.faults if id(each) not in gone])


def _way(block: FieldPlace, other: FieldPlace) -> int:
    """How many levels lie between two blocks."""
    same = sum(1 for _ in takewhile(lambda names: names[0] == names[1], zip(block, other, strict=False)))
    return len(block) + len(other) - 2 * same


def _without_first(missing: list[Fault], places: set[FieldPlace]) -> list[Fault]:
    at = next((at for at, (_, problem) in enumerate(missing) if problem.place in places), len(missing))
    return missing[:at] + missing[at + 1 :]
