"""A new operation or resource type of Kafka's touches two files: `core/kafka/codes.py` and `core/kafka/operations.py`.

Proved in a copy of `app/` in which only these two have been edited: the laws and `future_codes.py` run there.
"""

import shutil
from pathlib import Path

import pytest

from tests.copies import ROOT, copy_app, run_in

EDITS = {
    "app/core/kafka/codes.py": (
        ("    USER = 7\n", "    USER = 7\n    FUTURE_TYPE = 8\n"),
        ("    TWO_PHASE_COMMIT = 15\n", "    TWO_PHASE_COMMIT = 15\n    FUTURE_OPERATION = 16\n"),
    ),
    "app/core/kafka/operations.py": (
        (
            "_IMPLIED: dict[",
            "_SUPPORTED[ResourceType.FUTURE_TYPE] = (_Op.READ, _Op.FUTURE_OPERATION)\n\n_IMPLIED: dict[",
        ),
    ),
}

PYTEST = """
[pytest]
filterwarnings = error
asyncio_default_fixture_loop_scope = function
"""


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """The copy, with the tests that run in it."""
    copy_app(tmp_path, EDITS)
    (tmp_path / "tests").mkdir()
    here = Path(__file__).parent
    for path in (*(ROOT / "tests").glob("*.py"), ROOT / "tests" / "laws" / "test_laws.py", here / "future_codes.py"):
        if path.name != "conftest.py":
            shutil.copy(path, tmp_path / "tests")
    (tmp_path / "tests" / "conftest.py").write_text("from tests import budgets\n\nbudgets.register_profiles()\n")
    (tmp_path / "pytest.ini").write_text(PYTEST)
    return tmp_path


def run(copy: Path, name: str) -> None:
    run_in(copy, "-m", "pytest", "-q", "-p", "no:schemathesis", f"tests/{name}")


def test_new_codes_touch_two_files(copy: Path) -> None:
    run(copy, "future_codes.py")


def test_the_laws_hold_with_new_codes(copy: Path) -> None:
    run(copy, "test_laws.py")
