"""Copies of `app/` in which a test edits some files, to see what a change touches."""

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).parents[1]

Edits = Mapping[str, Sequence[tuple[str, str]]]
"""By path: each old text, which must be there once, and the new one. `("", text)` makes a file."""


def copy_app(folder: Path, edits: Edits) -> None:
    """Copy `app/` and `migrations/` into the folder, and edit these files there."""
    for name in ("app", "migrations"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name, changes in edits.items():
        path = folder / name
        for old, new in changes:
            text = path.read_text(encoding="utf-8") if old else ""
            assert not old or text.count(old) == 1, f"{name}: {old}"
            path.write_text(text.replace(old, new) if old else new, encoding="utf-8")


def run_in(folder: Path, *command: str) -> str:
    """What a Python prints that finds the copy first. Raises AssertionError with its output if it fails."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("COVERAGE_", "PYTEST_"))}
    ended = subprocess.run(
        (sys.executable, *command),
        cwd=folder,
        env=environ | {"PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout[-5_000:] + ended.stderr[-2_000:]
    return ended.stdout
