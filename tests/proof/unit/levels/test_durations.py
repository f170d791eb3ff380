"""What a run records of the time that its files take."""

import json
from pathlib import Path

import pytest

pytest_plugins = ["pytester"]

ROOT = Path(__file__).parents[4]


@pytest.fixture(autouse=True)
def files(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    slow = "import time, pytest\n@pytest.fixture\ndef slow(): time.sleep(0.2)\n"
    pytester.makepyfile(
        test_a=f"{slow}def test_one(slow): pass\ndef test_two(): time.sleep(0.2); assert 0\n",
        test_b="import time\ndef test_three(subtests):\n    with subtests.test(): time.sleep(0.3)\n",
    )


@pytest.mark.parametrize("workers", [1, 2])
def test_all_phases_of_all_workers_are_added_up(pytester: pytest.Pytester, workers: int) -> None:
    several = ["-p", "xdist.plugin", "-n", "2"] if workers > 1 else []
    pytester.runpytest_subprocess("-p", "tests.proof.durations", "--record-times", "x/times.json", *several)
    times = json.loads((pytester.path / "x" / "times.json").read_text())
    assert times["workers"] == workers
    assert set(times["seconds"]) == {"test_a.py", "test_b.py"}
    assert times["seconds"]["test_a.py"] >= 0.4
    assert times["seconds"]["test_b.py"] >= 0.3


def test_a_run_that_was_interrupted_records_nothing(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_c="def test_ends(): raise KeyboardInterrupt\n")
    pytester.runpytest_subprocess("-p", "tests.proof.durations", "--record-times", "times.json")
    assert not (pytester.path / "times.json").exists()
