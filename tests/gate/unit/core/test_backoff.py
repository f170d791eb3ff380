from random import Random

from app.core.backoff import Backoff


def test_waits_double_up_to_the_longest_and_begin_anew_after_a_reset() -> None:
    backoff = Backoff(0.05, 1.0)
    assert [backoff.next_s() for _ in range(7)] == [0.05, 0.1, 0.2, 0.4, 0.8, 1.0, 1.0]
    backoff.reset()
    assert backoff.next_s() == 0.05


def test_waits_stay_within_bounds_however_often() -> None:
    backoff = Backoff(0.05, 1.0, min)
    assert [backoff.next_s() for _ in range(100)][-1] == 0.5


def test_each_wait_is_drawn_from_its_upper_half() -> None:
    draw = Random(7)
    firsts = {Backoff(0.1, 1.0, draw.uniform).next_s() for _ in range(20)}
    assert len(firsts) == 20
    assert all(0.05 <= each <= 0.1 for each in firsts)
