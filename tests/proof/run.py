"""`make proof`: run all tests of a folder, those that meet a change, or the part whose turn it is.

What is picked and left out, and the seed that repeats the run, are printed before it.
"""

import argparse
import os
import random
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from tests.proof.inputs import Inputs
from tests.proof.picking import PART_MINUTES, NothingPickedError, find_tests, parts, pick
from tests.proof.repository import GitError, Repository
from tests.proof.times import Times

ROOT = Path(__file__).parents[2]
TIMES = Path("tests/proof/times.json")
UNSTABLE = Path("build/unstable.txt")
_LARGEST_SEED = 2**32 - 1


def list_test_files(files: Sequence[str], folder: str) -> list[str]:
    """The test files below the folder. Raises NothingPickedError if there is none."""
    inside = [file for file in files if file.startswith(f"{folder}/") and _is_test(file)]
    if not inside:
        raise NothingPickedError(f"{folder} holds no test file")
    return inside


def _is_test(file: str) -> bool:
    return file.rpartition("/")[2].startswith("test_") and file.endswith(".py")


def pick_changed(repository: Repository, root: Path, folder: str, minutes: float, wanted: str | None) -> list[str]:
    """The test files that meet what differs from the base; prints base, picks and what is left out.

    Raises GitError and NothingPickedError.
    """
    base = repository.base(wanted)
    changed, files = repository.changed(base.commit), repository.files()
    times = Times.load(root / TIMES)
    met = find_tests(Inputs(root, [*files, *changed]), folder, list_test_files(files, folder), changed)
    print(f"base: {base.commit[:12]}, {base.reason}; {len(changed)} files differ")
    picked = pick(met, times, minutes)
    number = len(picked.files) + len(picked.left_out)
    _print_files(f"picked {len(picked.files)} of {number} test files that meet them", picked.files, times)
    if picked.left_out:
        _print_files(f"left out, for more than {minutes:g} minutes would be needed", picked.left_out, times)
    if picked.unmet:
        print(f"no test of {folder} meets: {', '.join(picked.unmet)}")
    return list(picked.files)


def pick_due(repository: Repository, root: Path, folder: str) -> list[str]:
    """The part of all test files whose turn it is; prints which. Raises GitError."""
    times = Times.load(root / TIMES)
    divided = parts(list_test_files(repository.files(), folder), times, PART_MINUTES)
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
    command += [f"--randomly-seed={seed}", f"--hypothesis-seed={seed}"]
    command += ["--randomly-dont-reorganize"] if given.changed else []
    command += ["-n", str(given.workers), "--dist", "loadfile", "--no-loadscope-reorder"]
    command += ["-p", "tests.proof.second_run", "--unstable-file", str(UNSTABLE)]
    if given.record_times:
        command += ["-p", "tests.proof.durations", "--record-times", str(TIMES)]
    os.chdir(ROOT)
    os.execv(sys.executable, [*command, *files])  # noqa: S606 - no shell is wanted


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="make proof", description="Run what the gate leaves to proof.")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--changed", action="store_true", help="the test files that meet what differs from $BASE")
    which.add_argument("--due", action="store_true", help="the part whose turn it is")
    parser.add_argument("--minutes", type=float, default=25.0, help="with --changed: stop picking there")
    parser.add_argument("--folder", default="tests/proof", help="whose test files")
    parser.add_argument("--seed", type=int, help="draw as in the run that printed it")
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--record-times", action="store_true", help=f"write {TIMES}, in a run of all test files")
    parser.add_argument("--list", action="store_true", help="print what would run, and run nothing")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    parser = _parser()
    given = parser.parse_args(arguments)
    given.folder = given.folder.rstrip("/")
    if given.record_times and (given.changed or given.due):
        parser.error("--record-times needs a run of all test files")
    repository = Repository(ROOT)
    try:
        if given.changed:
            wanted = os.environ.get("BASE")
            files = pick_changed(repository, ROOT, given.folder, given.minutes, wanted)
        elif given.due:
            files = pick_due(repository, ROOT, given.folder)
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
