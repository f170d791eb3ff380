"""Notes in a test's report whether it starts a process, or uses a fixture that has started one."""

from collections.abc import Generator

import pytest

from tests.process_starts import observing

_PROPERTY = "uses_process"


def uses_process(report: pytest.TestReport) -> bool:
    """What the report says, also one that a worker of pytest-xdist has sent."""
    return any(name == _PROPERTY for name, _ in report.user_properties)


class ProcessUse:
    """For each process that runs tests."""

    def __init__(self) -> None:
        self._fixtures: set[str] = set()
        self._has_started = False

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef[object]) -> Generator[None, object, object]:
        started: list[str] = []
        try:
            with observing(started.append):
                return (yield)
        finally:
            if started:
                self._fixtures.add(fixturedef.argname)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self) -> Generator[None, object, object]:
        self._has_started = False
        with observing(self._note):
            return (yield)

    def _note(self, _: str) -> None:
        self._has_started = True

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        if self._has_started or not self._fixtures.isdisjoint(getattr(item, "fixturenames", ())):
            report.user_properties.append((_PROPERTY, True))
        return report
