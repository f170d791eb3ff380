"""How many requests a second a caller may send."""

import threading

from app.rest.callers.rate_limits import RateLimit


def test_so_many_requests_a_second_are_let_in_and_no_more() -> None:
    limit = RateLimit(3)
    for now in range(1_000, 1_005):
        assert limit.has_room(now)
        assert [limit.take(now) for _ in range(5)] == [True, True, True, False, False]
        assert not limit.has_room(now)
        assert not limit.take(now + 0.999)


def test_a_window_begins_with_a_request() -> None:
    limit = RateLimit(1)
    assert limit.take(12.75)
    assert not limit.take(13.25)
    assert limit.take(13.75)


def test_refused_requests_do_not_prolong_the_refusal() -> None:
    limit = RateLimit(1)
    assert limit.take(1_000.0)
    for request in range(100):
        assert not limit.take(1_000.0 + 0.009 * request)
    assert limit.take(1_001.0)


def test_limits_do_not_know_of_each_other() -> None:
    one, other = RateLimit(1), RateLimit(1)
    assert one.take(1_000.0)
    assert other.take(1_000.0)
    assert not one.take(1_000.0)


def test_no_thread_is_started() -> None:
    before = threading.active_count()
    limits = [RateLimit(1) for _ in range(10)]
    assert all(limit.take(1_000.0) for limit in limits)
    assert threading.active_count() == before
