"""Adds up what pytest said at the end of several runs: `sum_up.py FOLDER BEGAN`, the last step of .ci/run.

The folder holds NAME.txt, what a run said, and NAME.status, the status that it ended with; it began at a Unix time.
"""

import re
import sys
import time
from collections import Counter
from pathlib import Path

_LINE = re.compile(r"^(?:=+ )?(\d+ [a-z ]+(?:, \d+ [a-z ]+)*) in \d+\.\d+s\b", re.MULTILINE)
_ORDER = ("failed", "passed", "skipped", "deselected", "xfailed", "xpassed", "warnings", "errors")
_BAD = ("failed", "errors")
_SEVERAL = {"error": "errors", "warning": "warnings"}
_ONE = {several: one for one, several in _SEVERAL.items()}


def counts(said: str, status: int) -> Counter[str]:
    """What the last of pytest's closing lines says; an error if the run failed and no test of it did."""
    found: Counter[str] = Counter()
    # pytest's own lines about what a test has printed stand before its closing line.
    for closing in _LINE.findall(said)[-1:]:
        for part in closing.split(", "):
            number, _, what = part.partition(" ")
            found[_SEVERAL.get(what, what)] += int(number)
    if status and not any(found[what] for what in _BAD):
        found["errors"] += 1
    return found


def line(total: Counter[str], seconds: float) -> str:
    """Both in pytest's words."""
    known = [*_ORDER, *sorted(total.keys() - {*_ORDER})]
    parts = [f"{total[what]} {_ONE.get(what, what) if total[what] == 1 else what}" for what in known if total[what]]
    return f"{', '.join(parts) or 'no tests ran'} in {seconds:.2f}s"


def main(folder: Path, began: float) -> int:
    total: Counter[str] = Counter()
    failed = []
    for path in sorted(folder.glob("*.status"), key=lambda each: each.stat().st_mtime_ns):
        status = int(path.read_text(encoding="utf-8"))
        total += counts(path.with_suffix(".txt").read_text(encoding="utf-8", errors="replace"), status)
        if status:
            failed.append(f"{path.stem} failed with status {status}")
    print("\n".join(["", *failed, line(total, time.time() - began)]))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), float(sys.argv[2])))
