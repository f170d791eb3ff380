"""Explain what became of each test case between two listings of `pytest --collect-only -q`.

    python -m tests.campaign.compare_collections BEFORE AFTER --explanations FILE

A case is kept (same name), moved (same function and parameters in another file), merged or gone. The last two are
explained in a file of lines such as

    merged: tests/a.py::test_x -> tests/b.py::test_y
    gone: tests/a.py::test_z: why it went

The left side may also name one case (`tests/a.py::test_x[1]`), a class, a file, or a folder that ends in `/`. The exit
status is 1 if a case is not explained, or an explanation is wrong. A listing may be compressed with gzip.
"""

import argparse
import gzip
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

_GZIP = b"\x1f\x8b"
_CASE = re.compile(r"\S+\.py::\S")
_MERGED = re.compile(r"merged: (?P<names>.+?) -> (?P<target>.+)")
_GONE = re.compile(r"gone: (?P<names>.+?): (?P<why>.+)")
_OPEN = "?"
"""What a draft says for a reason or a target that a person still has to give."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """A line of the file: these cases were merged into the target, or are gone for a reason."""

    names: str
    fate: str
    words: str

    def covers(self, case: str) -> bool:
        """Whether the case is the one, or in the function, class, file or folder, that the line names."""
        if not case.startswith(self.names):
            return False
        rest = case[len(self.names) :]
        return not rest or self.names.endswith("/") or rest.startswith(("::", "["))


@dataclass(slots=True)
class Comparison:
    """What became of each case of the earlier listing; `faults` are wrong explanations."""

    fates: dict[str, tuple[str, str]] = field(default_factory=dict)
    unexplained: list[str] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    added: list[str] = field(default_factory=list)

    @property
    def is_whole(self) -> bool:
        """Whether every case is explained, and every explanation holds."""
        return not self.unexplained and not self.faults


def read_listing(path: Path) -> list[str]:
    """The cases in a listing, compressed or not. Raises ValueError if it holds none, or one twice."""
    content = path.read_bytes()
    if content.startswith(_GZIP):
        content = gzip.decompress(content)
    cases = [line for line in content.decode().splitlines() if _CASE.match(line)]
    if not cases:
        raise ValueError(f"{path} lists no test; write it with: pytest --collect-only -q")
    twice = [case for case, number in Counter(cases).items() if number > 1]
    if twice:
        raise ValueError(f"{path} lists a case twice: {twice[0]}")
    return cases


def read_explanations(text: str) -> list[Explanation]:
    """The lines of the file. Raises ValueError for a line of another form."""
    explanations = []
    for number, line in enumerate(text.splitlines(), 1):
        stripped = line.strip()
        if not stripped or stripped.startswith("#"):
            continue
        if match := _MERGED.fullmatch(stripped):
            explanations.append(Explanation(match["names"], "merged", match["target"]))
        elif match := _GONE.fullmatch(stripped):
            explanations.append(Explanation(match["names"], "gone", match["why"]))
        else:
            raise ValueError(f"line {number} is neither `merged: A -> B` nor `gone: A: why`: {stripped}")
    return explanations


def compare(before: Sequence[str], after: Sequence[str], explanations: Sequence[Explanation] = ()) -> Comparison:
    """Find each case of `before` in `after`, or else its explanation."""
    comparison = Comparison()
    left = dict.fromkeys(after)
    for case in before:
        if case in left:
            comparison.fates[case] = "kept", case
            del left[case]
    missing = [case for case in before if case not in comparison.fates]
    # An explanation comes before a guess: a new test may bear the name of one that went.
    explained = _explain(missing, after, explanations, comparison)
    for case, target in _moves([case for case in missing if case not in explained], left):
        comparison.fates[case] = "moved", target
        del left[target]
    comparison.unexplained = [case for case in before if case not in comparison.fates]
    comparison.added = list(left)
    return comparison


def _explain(
    missing: Iterable[str], after: Sequence[str], explanations: Sequence[Explanation], comparison: Comparison
) -> set[str]:
    """Apply the lines, the most exact first, and note those that explain nothing or name no test."""
    there = {part for case in after for part in (case, _function(case), _file(case))}
    used: set[Explanation] = set()
    explained: set[str] = set()
    exact_first = sorted(explanations, key=lambda line: -len(line.names))
    for case in missing:
        line = next((line for line in exact_first if line.covers(case)), None)
        if line is not None:
            used.add(line)
            explained.add(case)
            comparison.fates[case] = line.fate, line.words
    for line in explanations:
        if line not in used:
            comparison.faults.append(f"explains no case that is missing: {line.fate}: {line.names}")
        elif line.words == _OPEN:
            comparison.faults.append(f"still open: {line.fate}: {line.names}")
        elif line.fate == "merged" and line.words not in there:
            comparison.faults.append(f"merged into what is not there: {line.names} -> {line.words}")
    return explained


def _moves(missing: Sequence[str], left: Iterable[str]) -> list[tuple[str, str]]:
    """Pairs of old and new case with one function and parameters: first where the file kept its name, then anywhere."""
    moves: list[tuple[str, str]] = []
    open_cases, free = list(missing), list(left)
    for same_file_name in (True, False):
        targets: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
        for case in free:
            targets[_key(case, same_file_name)].append(case)
        still_open = []
        for case in open_cases:
            candidates = targets[_key(case, same_file_name)]
            if candidates:
                moves.append((case, candidates.pop(0)))
            else:
                still_open.append(case)
        taken = {target for _, target in moves}
        open_cases, free = still_open, [case for case in free if case not in taken]
    return moves


def _file(case: str) -> str:
    return case.partition("::")[0]


def _key(case: str, with_file_name: bool) -> tuple[str, str]:  # noqa: FBT001 - the two passes of `_moves`
    file, _, in_file = case.partition("::")
    return Path(file).name if with_file_name else "", in_file


def _function(case: str) -> str:
    return case.partition("[")[0]


def draft(unexplained: Iterable[str], after: Iterable[str]) -> list[str]:
    """A line for each function that has unexplained cases: `merged` where a function of its name remains."""
    by_name: defaultdict[str, list[str]] = defaultdict(list)
    for function in dict.fromkeys(_function(case) for case in after):
        by_name[function.rpartition("::")[2]].append(function)
    lines = []
    for function in dict.fromkeys(_function(case) for case in unexplained):
        heirs = by_name[function.rpartition("::")[2]]
        lines.append(f"merged: {function} -> {heirs[0]}" if len(heirs) == 1 else f"gone: {function}: {_OPEN}")
    return lines


def _report(comparison: Comparison, before: Sequence[str]) -> str:
    numbers = Counter(fate for fate, _ in comparison.fates.values())
    parts = [f"{numbers[fate]} {fate}" for fate in ("kept", "moved", "merged", "gone")]
    lines = [*(f"NOT EXPLAINED {case}" for case in comparison.unexplained), *comparison.faults]
    summary = f"{len(before)} cases before: {', '.join(parts)}, {len(comparison.unexplained)} not explained"
    return "\n".join([*lines, f"{summary}; {len(comparison.added)} are new"])


def _all_lines(comparison: Comparison, before: Sequence[str]) -> str:
    rows = []
    for case in before:
        fate, words = comparison.fates.get(case, ("NOT EXPLAINED", ""))
        rows.append(f"{fate}\t{case}\t{'' if fate == 'kept' else words}".rstrip())
    return "\n".join([*rows, *(f"new\t{case}" for case in comparison.added), ""])


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="compare_collections", description="What became of each test case.")
    parser.add_argument("before", type=Path)
    parser.add_argument("after", type=Path)
    parser.add_argument("--explanations", type=Path, help="what was merged, and what is gone and why")
    parser.add_argument("--output", type=Path, help="write one line for each case here")
    parser.add_argument("--draft", action="store_true", help="print lines for an explanations file instead")
    given = parser.parse_args(arguments)
    try:
        before, after = read_listing(given.before), read_listing(given.after)
        text = given.explanations.read_text(encoding="utf-8") if given.explanations else ""
        explanations = read_explanations(text)
    except (OSError, ValueError) as fault:
        parser.error(str(fault))
    comparison = compare(before, after, explanations)
    if given.output is not None:
        given.output.write_text(_all_lines(comparison, before), encoding="utf-8")
    if given.draft:
        print("\n".join(draft(comparison.unexplained, after)))
    else:
        print(_report(comparison, before))
    return 0 if comparison.is_whole else 1


if __name__ == "__main__":
    sys.exit(main())
