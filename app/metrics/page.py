"""The metrics as Prometheus reads them: each attribute of `Metrics` by its declaration, and the runtime's counters."""

from collections.abc import Callable, Iterator
from dataclasses import fields
from typing import Any, Protocol

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, InfoMetricFamily
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from app.metrics.declared import READINESS_STATES, STATUS_CLASSES, VERDICTS, Histogram, Kind, Metrics

CONTENT_TYPE = CONTENT_TYPE_PLAIN_0_0_4
"""The media type of `MetricsPage.render`."""


class RuntimeHistogram(Protocol):
    """Times in buckets, as the runtime counts them: not cumulative, the bucket above every bound last."""

    counts: list[int]
    sum_s: float


_RUNTIME: tuple[tuple[str, str, str], ...] = (
    ("loads_total", "image_loads", "Snapshots of the store that became the image, the first one included."),
    ("load_failures_total", "image_load_failures", "Loads of a snapshot that failed; the image in use was kept."),
    ("feed_mismatches_total", "feed_mismatches", "Looks at the feed that did not continue this image: it is reloaded."),
    ("poisoned_records_total", "records_poisoned", "Looks that met a record, or a snapshot's row, that is no change."),
    ("polls_total", "feed_polls", "Looks at the change feed."),
    ("poll_failures_total", "feed_poll_failures", "Looks at the change feed that failed."),
    ("transactions_applied_total", "transactions_applied", "Transactions of the feed applied to the image."),
    ("records_applied_total", "records_applied", "Records of the feed applied to the image."),
    ("image_offset", "feed_offset", "Offset of the change feed that the image stands on; -1 before the first load."),
    ("head_offset", "feed_high_watermark", "Last offset of the store at the latest look at the feed; -1 before it."),
    ("acls_being_loaded", "acls_being_loaded", "ACLs read so far by the load under way; 0 when there is none."),
    ("last_load_s", "last_image_load_seconds", "How long the latest load of a snapshot took."),
    ("groups_written_total", "mutator_groups_written", "Transactions that the writer has committed."),
    ("group_failures_total", "mutator_group_failures", "Transactions of the writer that failed."),
    ("mutations_written_total", "mutator_mutations_written", "Updates that the writer has committed."),
    ("mutations_queued", "mutator_queue_size", "Updates that wait for the writer."),
    (
        "num_delayed_operations",
        "purgatory_num_delayed_operations",
        "Requests that wait until the image reaches their offset (Kafka: NumDelayedOperations).",
    ),
    ("purgatory_size", "purgatory_size", "Entries in the purgatory, of callers that left too (Kafka: PurgatorySize)."),
    ("purgatory_expirations_total", "purgatory_expirations", "Requests whose deadline came before their offset."),
)
"""The runtime's counters: attribute, metric without `klamm_`, help. Those that end in `_total` only rise."""

_RUNTIME_TIMES: tuple[tuple[str, str], ...] = (
    ("local", "Time that an update spent until its commit (Kafka: LocalTimeMs)."),
    ("remote", "Time that an update waited for the change feed to bring it back (Kafka: RemoteTimeMs)."),
)
_UPDATES = (("createAcls", "create_acls"), ("deleteAcls", "delete_acls"))


class MetricsPage:
    """The metrics as Prometheus reads them: rest's and audit's, the runtime's (by attribute), and the process's."""

    def __init__(self, metrics: Metrics, runtime: object, runtime_bounds_s: tuple[float, ...], version: str) -> None:
        self.metrics = metrics
        self._registry = CollectorRegistry()
        self._registry.register(_MetricsCollector(metrics, version))
        self._registry.register(_RuntimeCollector(runtime, runtime_bounds_s))
        ProcessCollector(registry=self._registry)

    def render(self) -> bytes:
        """All metrics in Prometheus' text format."""
        return generate_latest(self._registry)

    def collect(self) -> Iterator[Metric]:
        """All metrics as they are now."""
        yield from self._registry.collect()


class _MetricsCollector(Collector):
    def __init__(self, metrics: Metrics, version: str) -> None:
        self._metrics = metrics
        self._version = version

    def collect(self) -> Iterator[Metric]:
        yield InfoMetricFamily("klamm_build", "The version that runs.", {"version": self._version})
        for each in fields(self._metrics):
            kind: Kind = each.metadata["kind"]
            value = getattr(self._metrics, each.name)
            yield _FAMILIES[kind](f"klamm_{each.name}", each.metadata["help"], each.metadata["label"], value)


class _RuntimeCollector(Collector):
    def __init__(self, runtime: object, bounds_s: tuple[float, ...]) -> None:
        self._runtime = runtime
        self._bounds_s = bounds_s

    def collect(self) -> Iterator[Metric]:
        for attribute, name, text in _RUNTIME:
            family = _counter if attribute.endswith("_total") else _gauge
            yield family(f"klamm_{name}", text, "", getattr(self._runtime, attribute))
        for part, text in _RUNTIME_TIMES:
            yield _histograms(
                f"klamm_request_{part}_time_seconds",
                text,
                "request",
                {request: self._times(f"{attribute}_{part}_time") for request, attribute in _UPDATES},
            )

    def _times(self, attribute: str) -> Histogram:
        source: RuntimeHistogram = getattr(self._runtime, attribute)
        histogram = Histogram(self._bounds_s)
        histogram.counts, histogram.total = source.counts, source.sum_s
        return histogram


def _counter(name: str, text: str, _: str, value: float) -> Metric:
    return CounterMetricFamily(name, text, value=value)


def _gauge(name: str, text: str, _: str, value: float) -> Metric:
    return GaugeMetricFamily(name, text, value=value)


def _labelled(name: str, text: str, label: str, value: dict[str, int]) -> Metric:
    family = CounterMetricFamily(name, text, labels=[label])
    for label_value, count in value.items():
        family.add_metric([label_value], count)
    return family


def _pools(name: str, text: str, _: str, value: dict[str, list[int]]) -> Metric:
    family = GaugeMetricFamily(name, text, labels=["pool", "state"])
    for pool, counts in value.items():
        for state, count in zip(("in_flight", "queued"), counts, strict=True):
            family.add_metric([pool, state], count)
    return family


def _state(name: str, text: str, label: str, value: str) -> Metric:
    family = GaugeMetricFamily(name, text, labels=[label])
    for state in READINESS_STATES:
        family.add_metric([state], state == value)
    return family


def _decisions(name: str, text: str, _: str, value: list[int]) -> Metric:
    family = CounterMetricFamily(name, text, labels=["result", "rule"])
    for verdict, count in zip(VERDICTS, value, strict=True):
        family.add_metric([verdict.result.value, verdict.rule.value], count)
    return family


def _requests(name: str, text: str, _: str, value: dict[str, list[int]]) -> Metric:
    family = CounterMetricFamily(name, text, labels=["operation", "status"])
    for operation, counts in value.items():
        for status_class, count in zip(STATUS_CLASSES, counts, strict=True):
            if count:
                family.add_metric([operation, status_class], count)
    return family


def _histograms(name: str, text: str, label: str, value: dict[str, Histogram]) -> Metric:
    family = HistogramMetricFamily(name, text, labels=[label])
    for label_value, histogram in value.items():
        if any(histogram.counts):
            family.add_metric([label_value], histogram.buckets(), histogram.total)
    return family


_FAMILIES: dict[Kind, Callable[[str, str, str, Any], Metric]] = {
    "counter": _counter,
    "gauge": _gauge,
    "labelled": _labelled,
    "pools": _pools,
    "state": _state,
    "decisions": _decisions,
    "requests": _requests,
    "histograms": _histograms,
}
