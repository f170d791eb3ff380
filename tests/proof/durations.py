"""Records how long each test file takes: `python -m pytest -p tests.proof.durations --record-times FILE`.

The file is JSON: `workers`, how many processes ran tests side by side, and `seconds` of each test file, over all of its
tests with their fixtures. tests/proof/times.json is such a file, of a run of all tests.
"""

import json
from collections import Counter
from pathlib import Path

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--record-times", type=Path, metavar="FILE", help="write the seconds of each test file here")


def pytest_configure(config: pytest.Config) -> None:
    path = config.getoption("record_times")
    # A worker of pytest-xdist hands its reports to the process that started it.
    if path is not None and not hasattr(config, "workerinput"):
        workers = config.getoption("numprocesses", None) or 1
        config.pluginmanager.register(Durations(config.invocation_params.dir / path, workers))


class Durations:
    """Adds up the reports of a run, and writes the file at its end."""

    def __init__(self, path: Path, workers: int) -> None:
        self._path, self._workers = path, workers
        self._seconds: Counter[str] = Counter()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        # What a subtest takes is in the report of its test.
        if isinstance(report, pytest.SubtestReport):
            return
        self._seconds[report.nodeid.partition("::")[0]] += report.duration  # type: ignore[assignment] # seconds

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, exitstatus: int) -> None:
        """A run that was interrupted knows the times of no file for certain, and writes none."""
        if exitstatus not in {pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED}:
            return
        seconds = {file: round(self._seconds[file], 1) for file in sorted(self._seconds)}
        content = json.dumps({"workers": self._workers, "seconds": seconds}, indent=1)
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._path.write_text(f"{content}\n", encoding="utf-8")
