"""A red test that uses a process runs once more, alone: red twice is red, and green is unstable."""

import re
from pathlib import Path

import pytest

pytest_plugins = ["pytester"]

ROOT = Path(__file__).parents[4]
_HEAD = """
import pathlib, random, subprocess
import pytest

def is_first(name):
    marker = pathlib.Path(__file__).with_name(name + ".ran")
    known = marker.exists()
    marker.touch()
    return not known

@pytest.fixture(scope="session")
def service():
    subprocess.run(["true"], check=True)
"""


_WORKERS = ["-p", "xdist.plugin", "-n", "2"]


@pytest.fixture(autouse=True)
def few_plugins(monkeypatch: pytest.MonkeyPatch) -> None:
    """To load all that are installed takes longer than these tests."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")


def _run(pytester: pytest.Pytester, body: str, *options: str) -> pytest.RunResult:
    pytester.makepyfile(test_it=_HEAD + body)
    plugin = ["-p", "tests.proof.second_run", "--unstable-file", "build/unstable.txt"]
    return pytester.runpytest_subprocess(*plugin, *options)


def _unstable(pytester: pytest.Pytester) -> list[str]:
    path = pytester.path / "build" / "unstable.txt"
    return [line.split("\t")[-1] for line in path.read_text().splitlines()] if path.exists() else []


@pytest.mark.parametrize("workers", [[], _WORKERS])
def test_red_once_is_unstable_and_fails_no_run(pytester: pytest.Pytester, workers: list[str]) -> None:
    body = """
def test_starts():
    subprocess.run(["true"], check=True)
    assert not is_first("a"), "the first reason"

def test_uses(service):
    assert not is_first("b")

@pytest.fixture
def broken(service):
    assert not is_first("c")

def test_cannot_begin(broken):
    pass

def test_green(): pass
"""
    result = _run(pytester, body, *workers)
    assert result.ret == 0
    assert sorted(_unstable(pytester)) == [f"test_it.py::test_{name}" for name in ("cannot_begin", "starts", "uses")]
    result.stdout.fnmatch_lines(["*the first reason*", "unstable: test_it.py::test_*", "*1 passed*3 unstable*"])
    assert "FAILED" not in result.stdout.str()


def test_red_twice_is_red(pytester: pytest.Pytester) -> None:
    body = "def test_uses(service): assert is_first('a') and 0, 'said by the assertion'\n"
    result = _run(pytester, body)
    assert result.ret == 1
    result.assert_outcomes(failed=1)
    assert _unstable(pytester) == []
    result.stdout.fnmatch_lines(["*red in the second run, alone, too*", "*said by the assertion*"])


def test_subtests_are_part_of_their_test(pytester: pytest.Pytester) -> None:
    body = """
def test_uses(service, subtests):
    first = is_first("a")
    for case in range(3):
        with subtests.test(case=case):
            assert not first
"""
    result = _run(pytester, body)
    assert result.ret == 0
    assert _unstable(pytester) == ["test_it.py::test_uses"]
    assert "failed" not in result.stdout.lines[-1]


def test_red_beside_unstable_is_red(pytester: pytest.Pytester) -> None:
    body = "def test_uses(service): assert not is_first('a')\ndef test_wrong(): assert 0\n"
    result = _run(pytester, body)
    assert result.ret == 1
    result.stdout.fnmatch_lines(["*1 failed*1 unstable*"])


def test_a_test_without_a_process_runs_once(pytester: pytest.Pytester) -> None:
    result = _run(pytester, "def test_wrong(): assert not is_first('a')\n")
    assert result.ret == 1
    assert _unstable(pytester) == []


def test_a_test_that_is_skipped_the_second_time_is_red(pytester: pytest.Pytester) -> None:
    body = """
def test_uses(service):
    if not is_first("a"):
        pytest.skip("the program is gone")
    assert 0
"""
    assert _run(pytester, body).ret == 1
    assert _unstable(pytester) == []


def test_the_second_run_has_the_seed_of_the_first(pytester: pytest.Pytester) -> None:
    body = """
def test_draws(service):
    drawn = str(random.random())
    path = pathlib.Path(__file__).with_name("drawn")
    if is_first("a"):
        path.write_text(drawn)
        assert 0
    assert path.read_text() == drawn
"""
    pytester.makeini("[pytest]\naddopts = -p pytest_randomly\n")
    result = _run(pytester, body)
    assert result.ret == 0
    assert _unstable(pytester) == ["test_it.py::test_draws"]
    assert re.search(r"--randomly-seed=\d+\ttest_it", (pytester.path / "build" / "unstable.txt").read_text())
