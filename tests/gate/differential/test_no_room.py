"""Kafka's own answers where no prefix length has a place among the plain ones, and every name is walked along."""

import pytest

import app.core.index.prefixes
from tests.gate.differential.scenes import SHARES
from tests.gate.differential.test_decisions import (
    differences,
    differences_by_resource_type,
    differences_in_authorized_operations,
)
from tests.vectors.loader import lines


@pytest.fixture(autouse=True)
def _no_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app.core.index.prefixes, "ROOM", 0)
    monkeypatch.setattr(app.core.index.prefixes, "SPAN", 2)


@pytest.mark.parametrize("every", SHARES)
def test_every_answer_is_kafkas(every: int) -> None:
    assert [each for line in lines("authorize", every) for each in differences(line, "expected")] == []
    assert [each for line in lines("by_resource_type", every) for each in differences_by_resource_type(line)] == []
    asked = lines("authorized_operations", every)
    assert [each for line in asked for each in differences_in_authorized_operations(line)] == []
