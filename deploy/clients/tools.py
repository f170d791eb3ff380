"""What do the recipes need of this machine, and how is it got where it is missing?"""

import os
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

_TIMEOUT_S = 900.0
_LAST_LINES = 40


class ToolMissingError(Exception):
    """One line: which tool is missing, and how to get it."""


class BuildError(Exception):
    """A tool was there and failed; its last lines are in the text."""


def tool(name: str, way_out: str, *, beside: Path | None = None) -> str:
    """The command of this name: in `beside` if it is there, else on PATH. Raises ToolMissingError."""
    own = shutil.which(name, path=str(beside)) if beside is not None else None
    found = own or shutil.which(name)
    if found is None:
        raise ToolMissingError(f"there is no `{name}`; {way_out}")
    return found


def at_least(command: Sequence[str], wanted: int, way_out: str) -> str:
    """The version that this command tells of itself. Raises ToolMissingError if its first number is below `wanted`."""
    try:
        said = subprocess.run(  # noqa: S603 - the user's own tool, no shell
            command, capture_output=True, text=True, timeout=60, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        raise ToolMissingError(f"`{command[0]}` does not run; {way_out}") from None
    version = re.search(r"(\d+)(?:\.\d+)*", said.stdout + said.stderr)
    if said.returncode != 0 or version is None or int(version[1]) < wanted:
        shown = version[0] if version is not None else "of no version"
        raise ToolMissingError(f"`{command[0]}` is {shown}; {way_out}")
    return version[0]


def run(command: Sequence[str | Path], folder: Path, environment: Mapping[str, str] | None = None) -> None:
    """Run it in the folder, silently. Raises BuildError, with the last lines that it said, if it fails."""
    try:
        done = subprocess.run(  # noqa: S603 - the tools that the recipes name, no shell
            [str(part) for part in command],
            cwd=folder,
            env={**os.environ, **(environment or {})},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            errors="replace",
            timeout=_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise BuildError(f"`{Path(command[0]).name}` did not end within {_TIMEOUT_S:.0f} s") from None
    if done.returncode != 0:
        said = "\n".join(done.stdout.splitlines()[-_LAST_LINES:])
        raise BuildError(f"`{Path(command[0]).name}` failed with {done.returncode}:\n{said}")
