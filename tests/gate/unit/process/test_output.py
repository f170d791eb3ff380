"""An output that several processes may write to."""

import pytest

from app.process.processes import SharedOutput


def test_a_process_that_is_alone_needs_no_lock(capfd: pytest.CaptureFixture[str]) -> None:
    SharedOutput().write("a\nb\n")
    assert capfd.readouterr().out == "a\nb\n"
