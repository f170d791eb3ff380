"""Which test files meet a change, in what order, and which of them fit into a time; and the parts that take turns."""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import PurePosixPath

from tests.proof.inputs import Inputs
from tests.proof.times import Times

MUST_PICK = ("app/", "plugin/", "deploy/")
"""A change of these that no test of any level meets is an error."""

PART_MINUTES = 15.0

_AREAS = (
    ("plugin/*", "kafka/*"),
    ("deploy/*", "deploy/*"),
    ("deploy/clients/*", "clients/*"),
    ("docs/*", "docs/*"),
    *((f"app/console/*.{kind}", "*console*") for kind in ("css", "js", "j2")),
    *((f"app/pipeline/report/*.{kind}", "*report*browser*") for kind in ("css", "js", "j2")),
    *((f"app/rest/pages/*.{kind}", "*rest/test_pages.py") for kind in ("css", "j2")),
    ("app/look.css", "*browser*"),
)
"""Changed files, and the tests below the folder that look at what is made of them, where no Python file says so."""

_OF_AREA = 2
"""How far a file is from the tests of its area."""


class NothingPickedError(Exception):
    """Served or delivered files differ, and no test meets them."""


@dataclass(frozen=True, slots=True)
class Picked:
    """Test files that run, most specific first, and those that meet the change but do not fit into the time.

    `unmet` are changed files that are served or delivered, and that no test meets.
    """

    files: Sequence[str]
    left_out: Sequence[str]
    unmet: Sequence[str]


def find_tests(inputs: Inputs, folder: str, tests: Iterable[str], changed: Iterable[str]) -> dict[str, list[str]]:
    """For each changed file the tests of the folder that meet it, the most specific first.

    Specific is what is near to the file, then what bears its name, then what has few inputs.
    """
    met: dict[str, list[tuple[int, bool, int, str]]] = {file: [] for file in changed}
    areas = {file: [f"{folder}/{tests}" for files, tests in _AREAS if fnmatchcase(file, files)] for file in met}
    for test in tests:
        distances = inputs.distances(test)
        for file, tests_of_file in met.items():
            is_of_area = any(fnmatchcase(test, tests) for tests in areas[file])
            distance = min(distances.get(file, math.inf), _OF_AREA if is_of_area else math.inf)
            if distance < math.inf:
                tests_of_file.append((int(distance), not _bears_name(test, file), len(distances), test))
    return {file: [test for *_, test in sorted(tests_of_file)] for file, tests_of_file in met.items()}


def rank(met: Mapping[str, Sequence[str]]) -> list[str]:
    """All tests that meet a changed file: first the most specific one of each file, then the second one of each."""
    best: dict[str, int] = {}
    for tests_of_file in met.values():
        for place, test in enumerate(tests_of_file):
            best[test] = min(place, best.get(test, place))
    return sorted(best, key=lambda test: (best[test], test))


def _bears_name(test: str, file: str) -> bool:
    return PurePosixPath(test).stem == f"test_{PurePosixPath(file).name.partition('.')[0]}"


def unmet_files(met: Mapping[str, Sequence[str]]) -> list[str]:
    """The changed files that are served or delivered, and that none of these tests meets."""
    return [file for file, tests in met.items() if not tests and file.startswith(MUST_PICK)]


def pick(met: Mapping[str, Sequence[str]], times: Times, minutes: float, met_elsewhere: Collection[str] = ()) -> Picked:
    """As many as fit, in their order; the first one always. Tests of another level meet the files `met_elsewhere`.

    Raises NothingPickedError.
    """
    ranked = rank(met)
    unmet = [file for file in unmet_files(met) if file not in met_elsewhere]
    if unmet and not ranked:
        raise NothingPickedError(f"no test meets what differs: {', '.join(unmet[:10])}")
    files: list[str] = []
    left_out: list[str] = []
    taken = 0.0
    for test in ranked:
        if files and taken + times.minutes_of(test) > minutes:
            left_out.append(test)
        else:
            files.append(test)
            taken += times.minutes_of(test)
    return Picked(files, left_out, unmet)


def parts(tests: Iterable[str], times: Times, minutes: float = PART_MINUTES) -> list[list[str]]:
    """All tests in parts of about this time: the longest first, each to the part that is shortest so far."""
    longest_first = sorted(tests, key=lambda test: (-times.minutes_of(test), test))
    number = max(1, math.ceil(sum(map(times.minutes_of, longest_first)) / minutes))
    divided: list[list[str]] = [[] for _ in range(number)]
    lengths = [0.0] * number
    for test in longest_first:
        shortest = lengths.index(min(lengths))
        divided[shortest].append(test)
        lengths[shortest] += times.minutes_of(test)
    return [sorted(part) for part in divided]
