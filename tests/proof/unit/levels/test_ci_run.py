"""`.ci/run`: all levels run whatever became of those before, and its last line adds up what they said."""

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[4]
MAKE = """#!/bin/bash
echo "$*" >>"{folder}/asked"
case "$*" in
{cases}
esac
"""
GREEN = {
    "check": "echo '120 passed in 14.02s'",
    "test": "echo '....'; echo '=== 5000 passed, 2 skipped, 40 subtests passed in 250.11s (0:04:10) ==='; echo bye",
    "proof CHANGED=1 MINUTES=12": "echo '1 passed in 1.00s'; echo '300 passed, 1 skipped in 800.00s (0:13:20)'",
    "proof DUE=1": "echo '700 passed, 1 warning in 800.00s (0:13:20)'",
}


def _run(folder: Path, **changed: str) -> tuple[int, list[str], list[str]]:
    """The status, the lines that were printed, and what make was asked for."""
    steps = {**GREEN, **dict(zip(GREEN, changed.values(), strict=False))}
    cases = "\n".join(f"'{level}') {words};;" for level, words in steps.items())
    for name, text in {"make": MAKE.format(folder=folder, cases=cases), "chromium": "", "pgbouncer": ""}.items():
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    done = subprocess.run(
        [ROOT / ".ci" / "run"],
        env={"PATH": f"{folder}:/usr/bin:/bin"},
        stdout=subprocess.PIPE,
        text=True,
        check=False,
        timeout=60,
    )
    return done.returncode, done.stdout.splitlines(), (folder / "asked").read_text().splitlines()


def _closing(line: str) -> str:
    assert re.fullmatch(r".* in \d+\.\d\ds", line)
    return line.rpartition(" in ")[0]


def test_what_all_levels_said_is_added_up(tmp_path: Path) -> None:
    status, lines, asked = _run(tmp_path)
    assert status == 0
    assert _closing(lines[-1]) == "6120 passed, 3 skipped, 1 warning, 40 subtests passed"
    assert asked == ["setup", *GREEN]


@pytest.mark.parametrize(
    ("level", "words", "closing"),
    [
        (
            "test",
            "echo '1 failed, 1 error, 4998 passed, 2 skipped in 250.11s (0:04:10)'; exit 1",
            "1 failed, 6118 passed, 3 skipped, 1 warning, 1 error",
        ),
        # What failed is no test: the formatter, or types, or a program that died.
        ("check", "exit 2", "6000 passed, 3 skipped, 1 warning, 1 error, 40 subtests passed"),
        (
            "check",
            "echo '120 passed in 14.02s'; exit 2",
            "6120 passed, 3 skipped, 1 warning, 1 error, 40 subtests passed",
        ),
        ("due", "echo '700 passed, 1 unstable in 800.00s'", "6120 passed, 3 skipped, 40 subtests passed, 1 unstable"),
        ("changed", "echo 'no test meets what differs'", "5820 passed, 2 skipped, 1 warning, 40 subtests passed"),
    ],
)
def test_each_level_runs_and_any_that_fails_is_told(tmp_path: Path, level: str, words: str, closing: str) -> None:
    levels = dict(zip(("check", "test", "changed", "due"), GREEN.values(), strict=True))
    status, lines, asked = _run(tmp_path, **{**levels, level: words})
    assert _closing(lines[-1]) == closing
    assert status == int("exit" in words)
    assert any(line.startswith(f"{level} failed with status ") for line in lines) is ("exit" in words)
    assert asked == ["setup", *GREEN]
