"""What several tests of the runtime share."""

import pytest

from app.runtime import pace


@pytest.fixture
def breathless(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every breath is taken, however fast the machine is."""
    monkeypatch.setattr(pace, "_STEP_S", 0.0)
