"""`make proof`: run all tests of a folder, those that meet a change, or the part whose turn it is.

Those of tests/proof are its own, and those of laws and gate that draw: here they draw more, and anew. What is picked
and left out, and the seed that repeats the run, are printed before it.
"""

import argparse
import math
import os
import random
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from tests.proof.inputs import Inputs
from tests.proof.picking import PART_MINUTES, NothingPickedError, find_tests, parts, pick, unmet_files
from tests.proof.repository import GitError, Repository
from tests.proof.times import Times

ROOT = Path(__file__).parents[2]
TIMES = Path("tests/proof/times.json")
UNSTABLE = Path("build/unstable.txt")
PROOF = "tests/proof"
MINUTES = 25.0
_DRAWS = re.compile(r"^(from|import) (hypothesis|tests\.budgets)\b", re.MULTILINE)
_LARGEST_SEED = 2**32 - 1


def list_test_files(files: Sequence[str], folder: str) -> list[str]:
    """The test files below the folder. Raises NothingPickedError if there is none."""
    inside = [file for file in files if file.startswith(f"{folder}/") and _is_test(file)]
    if not inside:
        raise NothingPickedError(f"{folder} holds no test file")
    return inside


def list_drawn_files(root: Path, files: Sequence[str]) -> list[str]:
    """The test files of laws and gate that hypothesis or the table of budgets tells how much to draw."""
    others = [file for file in files if file.startswith(("tests/laws/", "tests/gate/")) and _is_test(file)]
    return [file for file in others if _DRAWS.search((root / file).read_text(encoding="utf-8"))]


def list_files(root: Path, files: Sequence[str], folder: str) -> list[str]:
    """All that `make proof` runs of the folder. Raises NothingPickedError if there is nothing."""
    inside = list_test_files(files, folder)
    return sorted([*inside, *list_drawn_files(root, files)]) if folder == PROOF else inside


def _is_test(file: str) -> bool:
    return file.rpartition("/")[2].startswith("test_") and file.endswith(".py")


def pick_changed(repository: Repository, root: Path, folder: str, minutes: float, wanted: str | None) -> list[str]:
    """The test files that meet what differs from the base; prints base, picks and what is left out.

    Raises GitError and NothingPickedError.
    """
    base = repository.base(wanted)
    changed, files = repository.changed(base.commit), repository.files()
    times = Times.load(root / TIMES)
    inputs, tests = Inputs(root, [*files, *changed]), list_files(root, files, folder)
    met = find_tests(inputs, folder, tests, changed)
    print(f"base: {base.commit[:12]}, {base.reason}; {len(changed)} files differ")
    others = sorted({file for file in files if file.startswith("tests/") and _is_test(file)} - {*tests})
    unmet = find_tests(inputs, folder, others, unmet_files(met))
    met_elsewhere = [file for file, found in unmet.items() if found]
    picked = pick(met, times, minutes, met_elsewhere)
    number = len(picked.files) + len(picked.left_out)
    _print_files(f"picked {len(picked.files)} of {number} test files that meet them", picked.files, times)
    if picked.left_out:
        _print_files(f"left out, for more than {minutes:g} minutes would be needed", picked.left_out, times)
    if met_elsewhere:
        print(f"met by tests of other levels alone: {', '.join(met_elsewhere)}")
    if picked.unmet:
        print(f"no test meets: {', '.join(picked.unmet)}")
    return list(picked.files)


def pick_due(repository: Repository, root: Path, folder: str) -> list[str]:
    """The part of all test files whose turn it is; prints which. Raises GitError."""
    times = Times.load(root / TIMES)
    divided = parts(list_files(root, repository.files(), folder), times, PART_MINUTES)
    number, reason = repository.turn()
    files = divided[number % len(divided)]
    _print_files(f"part {number % len(divided) + 1} of {len(divided)}, {reason}", files, times)
    return files


def _print_files(title: str, files: Sequence[str], times: Times) -> None:
    print(f"{title} (about {sum(map(times.minutes_of, files)):.1f} min):")
    for file in files:
        print(f"  {file} ({times.minutes_of(file) * 60:.0f} s)")


def _run(files: Sequence[str], given: argparse.Namespace) -> NoReturn:
    """Become pytest over the files, in their order if they are picked, else in an order that the seed draws."""
    seed = given.seed if given.seed is not None else random.SystemRandom().randrange(_LARGEST_SEED)
    print(f"SEED={seed} repeats it", flush=True)
    command = [sys.executable, "-m", "pytest", "-q", "-rsfE"]
    command += ["--hypothesis-profile", "proof", f"--randomly-seed={seed}", f"--hypothesis-seed={seed}"]
    command += ["--randomly-dont-reorganize"] if given.changed else ["-p", "tests.proof.longest_first"]
    command += ["-n", str(given.workers), "--dist", "loadfile", "--no-loadscope-reorder"]
    command += ["-p", "tests.proof.second_run", "--unstable-file", str(UNSTABLE)]
    if given.times:
        command += ["-p", "tests.proof.durations", "--record-times", str(TIMES)]
    os.chdir(ROOT)
    os.execv(sys.executable, [*command, *files])  # noqa: S606 - no shell is wanted


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="make proof", description="Run what the gate leaves to proof.")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--changed", type=_one, help="1: the test files that meet what differs from $BASE")
    which.add_argument("--due", type=_one, help="1: the part whose turn it is")
    parser.add_argument(
        "--minutes", type=_minutes, help=f"with --changed: stop picking there, {MINUTES:g} if not given"
    )
    parser.add_argument("--folder", default=PROOF, help="whose test files")
    parser.add_argument("--seed", type=_seed, help="draw as in the run that printed it")
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--times", type=_one, help=f"1: write {TIMES}, in a run of all test files")
    parser.add_argument("--list", type=_one, help="1: print what would run, and run nothing")
    return parser


def _one(text: str) -> bool:
    if text != "1":
        raise argparse.ArgumentTypeError(f"it takes 1 or is left out, and is {text!r}")
    return True


def _minutes(text: str) -> float:
    try:
        minutes = float(text)
    except ValueError:
        minutes = math.nan
    if not 0 < minutes < math.inf:
        raise argparse.ArgumentTypeError(f"it takes a number of minutes, such as 25, and is {text!r}")
    return minutes


def _seed(text: str) -> int:
    if not (text.isascii() and text.isdigit() and int(text) <= _LARGEST_SEED):
        raise argparse.ArgumentTypeError(f"it takes a whole number up to {_LARGEST_SEED}, and is {text!r}")
    return int(text)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = _parser()
    given = parser.parse_args(arguments)
    given.folder = given.folder.rstrip("/")
    if given.times and (given.changed or given.due or given.folder != PROOF):
        parser.error("--times needs a run of all test files")
    if given.minutes and not given.changed:
        parser.error("--minutes is for --changed")
    repository = Repository(ROOT)
    try:
        if given.changed:
            wanted = os.environ.get("BASE")
            files = pick_changed(repository, ROOT, given.folder, given.minutes or MINUTES, wanted)
        elif given.due:
            files = pick_due(repository, ROOT, given.folder)
        elif given.folder == PROOF:
            files = [PROOF, *list_drawn_files(ROOT, repository.files())]
        else:
            files = [given.folder]
    except (GitError, NothingPickedError) as fault:
        print(f"proof: {fault}", file=sys.stderr)
        return 2
    if given.list or not files:
        print("" if files else "no test meets what differs, and nothing that is served or delivered does", end="\n")
        return 0
    _run(files, given)


if __name__ == "__main__":
    sys.exit(main())
