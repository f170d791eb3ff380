"""One page of metrics for a service of several workers.

Counters and histograms are sums over all workers, including those that have ended, so they never fall. A gauge is shown
for each worker that answers, with its number as the label `worker`: alert on `max(klamm_feed_age_seconds)` or
`min(klamm_feed_offset)`. A metric that is the same everywhere (`klamm_build_info`) is shown once.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import msgspec
from prometheus_client import generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

_SUMMED = ("counter", "histogram")
_Series = tuple[str, tuple[tuple[str, str], ...]]


class Family(msgspec.Struct, array_like=True):
    """A metric as it goes from one process to another; `samples` are name, labels and value."""

    name: str
    kind: str
    help: str
    samples: list[tuple[str, dict[str, str], float]]


def families_of(metrics: Iterable[Metric]) -> list[Family]:
    return [
        Family(each.name, each.type, each.documentation, [(s.name, s.labels, float(s.value)) for s in each.samples])
        for each in metrics
    ]


@dataclass(frozen=True, slots=True)
class WorkerFacts:
    number: int
    up: bool
    restarts: int


class ServiceMetrics:
    """The latest metrics of each worker, and the sums of those that have ended."""

    def __init__(self) -> None:
        self._latest: dict[int, list[Family]] = {}
        self._ended: list[Family] = []

    def note(self, worker: int, families: list[Family]) -> None:
        self._latest[worker] = families

    def retire(self, worker: int) -> None:
        ended = _only_sums(self._latest.pop(worker, []))
        self._ended = families_of(_merged([(worker, self._ended), (worker, ended)]))

    def render(self, workers: Sequence[WorkerFacts]) -> bytes:
        up = {facts.number for facts in workers if facts.up}
        # A worker that doesn't answer counts with its last answer, as a falling sum would look like a restart.
        latest = [(each, page if each in up else _only_sums(page)) for each, page in sorted(self._latest.items())]
        return generate_latest(_Page([*_about(workers), *_merged([*latest, (0, self._ended)])]))


def _only_sums(families: Iterable[Family]) -> list[Family]:
    return [each for each in families if each.kind in _SUMMED]


def _merged(pages: Iterable[tuple[int, Iterable[Family]]]) -> Iterator[Metric]:
    """The metrics of these workers as one of each name."""
    merged: dict[str, tuple[Metric, dict[_Series, float]]] = {}
    for worker, families in pages:
        for family in families:
            _, values = merged.setdefault(family.name, (Metric(family.name, family.help, family.kind), {}))
            own = {"worker": str(worker)} if family.kind == "gauge" else {}
            for name, labels, value in family.samples:
                series = name, tuple({**labels, **own}.items())
                values[series] = value + (values.get(series, 0.0) if family.kind in _SUMMED else 0.0)
    for metric, values in merged.values():
        for (name, series_labels), value in values.items():
            metric.add_sample(name, dict(series_labels), value)
        yield metric


class _Page(Collector):
    def __init__(self, metrics: list[Metric]) -> None:
        self._metrics = metrics

    def collect(self) -> Iterator[Metric]:
        yield from self._metrics


def _about(workers: Sequence[WorkerFacts]) -> Iterator[Metric]:
    yield GaugeMetricFamily("klamm_workers", "Workers that the service should have.", value=len(workers))
    up = GaugeMetricFamily("klamm_worker_up", "Whether the worker has answered for this page.", labels=["worker"])
    restarts = CounterMetricFamily("klamm_worker_restarts", "How often the worker was restarted.", labels=["worker"])
    for facts in workers:
        up.add_metric([str(facts.number)], float(facts.up))
        restarts.add_metric([str(facts.number)], facts.restarts)
    yield up
    yield restarts
