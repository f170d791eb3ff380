"""The metrics of one process as Prometheus reads them."""

from collections.abc import Iterator
from dataclasses import fields

from prometheus_client import ProcessCollector, generate_latest
from prometheus_client.core import InfoMetricFamily
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from app.metrics.declared import Metrics

CONTENT_TYPE = CONTENT_TYPE_PLAIN_0_0_4


class MetricsPage(Collector):
    """Klamm's metrics, and those that prometheus_client has for every process."""

    def __init__(self, metrics: Metrics, version: str) -> None:
        self._metrics = metrics
        self._version = version
        self._process = ProcessCollector(registry=None)

    def render(self) -> bytes:
        return generate_latest(self)

    def collect(self) -> Iterator[Metric]:
        yield InfoMetricFamily("klamm_build", "The running version.", {"version": self._version})
        for each in fields(self._metrics):
            yield each.metadata["collect"](each.name, getattr(self._metrics, each.name))
        yield from self._process.collect()
