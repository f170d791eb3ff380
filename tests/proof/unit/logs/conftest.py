"""What the tests of tracing share."""

from tests.gate.unit.logs.test_tracing import collector

__all__ = ["collector"]
