"""What holds for every test of the gate."""

from collections.abc import Generator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import pytest

from tests import process_guard

_GATE = Path(__file__).parent

_START_PROCESSES_STILL = frozenset(
    {
        "architecture/test_supply_chain.py",
        "contract/test_acl_store.py",
        "contract/test_bulk_store.py",
        "contract/test_change_feed.py",
        "contract/test_continuity.py",
        "contract/test_expiry.py",
        "contract/test_guards.py",
        "contract/test_terms.py",
        "contract/test_transaction_bound.py",
        "deploy/test_chart.py",
        "deploy/test_compose.py",
        "deploy/test_containerfile.py",
        "deploy/test_kubernetes.py",
        "deploy/test_prometheus.py",
        "deploy/test_rendered.py",
        "deploy/test_versions.py",
        "integration/test_store_restore.py",
        "pipeline/test_bad_arguments.py",
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
