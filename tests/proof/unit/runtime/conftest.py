"""What several tests of the runtime share."""

from tests.gate.unit.runtime.conftest import breathless

__all__ = ["breathless"]
