"""The mechanism that fails a run in which a process has said a planted secret."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.planted import PlantedSecrets

ROOT = Path(__file__).parents[3]
CONFTEST = """
from tests.planted import gather, judge as pytest_sessionfinish

def pytest_testnodedown(node):
    gather(node)
"""
TEST = """
from tests.planted import hear, plant, plant_password

def test_one():
    hear('{"event": "said before", "field": "%s"}\\nanother line\\n')

def test_two():
    plant_password("postgresql://klamm:canary%%40coal-mine@db/klamm")
    plant("a-token-in-the-coal-mine")
"""


def run(folder: Path, said: str, *options: str) -> subprocess.CompletedProcess[str]:
    """A run of its own, in which a process says this."""
    (folder / "conftest.py").write_text(CONFTEST, encoding="utf-8")
    (folder / "test_it.py").write_text(TEST % said, encoding="utf-8")
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:randomly",
        "--rootdir",
        str(folder),
    ]
    return subprocess.run(
        [*command, *options, "-c", "/dev/null", folder],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


@pytest.mark.slow
@pytest.mark.parametrize("said", ["canary@coal-mine", "canary%40coal-mine", "x a-token-in-the-coal-mine y"])
def test_a_run_in_which_a_secret_is_said_fails_though_its_tests_pass(tmp_path: Path, said: str) -> None:
    done = run(tmp_path, said)
    assert done.returncode == pytest.ExitCode.TESTS_FAILED, done.stdout
    assert "2 passed" in done.stdout
    assert "planted secrets were found" in done.stdout
    assert "test_it.py::test_two was said in" in done.stdout
    assert "test_it.py::test_one" in done.stdout
    assert "coal-mine" not in done.stdout


@pytest.mark.slow
def test_what_workers_have_heard_is_judged_together(tmp_path: Path) -> None:
    done = run(tmp_path, "canary@coal-mine", "-n", "2")
    assert done.returncode == pytest.ExitCode.TESTS_FAILED, done.stdout
    assert "2 passed" in done.stdout
    assert "test_it.py::test_two was said in" in done.stdout


@pytest.mark.slow
def test_a_run_in_which_none_is_said_passes(tmp_path: Path) -> None:
    done = run(tmp_path, "canary")
    assert (done.returncode, "planted" in done.stdout) == (0, False), done.stdout


@pytest.fixture
def planted() -> Iterator[PlantedSecrets]:
    """A run's secrets, with one of them."""
    with closing(PlantedSecrets()) as planted:
        planted.plant("a-token-in-the-coal-mine")
        yield planted


def test_a_word_is_no_secret(planted: PlantedSecrets) -> None:
    with pytest.raises(ValueError, match="8 characters"):
        planted.plant("klamm")


def test_what_is_said_after_a_look_is_seen_by_the_next(planted: PlantedSecrets) -> None:
    planted.hear("nothing\n")
    assert list(planted.leaks()) == []
    planted.hear("a-token-in-the-coal-mine\n")
    assert len(list(planted.leaks())) == 1


def test_no_jwt_needs_to_be_planted(planted: PlantedSecrets) -> None:
    planted.hear('{"why": "eyJhbGciOiJub25lIn0.eyJzdWIiOiJhIn0.c2ln is refused"}\nkeyJar.eyJ and eyJ.a.b')
    [leak] = planted.leaks()
    assert "a JWT was said in" in leak
    assert "eyJhbGci" not in leak


def test_odd_output_is_kept_too(planted: PlantedSecrets) -> None:
    planted.hear("\udcff a-token-in-the-coal-mine\r\x85 and more\u2028")
    assert len(list(planted.leaks())) == 1
