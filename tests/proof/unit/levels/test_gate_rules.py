"""What ruff refuses in tests/gate: to read a clock, and all that it refuses elsewhere."""

import json
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[4]


def _codes(folder: str, code: str) -> list[str]:
    """The rules that this code breaks as a file of the folder; ruff reads no file, only its name."""
    command = [str(Path(sys.executable).with_name("ruff")), "check", "--no-cache", "--output-format", "json"]
    result = subprocess.run(
        [*command, "--stdin-filename", f"tests/{folder}/test_it.py", "-"],
        cwd=ROOT,
        input=f'"""It."""\n\n{code}\n',
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    return [each["code"] for each in json.loads(result.stdout)]


@pytest.mark.parametrize(
    "code",
    [
        "import time\n\ntime.sleep(1)",
        "from time import monotonic\n\nmonotonic()",
        "import time as clock\n\nclock.time()",
        "from datetime import UTC, datetime\n\ndatetime.now(UTC)",
        "import datetime as dt\n\ndt.date.today()",
    ],
)
def test_a_clock_is_refused(code: str) -> None:
    assert "TID251" in _codes("gate", code)


def test_a_clock_may_be_read_elsewhere_in_tests() -> None:
    assert _codes("proof", "import time\n\ntime.sleep(1)") == []


def test_what_tests_may_do_they_may_do_in_the_gate() -> None:
    assert _codes("gate", 'def test_it() -> None:\n    assert int("4711") == 4711') == []


def test_what_is_refused_elsewhere_is_refused_in_the_gate() -> None:
    banned = [tomllib.loads((ROOT / name).read_text()) for name in ("pyproject.toml", "tests/gate/ruff.toml")]
    everywhere = banned[0]["tool"]["ruff"]["lint"]["flake8-tidy-imports"]["banned-api"]
    gate = banned[1]["lint"]["flake8-tidy-imports"]["banned-api"]
    assert everywhere.items() <= gate.items()
