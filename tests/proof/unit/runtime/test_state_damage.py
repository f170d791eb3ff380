"""Every byte of a small state file changed, before and while it is read, and every length cut: it is refused, or it is
a state that was true.
"""

import pytest

from tests.gate.unit.runtime.test_state_damage import PATTERNS, State, Trial, _no_threads, changed, file, holds

__all__ = ["_no_threads", "file"]


@pytest.mark.parametrize("pattern", PATTERNS)
def test_every_byte_changed(file: tuple[bytes, Trial, set[State]], pattern: int) -> None:
    content, trial, true = file
    wrong = [at for at in range(len(content)) if not holds(trial.of(changed(content, at, pattern)), true)]
    assert not wrong


def test_every_length_cut(file: tuple[bytes, Trial, set[State]]) -> None:
    content, trial, true = file
    assert not [size for size in range(len(content)) if not holds(trial.of(content[:size]), true)]
