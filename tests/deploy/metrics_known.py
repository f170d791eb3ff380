"""Every series that /metrics can show: names, labels, and the values of labels where they come of a closed set."""

import re
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

from prometheus_client.core import CounterMetricFamily
from prometheus_client.metrics_core import Metric

from app.metrics.declared import OPERATIONS, STATUS_CLASSES, Metrics
from app.metrics.page import MetricsPage
from app.metrics.workers import WorkerFacts, _about
from app.pipeline.spark import run_metrics

OPEN = frozenset({"version", "reason", "worker", "job", "instance", "exported_job", "le"})
"""Labels whose values are not known beforehand, or are not Klamm's."""
_SCRAPED = {"job": set[str](), "instance": set[str]()}
_SELECTOR = re.compile(r"\b(up|(?:klamm|process)_\w+)(?:\{([^}]*)\})?")
_MATCHER = re.compile(r'(\w+)\s*(=~|!~|!=|=)\s*"((?:[^"\\]|\\.)*)"')
_GROUPING = re.compile(r"\b(?:by|without|on|ignoring)\s*\(([^)]*)\)")

Labels = dict[str, set[str]]


class Use(NamedTuple):
    """A metric in an expression, with the labels that are asked for and the values they are compared with."""

    name: str
    matchers: tuple[tuple[str, str, str], ...]


@cache
def known() -> dict[str, Labels]:
    """Labels by the name of the sample."""
    metrics = Metrics()
    for operation in OPERATIONS:
        for at in range(1, len(STATUS_CLASSES) + 1):
            metrics.count_request(operation, at * 100, 0.001)
    metrics.callers_refused["some"] = 1
    for times in (metrics.request_local_time_seconds, metrics.request_remote_time_seconds):
        for each in times.values():
            each.observe(0.001)
    found: dict[str, Labels] = {"up": dict(_SCRAPED)}
    for family in [
        *MetricsPage(metrics, "1.2.3").collect(),
        *_about([WorkerFacts(0, up=True, restarts=1)]),
    ]:
        for name, labels in _samples(family):
            # Gauges of a service with workers have the label `worker`.
            of = found.setdefault(name, {**{label: set(values) for label, values in _SCRAPED.items()}, "worker": set()})
            for label, value in labels.items():
                of.setdefault(label, set()).add(value)
    for name in run_metrics._HELP:
        found[name] = {**_SCRAPED, "exported_job": set()}
    return found


def _samples(family: Metric | CounterMetricFamily) -> Iterator[tuple[str, dict[str, str]]]:
    for sample in family.samples:
        yield sample.name, dict(sample.labels)


def uses(expression: str) -> list[Use]:
    """Every metric that an expression of PromQL reads."""
    return [
        Use(name, tuple((each[1], each[2], each[3]) for each in _MATCHER.finditer(matchers or "")))
        for name, matchers in _SELECTOR.findall(expression)
    ]


def groupings(expression: str) -> set[str]:
    """Labels that an expression groups by."""
    return {label.strip() for found in _GROUPING.findall(expression) for label in found.split(",") if label.strip()}


def faults(expression: str) -> list[str]:
    """What in an expression of PromQL can match nothing that Klamm shows."""
    found = []
    used = uses(expression)
    for use in used:
        labels = known().get(use.name)
        if labels is None:
            found.append(f"there is no metric {use.name}")
            continue
        for label, how, value in use.matchers:
            if label not in labels:
                found.append(f"{use.name} has no label {label}")
            elif label not in OPEN and "$" not in value:
                words = value.split("|") if how in {"=~", "!~"} else [value]
                found += [f"{use.name}: {label} is never {word}" for word in words if word not in labels[label]]
    carried = {label for use in used for label in known().get(use.name, {})}
    found += [f"nothing here has the label {label}" for label in sorted(groupings(expression) - carried)]
    return found if used else ["reads no metric"]
