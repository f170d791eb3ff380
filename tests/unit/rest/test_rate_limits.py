"""How many requests a second a caller may send."""

import threading

from app.rest.callers.rate_limits import RateLimit


class Clock:
    """Stands still until it is told."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


def test_so_many_requests_a_second_are_let_in_and_no_more() -> None:
    clock = Clock()
    limit = RateLimit(3, clock)
    for _ in range(5):
        assert limit.has_room()
        assert [limit.take() for _ in range(5)] == [True, True, True, False, False]
        assert not limit.has_room()
        clock.now += 0.999
        assert not limit.take()
        clock.now += 0.001


def test_a_window_begins_with_a_request() -> None:
    clock = Clock()
    limit = RateLimit(1, clock)
    clock.now += 12.75
    assert limit.take()
    clock.now += 0.5
    assert not limit.take()
    clock.now += 0.5
    assert limit.take()


def test_refused_requests_do_not_prolong_the_refusal() -> None:
    clock = Clock()
    limit = RateLimit(1, clock)
    assert limit.take()
    for _ in range(100):
        clock.now += 0.009
        assert not limit.take()
    clock.now += 0.1
    assert limit.take()


def test_limits_do_not_know_of_each_other() -> None:
    clock = Clock()
    one, other = RateLimit(1, clock), RateLimit(1, clock)
    assert one.take()
    assert other.take()
    assert not one.take()


def test_no_thread_is_started() -> None:
    before = threading.active_count()
    limits = [RateLimit(1) for _ in range(10)]
    assert all(limit.take() for limit in limits)
    assert threading.active_count() == before
