"""A test fails if a process says a planted secret in it, or has said it before."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
CONFTEST = "from tests.conftest import pytest_runtest_teardown"
TEST = """
import pytest
from tests.planted import hear, plant, plant_password

@pytest.fixture(scope="session")
def process():
    yield
    hear("%(at_the_end)s")

def test_one(process):
    hear('{"event": "said before", "field": "%(before)s"}\\nanother line\\n')

def test_two():
    plant_password("postgresql://klamm:canary%%40coal-mine@db/klamm")
    plant("a-token-in-the-coal-mine")

def test_three():
    hear("%(then)s")

def test_four():
    pass
"""


def run(folder: Path, *options: str, before: str = "", then: str = "", at_the_end: str = "") -> str:
    """The lines of a run of its own that tell what failed."""
    (folder / "conftest.py").write_text(CONFTEST, encoding="utf-8")
    (folder / "test_it.py").write_text(TEST % {"before": before, "then": then, "at_the_end": at_the_end})
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:randomly"]
    done = subprocess.run(
        [*command, *options, "--rootdir", folder, "-c", "/dev/null", folder],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert "coal-mine" not in done.stdout
    assert (done.returncode == pytest.ExitCode.OK) is ("4 passed in" in done.stdout)
    return done.stdout


@pytest.mark.parametrize("said", ["canary@coal-mine", "canary%40coal-mine", "x a-token-in-the-coal-mine y"])
def test_the_test_in_which_a_secret_is_said_fails(tmp_path: Path, said: str) -> None:
    told = run(tmp_path, then=said)
    assert "4 passed, 1 error" in told
    assert "ERROR at teardown of test_three" in told
    assert "a secret planted in test_it.py::test_two was said in test_it.py::test_three: " in told


@pytest.mark.parametrize("options", [(), ("-n", "1")])
def test_the_last_test_fails_if_one_was_said_before_it_was_planted_or_at_the_end(
    tmp_path: Path, options: tuple[str, ...]
) -> None:
    told = run(tmp_path, *options, before="canary@coal-mine", at_the_end="a-token-in-the-coal-mine")
    assert "4 passed, 1 error" in told
    assert "ERROR at teardown of test_four" in told
    assert "test_two was said in test_it.py::test_one" in told
    assert "test_two was said in test_it.py::test_four" in told


def test_a_run_in_which_none_is_said_passes(tmp_path: Path) -> None:
    assert "4 passed in" in run(tmp_path, before="canary", then="coal mine", at_the_end="token")
