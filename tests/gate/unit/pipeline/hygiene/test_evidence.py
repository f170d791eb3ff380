"""How much time a log covers: hours with a decision in them, as far as requests were logged."""

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from app.pipeline.history.log_pieces import LoggedHour


BEGAN = datetime(2026, 11, 1, tzinfo=UTC)


def hours(*numbers: int, sampled: float = 1.0) -> "list[LoggedHour]":
    """An hour each, with one decision in the middle of it."""
    from app.pipeline.history.log_pieces import LoggedHour

    at = [BEGAN + timedelta(hours=number) for number in numbers]
    half = timedelta(minutes=30)
    return [LoggedHour(each, 1, each + half, each + half, sampled, 1.0, 0.0) for each in at]


def test_a_log_of_minutes_covers_no_days() -> None:
    from app.pipeline.hygiene.evidence import Coverage

    log = Coverage(hours(5))
    assert (log.covered_hours, str(log)) == (1, "1 hour")
    assert log.reaching_back(1) is None


def test_hours_without_a_decision_do_not_count() -> None:
    from app.pipeline.hygiene.evidence import Coverage

    nights_off = Coverage(hours(*(24 * day + hour for day in range(30) for hour in range(8))))
    assert str(nights_off) == "10.0 days"
    assert nights_off.reaching_back(10) == BEGAN
    assert nights_off.reaching_back(11) is None
    # The last of each day only, as where the rest was deleted before it was ingested.
    assert str(Coverage(hours(*range(23, 24 * 90, 24)))) == "3.8 days"


def test_an_hour_counts_as_far_as_requests_were_logged() -> None:
    from app.pipeline.hygiene.evidence import Coverage

    log = Coverage(hours(*range(24 * 40), sampled=0.1))
    assert str(log) == "4.0 days"
    assert log.reaching_back(5) is None
    assert log.reaching_back(4) == BEGAN
    assert log.window.sampled == pytest.approx(0.1)


def test_an_acl_must_have_been_there_for_the_days_that_are_counted_from_the_end() -> None:
    from app.pipeline.hygiene.evidence import Coverage

    log = Coverage(hours(*range(24), *range(24 * 50, 24 * 60)))
    assert log.reaching_back(10) == BEGAN + timedelta(days=50)
    assert log.reaching_back(11) == BEGAN


def test_only_the_last_days_are_looked_at() -> None:
    from app.pipeline.hygiene.evidence import Coverage

    log = Coverage(hours(*range(24 * 100)))
    part = log.last_days(30)
    assert part.hours[-1] == log.hours[-1]
    assert 24 * 30 <= len(part.hours) <= 24 * 30 + 1
    assert part.window.decisions == len(part.hours)
    nothing = Coverage([]).last_days(30)
    assert (str(nothing), nothing.reaching_back(1), str(nothing.window)) == ("0 hours", None, "no logged decision")
