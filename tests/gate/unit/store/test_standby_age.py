"""How old a hot standby is, by its own clock and the service's, whatever its primary's clock says."""

from datetime import UTC, datetime, timedelta
from typing import Any, cast

import asyncpg
import pytest

from app.formats.clock import Clock
from app.store.reading.standby import StandbyAge

NOON = datetime(2026, 11, 27, 12, tzinfo=UTC)
HOUR_S = 3_600.0


class Standby:
    """A standby and who polls it: seconds since noon, by the clock of both."""

    def __init__(self, up_s: float = 0.0) -> None:
        self.now_s = 0.0
        self.start_s = -up_s
        self.replayed_s: float | None = 0.0
        self.heard_s: float | None = None
        self.begin_service()

    def begin_service(self) -> None:
        self._age = StandbyAge(Clock(monotonic=lambda: self.now_s))

    def age_s(self, after_s: float = 0.0) -> float:
        self.now_s += after_s
        row = {
            "store_time": _time(self.now_s),
            "server_start": _time(self.start_s),
            "replayed_to": _time(self.replayed_s),
            "heard_at": _time(self.heard_s),
        }
        return self._age.age_s(cast("asyncpg.Record", row))


def _time(seconds: float | None) -> Any:  # noqa: ANN401 - a column
    return None if seconds is None else NOON + timedelta(seconds=seconds)


def test_a_primary_is_never_old() -> None:
    standby = Standby()
    standby.replayed_s = None
    assert standby.age_s(100) == 0


def test_it_is_as_old_as_what_it_has_replayed_or_as_when_it_last_heard_that_this_was_all() -> None:
    standby = Standby()
    standby.replayed_s = -7
    assert standby.age_s() == 7
    assert standby.age_s(3) == 10
    standby.heard_s = 2
    assert standby.age_s() == 1
    standby.heard_s = -20
    assert standby.age_s() == 10


@pytest.mark.parametrize("ahead_s", [0.5, HOUR_S])
def test_what_lies_ahead_is_no_later_than_when_it_was_first_read(ahead_s: float) -> None:
    standby = Standby()
    standby.age_s()
    standby.replayed_s = standby.now_s + ahead_s
    assert standby.age_s() == 0
    assert standby.age_s(42) == 42
    standby.replayed_s = standby.now_s + ahead_s
    assert standby.age_s() == 0
    # The primary's clock is set right, and it goes on.
    standby.replayed_s = standby.now_s
    assert standby.age_s() == 0


def test_a_service_that_has_just_begun_takes_what_lies_ahead_to_be_as_old_as_the_server() -> None:
    standby = Standby(up_s=600)
    standby.replayed_s = HOUR_S
    assert standby.age_s() == 600
    standby.replayed_s += 1
    assert standby.age_s(1) == 0


def test_a_server_that_has_begun_again_is_as_old_as_before_if_its_time_lies_ahead() -> None:
    standby = Standby()
    standby.age_s()
    standby.replayed_s = HOUR_S
    assert standby.age_s(1) == 0
    assert standby.age_s(30) == 30
    # What it has replayed is told by its last checkpoint.
    standby.start_s, standby.replayed_s = standby.now_s, HOUR_S - 60
    assert standby.age_s(5) == 35
    standby.replayed_s = HOUR_S + 1
    assert standby.age_s() == 0
