"""In the gate only the fixtures `service`, `postgres` and `spark` start processes; a test that starts one fails.

These fixtures do it inside of `may_start_processes`. The hooks are for the conftest of a folder: pytest calls them for
the tests below it alone, and so never for the workers that pytest-xdist starts.
"""

import threading
from collections.abc import Generator, Iterator
from contextlib import contextmanager

import pytest

from tests.process_starts import observing


class ProcessNotAllowedError(AssertionError):
    """A test, or a fixture that may not, starts a process."""


class _Permit:
    """How many of the fixtures that may are at it; from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._holders = 0

    def add(self, number: int) -> None:
        with self._lock:
            self._holders += number

    def __bool__(self) -> bool:
        return self._holders > 0


_permit = _Permit()


@contextmanager
def may_start_processes() -> Iterator[None]:
    """For the fixtures `service`, `postgres` and `spark`, and for nobody else."""
    _permit.add(1)
    try:
        yield
    finally:
        _permit.add(-1)


def _guarded(item: pytest.Item) -> Generator[None, object, object]:
    """Refuse each start in one phase of a test, and fail the phase even if the code under test hid the refusal."""
    refused: list[str] = []

    def refuse(started: str) -> None:
        if not _permit:
            refused.append(started)
            raise ProcessNotAllowedError(_words(item, started))

    with observing(refuse):
        result = yield
    if refused:
        raise ProcessNotAllowedError(_words(item, refused[0]))
    return result


def _words(item: pytest.Item, started: str) -> str:
    return (
        f"{item.nodeid} starts a process ({started}); in the gate only the fixtures service, postgres and spark may: "
        "use one of them, or move the test to tests/proof"
    )


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None, object, object]:
    return (yield from _guarded(item))


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    return (yield from _guarded(item))


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, object, object]:
    return (yield from _guarded(item))
