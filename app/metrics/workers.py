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


_Series = tuple[str, tuple[tuple[str, str], ...]]


class ServiceMetrics:
    """The latest metrics of each worker, and the sums of those that have ended."""

    def __init__(self) -> None:
        self._latest: dict[int, dict[str, Family]] = {}
        self._ended: dict[str, dict[_Series, float]] = {}
        self._known: dict[str, Family] = {}
        """Every metric that was ever seen, without samples."""

    def note(self, worker: int, families: list[Family]) -> None:
        self._latest[worker] = {each.name: each for each in families}
        for each in families:
            self._known.setdefault(each.name, Family(each.name, each.kind, each.help, []))

    def retire(self, worker: int) -> None:
        for family in self._latest.pop(worker, {}).values():
            if family.kind in _SUMMED:
                _add(self._ended.setdefault(family.name, {}), family)

    def render(self, workers: Sequence[WorkerFacts]) -> bytes:
        present = [facts.number for facts in workers if facts.up]
        return generate_latest(
            _Page([*_about(workers), *(self._merged(each, present) for each in self._known.values())])
        )

    def _merged(self, known: Family, present: Sequence[int]) -> Metric:
        merged = Metric(known.name, known.help, known.kind)
        latest = {worker: by_name[known.name] for worker, by_name in self._latest.items() if known.name in by_name}
        if known.kind in _SUMMED:
            # A worker that doesn't answer counts with its last answer, as a falling sum would look like a restart.
            sums = dict(self._ended.get(known.name, {}))
            for family in latest.values():
                _add(sums, family)
            for (name, series_labels), value in sums.items():
                merged.add_sample(name, dict(series_labels), value)
            return merged
        for worker in present:
            own = {} if known.kind == "info" else {"worker": str(worker)}
            for name, labels, value in latest[worker].samples if worker in latest else ():
                merged.add_sample(name, {**labels, **own}, value)
            if not own and merged.samples:
                break
        return merged


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


def _add(sums: dict[_Series, float], family: Family) -> None:
    for name, labels, value in family.samples:
        series = (name, tuple(labels.items()))
        sums[series] = sums.get(series, 0.0) + value
