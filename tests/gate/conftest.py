"""What holds for every test of the gate."""

from tests.process_guard import pytest_runtest_call, pytest_runtest_setup, pytest_runtest_teardown

__all__ = ["pytest_runtest_call", "pytest_runtest_setup", "pytest_runtest_teardown"]
