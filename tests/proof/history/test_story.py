"""Two services, a follower of a follower, and kills of each: nothing is lost, doubled, torn, old or made up."""

import os
from pathlib import Path

import pytest

from tests.proof.history.story import Plan, told

CHANGES = int(os.environ.get("KLAMM_TEST_HISTORY_CHANGES", "30000"))
"""`KLAMM_TEST_HISTORY_CHANGES=1000000` tells the long story, of 200 harms or so, and of half an hour on idle cores."""
HARM_EVERY_S = max(3.0, CHANGES / 100_000)

pytestmark = pytest.mark.timeout(4_000)


def test_all_that_clients_were_told_can_have_happened(tmp_path: Path) -> None:
    outcome = told(tmp_path, Plan(CHANGES, HARM_EVERY_S))
    print(dict(outcome.counts))
    assert outcome.faults == []
    assert outcome.counts["Decision"] > 100
    assert outcome.counts["streams"] > 2
    assert outcome.counts["changes"] >= CHANGES, "the time was over"
