"""One page for several workers."""

import msgspec
from prometheus_client.parser import text_string_to_metric_families

from app.core.verdicts import Verdict
from app.metrics.declared import Metrics
from app.metrics.page import MetricsPage
from app.metrics.workers import Family, ServiceMetrics, WorkerFacts, families_of

BOTH_UP = [WorkerFacts(1, up=True, restarts=0), WorkerFacts(2, up=True, restarts=3)]


def page_of(metrics: Metrics) -> list[Family]:
    """What a worker sends, as it arrives."""
    page = MetricsPage(metrics, "1.2.3")
    return msgspec.convert(msgspec.json.decode(msgspec.json.encode(families_of(page.collect()))), list[Family])


def samples(service: ServiceMetrics, workers: list[WorkerFacts]) -> dict[str, float]:
    found = {}
    for family in text_string_to_metric_families(service.render(workers).decode()):
        for sample in family.samples:
            labels = ",".join(f"{key}={value}" for key, value in sorted(sample.labels.items()))
            name = f"{sample.name}{{{labels}}}"
            assert name not in found, name
            found[name] = sample.value
    return found


def worker(*, offset: int, requests: int, seconds: float) -> list[Family]:
    metrics = Metrics(acl_count=offset, feed_offset=offset, image_loads=1)
    for _ in range(requests):
        metrics.count_request("authorize", 200, seconds)
        metrics.count_verdicts([next(iter(Verdict))])
    return page_of(metrics)


def two_workers() -> ServiceMetrics:
    service = ServiceMetrics()
    service.note(1, worker(offset=7, requests=3, seconds=0.001))
    service.note(2, worker(offset=9, requests=4, seconds=100.0))
    return service


def test_counters_and_histograms_are_sums() -> None:
    found = samples(two_workers(), BOTH_UP)
    assert found["klamm_http_requests_total{operation=authorize,status=2xx}"] == 7
    assert found["klamm_http_request_duration_seconds_count{operation=authorize}"] == 7
    assert found["klamm_http_request_duration_seconds_bucket{le=0.001,operation=authorize}"] == 3
    assert found["klamm_http_request_duration_seconds_bucket{le=+Inf,operation=authorize}"] == 7
    assert found["klamm_http_request_duration_seconds_sum{operation=authorize}"] == 400.003
    assert found["klamm_image_loads_total{}"] == 2
    assert sum(value for name, value in found.items() if name.startswith("klamm_decisions_total")) == 7


def test_gauges_are_of_each_worker_and_the_version_is_told_once() -> None:
    found = samples(two_workers(), BOTH_UP)
    assert (found["klamm_feed_offset{worker=1}"], found["klamm_feed_offset{worker=2}"]) == (7, 9)
    assert found["klamm_readiness_state{state=STARTING,worker=2}"] == 1
    assert "klamm_feed_offset{}" not in found
    assert found["klamm_build_info{version=1.2.3}"] == 1


def test_workers_and_their_restarts_are_told() -> None:
    found = samples(two_workers(), [WorkerFacts(1, up=False, restarts=0), WorkerFacts(2, up=True, restarts=3)])
    assert found["klamm_workers{}"] == 2
    assert (found["klamm_worker_up{worker=1}"], found["klamm_worker_up{worker=2}"]) == (0, 1)
    assert found["klamm_worker_restarts_total{worker=2}"] == 3


def test_a_worker_that_does_not_answer_keeps_its_part_of_the_sums_and_loses_its_gauges() -> None:
    found = samples(two_workers(), [WorkerFacts(1, up=False, restarts=0), WorkerFacts(2, up=True, restarts=0)])
    assert found["klamm_http_requests_total{operation=authorize,status=2xx}"] == 7
    assert "klamm_feed_offset{worker=1}" not in found
    assert found["klamm_feed_offset{worker=2}"] == 9
    assert found["klamm_build_info{version=1.2.3}"] == 1


def test_what_a_worker_counted_outlives_it_and_is_counted_once() -> None:
    service = two_workers()
    service.retire(1)
    service.retire(1)
    assert samples(service, BOTH_UP)["klamm_http_requests_total{operation=authorize,status=2xx}"] == 7
    service.note(1, worker(offset=9, requests=1, seconds=0.001))
    found = samples(service, BOTH_UP)
    assert found["klamm_http_requests_total{operation=authorize,status=2xx}"] == 8
    assert found["klamm_http_request_duration_seconds_bucket{le=0.001,operation=authorize}"] == 4
    assert found["klamm_feed_offset{worker=1}"] == 9


def test_without_any_answer_there_is_still_a_page() -> None:
    found = samples(ServiceMetrics(), [WorkerFacts(1, up=False, restarts=0)])
    assert found == {"klamm_workers{}": 1, "klamm_worker_up{worker=1}": 0, "klamm_worker_restarts_total{worker=1}": 0}


def test_every_metric_of_a_page_is_on_the_common_one() -> None:
    alone, common = worker(offset=1, requests=1, seconds=1.0), samples(two_workers(), BOTH_UP)
    names = {name for family in alone for name, _, _ in family.samples}
    assert names <= {name.partition("{")[0] for name in common}
