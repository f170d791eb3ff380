"""When a worker is started again."""

from app.process.supervisor import LONGEST_REST_S, MAX_FAILED_STARTS, Restarts


def is_drawn_from(rest_s: float, longest_s: float) -> bool:
    """Whether it is in the upper half, so that workers that ended together don't return together."""
    return longest_s / 2 <= rest_s <= longest_s


def test_rests_double_up_to_the_longest_and_begin_anew_after_a_long_life() -> None:
    restarts = Restarts()
    for longest_s in (0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 30.0, 30.0):
        assert is_drawn_from(restarts.rest_s(1, 1.0, was_ready=True), longest_s)
    assert is_drawn_from(restarts.rest_s(2, 1.0, was_ready=True), 0.2)
    assert is_drawn_from(restarts.rest_s(1, LONGEST_REST_S + 1, was_ready=True), 0.2)
    assert is_drawn_from(restarts.rest_s(1, 1.0, was_ready=True), 0.4)


def test_rests_are_not_the_same() -> None:
    assert len({Restarts().rest_s(1, 1.0, was_ready=True) for _ in range(20)}) > 1


def test_rests_stay_bounded_however_often_a_worker_ends() -> None:
    restarts = Restarts()
    for _ in range(5000):
        assert restarts.rest_s(1, 0.0, was_ready=True) <= LONGEST_REST_S


def test_it_is_in_vain_when_one_worker_never_becomes_ready() -> None:
    restarts = Restarts()
    for _ in range(MAX_FAILED_STARTS - 1):
        restarts.rest_s(1, 1.0, was_ready=False)
        restarts.rest_s(2, 1.0, was_ready=False)
    assert not restarts.in_vain(1)
    restarts.rest_s(1, 1.0, was_ready=False)
    assert restarts.in_vain(1)
    assert not restarts.in_vain(2)
    restarts.became_ready()
    assert not restarts.in_vain(1)


def test_it_is_never_in_vain_for_workers_that_were_ready() -> None:
    restarts = Restarts()
    for _ in range(3 * MAX_FAILED_STARTS):
        restarts.rest_s(1, 1.0, was_ready=True)
    assert not restarts.in_vain(1)
