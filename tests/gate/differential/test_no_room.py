"""Kafka's own answers where no prefix length has a place among the plain ones, and every name is walked along."""

import pytest

import app.core.index.prefixes
from tests.budgets import budget
from tests.gate.differential.test_decisions import (
    differences,
    differences_by_resource_type,
    differences_in_authorized_operations,
)
from tests.vectors.loader import lines

EVERY = budget("lines of the vectors")


@pytest.fixture(autouse=True)
def _no_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app.core.index.prefixes, "ROOM", 0)
    monkeypatch.setattr(app.core.index.prefixes, "SPAN", 2)


def test_every_answer_is_kafkas() -> None:
    assert [each for line in lines("authorize", EVERY) for each in differences(line, "expected")] == []
    assert [each for line in lines("by_resource_type", EVERY) for each in differences_by_resource_type(line)] == []
    asked = lines("authorized_operations", EVERY)
    assert [each for line in asked for each in differences_in_authorized_operations(line)] == []
