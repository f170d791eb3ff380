"""Runs a red test that uses a process once more: `python -m pytest -p tests.proof.second_run --unstable-file FILE`.

It runs alone, with the seed of the run, after all others. Red twice is red. If it is green, it is reported as
`unstable` and added to the file, and does not fail the run: whoever sees a name there twice repairs that test first.
"""

import re
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.proof.process_use import ProcessUse, uses_process

_PASSED = re.compile(r"^(=+ )?1 passed\b", re.MULTILINE)
_SEEDS = ("--hypothesis-profile", "--randomly-seed", "--hypothesis-seed")
_KEPT_LINES = 60


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--unstable-file", type=Path, metavar="FILE", help="run red tests of processes once more")


def pytest_configure(config: pytest.Config) -> None:
    path = config.getoption("unstable_file")
    if path is None:
        return
    config.pluginmanager.register(ProcessUse())
    # A worker of pytest-xdist only notes: the process that started it runs tests once more, when all workers are gone.
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(SecondRun(config, config.invocation_params.dir / path))


class SecondRun:
    def __init__(self, config: pytest.Config, path: Path) -> None:
        self._config, self._path = config, path
        self._red: dict[str, list[pytest.TestReport]] = {}
        self._unstable: list[str] = []

    # First, as the terminal's hook makes a test red for its red subtests, and the session counts each of these alone.
    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed and (uses_process(report) or report.nodeid in self._red):
            self._red.setdefault(report.nodeid, []).append(report)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if session.exitstatus != pytest.ExitCode.TESTS_FAILED:
            return
        for test, reports in self._red.items():
            said = self._run_alone(test)
            if said is None:
                self._report_unstable(session, test, reports)
            else:
                reports[-1].sections.append(("red in the second run, alone, too", said))
        if session.testsfailed == 0:
            session.exitstatus = pytest.ExitCode.OK

    def _run_alone(self, test: str) -> str | None:
        """What the run said at its end; None if the test passed. A test that is skipped has not passed."""
        config = self._config
        command = [sys.executable, "-m", "pytest", "-q", "--color=no", "-p", "no:cacheprovider", *self._seeds()]
        where = ["--rootdir", str(config.rootpath), *(["-c", str(config.inipath)] if config.inipath else [])]
        done = subprocess.run(
            [*command, *where, test],
            cwd=config.rootpath,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            check=False,
        )
        if done.returncode == 0 and _PASSED.search(done.stdout):
            return None
        return "\n".join(done.stdout.splitlines()[-_KEPT_LINES:])

    def _seeds(self) -> list[str]:
        """As options, those that this run has."""
        seeds = [(option, self._config.getoption(option, None)) for option in _SEEDS]
        return [f"{option}={seed}" for option, seed in seeds if seed is not None]

    def _report_unstable(self, session: pytest.Session, test: str, reports: Sequence[pytest.TestReport]) -> None:
        """Take the test's reports from those that failed, and write its name down."""
        self._unstable.append(test)
        session.testsfailed -= len(reports)
        stats = self._stats()
        for category in ("failed", "error"):
            if category in stats:
                stats[category] = [report for report in stats[category] if report.nodeid != test]
        stats.setdefault("unstable", []).append(reports[0])
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.open("a", encoding="utf-8") as lines:
            lines.write("\t".join([time.strftime("%Y-%m-%dT%H:%M:%S%z"), *self._seeds(), test]) + "\n")

    def _stats(self) -> dict[str, list[Any]]:
        reporter = self._config.pluginmanager.get_plugin("terminalreporter")
        return {} if reporter is None else reporter.stats

    @pytest.hookimpl(trylast=True)
    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """What was red, and then the names, so that they stand in the last lines."""
        if not self._unstable:
            return
        terminalreporter.section("red once, and green in a second run, alone", yellow=True)
        for test in self._unstable:
            for report in self._red[test]:
                terminalreporter.write_line(report.longreprtext)
        for test in self._unstable:
            terminalreporter.write_line(f"unstable: {test}")
        terminalreporter.write_line(f"unstable tests are listed in {self._path}; repair what stands there twice")
