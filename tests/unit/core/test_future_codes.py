"""A new operation or resource type of Kafka's touches two files: `core/kafka/codes.py` and `core/kafka/operations.py`.

Proved in a copy of `app/` in which only these two have been edited: the laws and `future_codes.py` run there.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]

EDITS = {
    "codes.py": (
        ("    USER = 7\n", "    USER = 7\n    FUTURE_TYPE = 8\n"),
        ("    TWO_PHASE_COMMIT = 15\n", "    TWO_PHASE_COMMIT = 15\n    FUTURE_OPERATION = 16\n"),
    ),
    "operations.py": (
        (
            "_IMPLIED: dict[",
            "_SUPPORTED[ResourceType.FUTURE_TYPE] = (_Op.READ, _Op.FUTURE_OPERATION)\n\n_IMPLIED: dict[",
        ),
    ),
}

PYTEST = """
[pytest]
filterwarnings = error
markers = slow
asyncio_default_fixture_loop_scope = function
"""


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """The copy, with the tests that run in it."""
    shutil.copytree(ROOT / "app", tmp_path / "app", ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "tests").mkdir()
    here = Path(__file__).parent
    for path in (*(ROOT / "tests").glob("*.py"), here / "test_laws.py", here / "future_codes.py"):
        if path.name != "conftest.py":
            shutil.copy(path, tmp_path / "tests")
    for name, edits in EDITS.items():
        path = tmp_path / "app" / "core" / "kafka" / name
        text = path.read_text()
        for old, new in edits:
            assert text.count(old) == 1
            text = text.replace(old, new)
        path.write_text(text)
    (tmp_path / "pytest.ini").write_text(PYTEST)
    return tmp_path


def run(copy: Path, name: str) -> None:
    """Raise AssertionError with what pytest says if one of the tests in this file fails in the copy."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("COVERAGE_", "PYTEST_"))}
    ended = subprocess.run(
        (sys.executable, "-m", "pytest", "-q", "-p", "no:schemathesis", "-m", "not slow", f"tests/{name}"),
        cwd=copy,
        env=environ | {"PYTHONPATH": str(copy)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout[-5_000:] + ended.stderr[-1_000:]


def test_new_codes_touch_two_files(copy: Path) -> None:
    run(copy, "future_codes.py")


@pytest.mark.slow
def test_the_laws_hold_with_new_codes(copy: Path) -> None:
    run(copy, "test_laws.py")
