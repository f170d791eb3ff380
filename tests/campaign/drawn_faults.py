"""Does a test find a fault? Draws faults of the code by a seed, and runs what `make proof CHANGED=1` picks for each.

Tests of the gate draw as in `make test`, those of proof as in `make proof`, tests of laws and gate that draw included.

    python -m tests.campaign.drawn_faults --seed 1 [--list] [--equivalent NAME ...]

Each fault is put into a scratch copy of the last commit, alone. Levels are run in turn, up to the first red test, which
then has to be green without the fault. A table and the sums are printed; the exit status is 1 if a fault was not found.
`--list` shows the faults without running a test: name those that change nothing with `--equivalent`, and others are
drawn in their place.
"""

import argparse
import re
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.campaign.code_faults import CodeFault, draw_faults
from tests.campaign.scratch_copy import ScratchCopy, scratch_copy
from tests.proof.inputs import Inputs
from tests.proof.picking import NothingPickedError, find_tests, pick
from tests.proof.repository import Repository
from tests.proof.run import PROOF, TIMES, list_files
from tests.proof.times import Times

ROOT = Path(__file__).parents[2]
PACKAGES = (
    "app/core",
    "app/runtime",
    "app/store",
    "app/upstream",
    "app/rest",
    "app/console",
    "app/client",
    "app/process",
)
"""What decides, follows, writes or guards."""

_FEWEST = 5
_RED = re.compile(r"^(?:FAILED|ERROR) (?P<test>\S.*?)(?: - .*)?$", re.MULTILINE)
_ENDLESS = re.compile(r"^(?P<test>tests/\S+::\S.*?) *\n?\++ Timeout \++$", re.MULTILINE)
_GREEN_STATUS, _RED_STATUS, _INTERRUPTED_STATUS, _NO_TESTS_STATUS = 0, 1, 2, 5
_TEST_LIMIT_S = 300
"""A fault may make a test run for ever, and then the whole session ends: hypothesis would run that test again."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a fault: the level and test that found it, or why none did."""

    fault: CodeFault
    level: str
    found_by: str
    seconds: float

    @property
    def is_found(self) -> bool:
        return self.level not in {_NOT_FOUND, _UNCERTAIN}

    def row(self) -> str:
        return f"| {self.fault.name} | {self.fault.change} | {self.found_by} | {self.level} | {self.seconds:.0f} |"


_NOT_FOUND, _UNCERTAIN = "NOT FOUND", "UNCERTAIN"
_HEAD = "| fault | change | found by | level | seconds |\n|---|---|---|---|---|"


class Search:
    """Tries faults in one scratch copy, on the test files of each level."""

    def __init__(self, copy: ScratchCopy, levels: Sequence[str], minutes: float, workers: int, seed: int) -> None:
        self._copy, self._levels, self._minutes, self._seed = copy, levels, minutes, seed
        self._workers = ["-n", str(workers), "--dist", "loadfile", "--no-loadscope-reorder"] if workers > 1 else []
        self._files = Repository(copy.folder).files()
        self._inputs = Inputs(copy.folder, self._files)
        self._times = Times.load(copy.folder / TIMES)

    def picks(self, level: str, path: str) -> list[str]:
        """The test files that a level runs for a change of this file."""
        met = find_tests(self._inputs, level, list_files(self._copy.folder, self._files, level), [path])
        try:
            return list(pick(met, self._times, self._minutes).files)
        except NothingPickedError:
            return []

    def outcome(self, fault: CodeFault) -> Outcome:
        """Run the levels in turn until one is red. Raises RuntimeError if pytest itself fails."""
        begun = time.monotonic()
        for level in self._levels:
            files = self.picks(level, fault.path)
            if not files:
                continue
            with self._copy.damaged(fault):
                status, said = self._run(level, files, self._workers)
            if status in {_GREEN_STATUS, _NO_TESTS_STATUS}:
                continue
            red = _RED.search(said) or _ENDLESS.search(said)
            if status not in {_RED_STATUS, _INTERRUPTED_STATUS} or red is None:
                raise RuntimeError(f"pytest ended with status {status} on {fault.name}:\n{said[-3000:]}")
            again, said = self._run(level, [red["test"]], [])
            if again != _GREEN_STATUS:
                print(f"{red['test']}, without the fault, status {again}:\n{said[-3000:]}", file=sys.stderr, flush=True)
                words = f"{red['test']}, red without the fault as well"
                return Outcome(fault, _UNCERTAIN, words, time.monotonic() - begun)
            return Outcome(fault, level.rpartition("/")[2], red["test"], time.monotonic() - begun)
        return Outcome(fault, _NOT_FOUND, "", time.monotonic() - begun)

    def _run(self, level: str, tests: Sequence[str], workers: Sequence[str]) -> tuple[int, str]:
        options = ["-v", "-x", "-rfE", "--tb=line", "--color=no", "-p", "no:cacheprovider", "--timeout-method=thread"]
        if level == PROOF:
            # A test that draws thousands takes minutes where others have the cores.
            options += ["--hypothesis-profile", "proof", f"--timeout={3 * _TEST_LIMIT_S}"]
            options += [
                "--randomly-dont-reorganize",
                f"--randomly-seed={self._seed}",
                f"--hypothesis-seed={self._seed}",
            ]
        else:
            options += ["-p", "no:randomly", f"--timeout={_TEST_LIMIT_S}"]
        return self._copy.pytest([*options, *workers, *tests])


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="drawn_faults", description="Do the tests find faults that a seed draws?")
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--number", type=int, default=40, help=f"of faults; at least {_FEWEST} in each package")
    parser.add_argument("--packages", nargs="+", default=PACKAGES, metavar="FOLDER")
    parser.add_argument("--levels", nargs="+", default=["tests/gate", "tests/proof"], metavar="FOLDER")
    parser.add_argument("--equivalent", nargs="+", default=[], metavar="NAME", help="faults that change nothing")
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME", help="try these of the drawn faults alone")
    parser.add_argument("--minutes", type=float, default=25.0, help="of test files for each level and fault")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--list", action="store_true", help="show the faults that are drawn, and run nothing")
    return parser


def _drawn(root: Path, given: argparse.Namespace) -> list[CodeFault]:
    """Raises ValueError for what can't be drawn."""
    if given.number < _FEWEST * len(given.packages):
        raise ValueError(f"--number: {len(given.packages)} packages with at least {_FEWEST} faults each need more")
    packages = [package.rstrip("/") for package in given.packages]
    files = Repository(root).files()
    faults = draw_faults(root, files, packages, given.number, given.seed, given.equivalent)
    unknown = set(given.only) - {fault.name for fault in faults}
    if unknown:
        raise ValueError(f"--only: not drawn by this seed: {', '.join(sorted(unknown))}")
    return [fault for fault in faults if not given.only or fault.name in given.only]


def _summary(outcomes: Sequence[Outcome], levels: Sequence[str], seed: int) -> str:
    found = Counter(outcome.level for outcome in outcomes)
    parts = [f"{name} finds {found[name]}" for name in (level.rpartition("/")[2] for level in levels)]
    missed = sum(not outcome.is_found for outcome in outcomes)
    return f"seed {seed}: {len(outcomes)} faults: {', '.join(parts)}, not found or uncertain {missed}"


def main(arguments: Sequence[str] | None = None, root: Path = ROOT) -> int:
    parser = _parser()
    given = parser.parse_args(arguments)
    levels = [level.rstrip("/") for level in given.levels]
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    with (
        tempfile.TemporaryDirectory(prefix="drawn-faults-") as folder,
        scratch_copy(root, Path(folder) / "copy") as copy,
    ):
        try:
            faults = _drawn(copy.folder, given)
            search = Search(copy, levels, given.minutes, given.workers, given.seed)
            for level in levels:
                search.picks(level, faults[0].path)
        except (ValueError, NothingPickedError) as fault:
            parser.error(str(fault))
        if given.list:
            print("\n".join(f"{fault.name}\n    {fault.change}" for fault in faults))
            return 0
        print(_HEAD, flush=True)
        outcomes = []
        for each in faults:
            outcomes.append(search.outcome(each))
            print(outcomes[-1].row(), flush=True)
    print(_summary(outcomes, levels, given.seed))
    return 0 if all(outcome.is_found for outcome in outcomes) else 1


if __name__ == "__main__":
    sys.exit(main())
