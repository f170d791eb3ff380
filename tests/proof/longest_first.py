"""Files that take long come first, lest workers that share a run out end with one: `-p tests.proof.longest_first`."""

from pathlib import Path

import pytest

from tests.proof.times import Times

_TIMES = Path(__file__).with_name("times.json")
_LONG_MINUTES = 0.25


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The others stay in the order that was drawn."""
    times = Times.load(_TIMES)

    def rank(item: pytest.Item) -> float:
        minutes = times.minutes_of(item.nodeid.partition("::")[0])
        return -minutes if minutes > _LONG_MINUTES else 0.0

    items.sort(key=rank)
