"""What time it is in the store, at most: never behind its clock, whatever answers and clocks did."""

from datetime import UTC, datetime, timedelta
from math import inf, isclose

from hypothesis import example, given
from hypothesis import strategies as st

from app.core.store_time import RECENT_S, StoreTime

NOON = datetime(2026, 11, 23, 12, tzinfo=UTC)

seconds = st.floats(0, 100_000)
answers = st.floats(0, 10)
speeds = st.floats(0.9995, 1.0005)


def later(by: float) -> datetime:
    return NOON + timedelta(seconds=by)


def test_before_the_first_look_it_may_be_any_time() -> None:
    time = StoreTime()
    assert time.at_most(0.0) == inf
    assert time.shown(5.0) is None
    time.heard(NOON, 7.0)
    assert time.at_most(7.0) == inf


def test_what_a_stream_says_later_is_taken() -> None:
    time = StoreTime()
    time.looked(NOON, 100.0)
    time.heard(later(30), 101.0)
    assert time.at_most(101.0) == later(30).timestamp()


def test_it_counts_from_when_the_question_was_asked() -> None:
    time = StoreTime()
    time.looked(NOON, 100.0)
    assert time.shown(100.0) == NOON
    assert later(60) <= (time.shown(160.0) or NOON) < later(60.1)


@given(st.lists(st.tuples(seconds, answers, answers), min_size=1, max_size=5), seconds, speeds)
def test_it_is_never_behind_the_store(looks: list[tuple[float, float, float]], waited: float, speed: float) -> None:
    """Each look: how long after the last one, and how long its two ways take."""
    time, clock = StoreTime(), 0.0
    for rest, there, back in looks:
        clock += rest
        asked_at = clock
        clock += there
        time.looked(later(clock * speed), asked_at)
        clock += back
        assert time.at_most(clock) >= later(clock * speed).timestamp() - 1e-5
    clock += waited
    at_most, truth = time.at_most(clock), later(clock * speed).timestamp()
    assert truth - 1e-5 <= at_most
    # It is ahead by the last answer's ways, and by what the clocks may differ.
    _, there, back = looks[-1]
    assert at_most <= truth + there + back + 0.0011 * (waited + there + back) + 1e-5


@given(seconds, st.lists(st.tuples(seconds, seconds), max_size=5))
def test_what_a_stream_says_never_takes_the_time_back(asked_at: float, heard: list[tuple[float, float]]) -> None:
    time = StoreTime()
    time.looked(later(asked_at), asked_at)
    clock = asked_at
    for rest, delay in heard:
        clock += rest
        before = time.at_most(clock)
        time.heard(later(clock - delay), clock)
        assert isclose(time.at_most(clock), max(before, later(clock - delay).timestamp()), abs_tol=1e-5)


@given(st.lists(st.tuples(seconds, answers, seconds), min_size=1, max_size=5), speeds)
def test_an_answer_that_was_long_on_its_way_takes_the_time_no_further_ahead(
    looks: list[tuple[float, float, float]], speed: float
) -> None:
    time, clock = StoreTime(), 0.0
    for rest, there, back in looks:
        clock += rest
        asked_at, said = clock, later((clock + there) * speed)
        clock += there + back
        before = time.at_most(clock)
        time.answered(said, asked_at, clock)
        assert time.at_most(clock) >= later(clock * speed).timestamp() - 1e-5
        assert time.at_most(clock) <= before + 1e-5 or said.timestamp() > before - 1e-5
        assert time.at_most(clock) <= said.timestamp() + (clock - asked_at) * 1.0006 + 1e-5


polls = st.lists(st.tuples(st.floats(0, 24), answers, answers), min_size=1, max_size=12)
"""How long after the last answer a question is asked, and how long its two ways take."""


@given(polls, seconds, speeds)
@example(asked=[(0.0, 0.0, 0.25), (0.0, 0.0, 0.0), (0.0, 2.0, 0.0)], waited=0.0, speed=1.0005)
def test_of_the_polls_of_the_last_seconds_the_closest_counts(
    asked: list[tuple[float, float, float]], waited: float, speed: float
) -> None:
    time, clock, ways = StoreTime(), 0.0, list[tuple[float, float]]()
    for rest, there, back in asked:
        clock += rest
        ways.append((clock, there))
        time.polled(later((clock + there) * speed), clock, clock + there + back)
        clock += there + back
        assert time.at_most(clock) >= later(clock * speed).timestamp() - 1e-5
        # It is ahead by the shortest way of those questions, and by what the clocks may differ.
        ahead = min(way + 0.0011 * (clock - at) for at, way in ways if at >= ways[-1][0] - RECENT_S + 0.1)
        assert time.at_most(clock) <= later(clock * speed).timestamp() + ahead + 1e-5
    clock += waited
    assert time.at_most(clock) >= later(clock * speed).timestamp() - 1e-5


@given(polls, st.floats(-100, 100), polls)
def test_a_clock_that_was_set_is_followed_within_seconds(
    before: list[tuple[float, float, float]], by: float, after: list[tuple[float, float, float]]
) -> None:
    time, clock = StoreTime(), 0.0
    for rest, there, back in before:
        clock += rest
        time.polled(later(clock + there), clock, clock + there + back)
        clock += there + back
    set_at = clock
    for rest, there, back in after:
        clock += rest
        asked_at = clock
        time.polled(later(clock + there + by), clock, clock + there + back)
        clock += there + back
        truth = later(clock + by).timestamp()
        if asked_at > set_at + RECENT_S + 0.1 or by <= 0 or by > 100:
            assert time.at_most(clock) >= truth - 1e-5
        # Before that it is behind by no more than the answer took on its way back.
        assert time.at_most(clock) >= truth - back - 1e-5
        if by <= 0:
            assert time.at_most(clock) <= truth + there + 0.001 * clock + 1e-5 or asked_at <= set_at + RECENT_S + 0.1


def test_an_answer_that_is_ahead_of_the_count_is_taken_however_long_it_was_on_its_way() -> None:
    time = StoreTime()
    time.answered(NOON, 100.0, 100.0)
    time.answered(later(3_600), 110.0, 170.0)
    assert (time.shown(170.0) or NOON) >= later(3_660)


@given(seconds, seconds)
def test_the_clock_reaches_a_second_when_the_time_does(asked_at: float, ahead: float) -> None:
    time = StoreTime()
    time.looked(NOON, asked_at)
    end = NOON.timestamp() + ahead
    assert isclose(time.at_most(time.clock_at(end)), end, abs_tol=1e-4)
