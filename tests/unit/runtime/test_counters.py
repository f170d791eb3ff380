from app.runtime.counters import BUCKET_BOUNDS_S, Histogram


def test_times_fall_into_buckets_whose_upper_bound_is_inclusive() -> None:
    histogram = Histogram()
    for seconds in (0.0, 0.001, 0.0011, 10.0, 11.0):
        histogram.observe(seconds)
    assert len(histogram.counts) == len(BUCKET_BOUNDS_S) + 1
    assert histogram.counts[0] == 2
    assert histogram.counts[1] == 1
    assert histogram.counts[-2:] == [1, 1]
    assert sum(histogram.counts) == 5
    assert histogram.sum_s == 21.0021
