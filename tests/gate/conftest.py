"""What holds for every test of the gate."""

from collections.abc import Generator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import pytest

from tests import process_guard

_GATE = Path(__file__).parent

_START_PROCESSES_STILL = frozenset(
    {
        "unit/cli/test_client.py",
        "unit/cli/test_entry_point.py",
        "unit/cli/test_pipeline.py",
        "unit/client/http/test_secret_files.py",
        "unit/client/test_acl_files.py",
        "unit/client/why/test_command_lines.py",
        "unit/logs/test_decision_files.py",
        "unit/logs/test_service.py",
        "unit/logs/test_tracing.py",
        "unit/pipeline/hygiene/test_mending.py",
        "unit/pipeline/test_arguments.py",
        "unit/pipeline/test_deployment.py",
        "unit/process/test_output.py",
        "unit/process/test_siblings.py",
        "unit/rest/test_authorize_at_once.py",
    }
)
"""Files whose tests start processes still. This list is to be emptied: they use a fixture, or go to tests/proof."""


def _may(item: pytest.Item) -> AbstractContextManager[None]:
    still = item.path.relative_to(_GATE).as_posix() in _START_PROCESSES_STILL
    return process_guard.may_start_processes() if still else nullcontext()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None, object, object]:
    with _may(item):
        return (yield from process_guard.pytest_runtest_setup(item))


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    with _may(item):
        return (yield from process_guard.pytest_runtest_call(item))


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, object, object]:
    with _may(item):
        return (yield from process_guard.pytest_runtest_teardown(item))
