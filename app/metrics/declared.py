# ruff: noqa: RUF009 - what the functions return are fields of the dataclass
"""Every metric, declared once: an attribute that its owner bumps without a lock, and how Prometheus reads it.

A metric's name is `klamm_` and the attribute's; counters end in `_total`. Label values come from closed sets
(operations of the API, results, rules, states), never from a request: no principal, topic or client id can become a
series.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric

from app.core.verdicts import Verdict

OPERATIONS = (
    "authorize",
    "authorizedOperations",
    "authorizeByResourceType",
    "listGroups",
    "explain",
    "whoCan",
    "whatCan",
    "history",
    "createAcls",
    "deleteAcls",
    "acls",
    "getAcl",
    "aclCount",
    "start",
    "describeConfigs",
    "alterConfigs",
    "watch",
    "livez",
    "readyz",
    "readyzListener",
    "startupz",
    "metrics",
    "index",
    "openapi",
    "docs",
    "console",
    "other",
)
"""By operationId; `other` is for requests that reached none of them."""

UPDATES = ("createAcls", "deleteAcls")

ADMISSION_POOLS = ("decisions", "lists", "updates", "past", "waiting", "watchers", "pages", "unauthenticated", "probes")

WATCH_ENDS = ("draining", "slow", "reload", "caller")

DECISION_LOG_REASONS = ("buffer", "disk")

CLOCK_DIRECTIONS = ("forward", "back")

READINESS_STATES = ("STARTING", "LOADING", "READY", "LAGGING", "FENCED", "DRAINING")
VERDICTS = tuple(Verdict)
STATUS_CLASSES = ("1xx", "2xx", "3xx", "4xx", "5xx")

_REQUEST_S = (0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)
_UPDATE_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class Histogram:
    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds  # inclusive
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def observe(self, value: float) -> None:
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value

    def buckets(self) -> list[tuple[str, float]]:
        """Cumulative, with `+Inf` last, as Prometheus wants them."""
        return list(zip((*map(str, self.bounds), "+Inf"), accumulate(self.counts), strict=True))


_Samples = Iterable[tuple[Sequence[str], *tuple[Any, ...]]]
"""What `add_metric` of a family takes for each series: the labels' values, then the number (or buckets and sum)."""


def _metric(
    family: type[CounterMetricFamily | GaugeMetricFamily | HistogramMetricFamily],
    text: str,
    initial: Callable[[], Any],
    samples: Callable[[Any], _Samples] = lambda value: [((), value)],
    labels: Sequence[str] = (),
) -> Any:  # noqa: ANN401 - as dataclasses.field
    """A metric whose attribute begins as `initial()`; `samples` makes its series of the attribute's value."""

    def collect(name: str, value: object) -> Metric:
        metric = family(f"klamm_{name}", text, labels=labels)
        add_metric: Callable[..., None] = metric.add_metric
        for sample in samples(value):
            add_metric(*sample)
        return metric

    return field(default_factory=initial, metadata={"collect": collect})


def _counter(text: str) -> Any:  # noqa: ANN401 - as above
    return _metric(CounterMetricFamily, text, int)


def _gauge(text: str, initial: float = 0) -> Any:  # noqa: ANN401 - as above
    return _metric(GaugeMetricFamily, text, lambda: initial)


def _counter_by(label: str, text: str, known: Iterable[str] = ()) -> Any:  # noqa: ANN401 - as above
    return _metric(
        CounterMetricFamily,
        text,
        lambda: dict.fromkeys(known, 0),
        lambda counts: [((value,), count) for value, count in counts.items()],
        [label],
    )


def _histogram_by(label: str, text: str, values: Iterable[str], bounds: tuple[float, ...]) -> Any:  # noqa: ANN401 - as above
    return _metric(
        HistogramMetricFamily,
        text,
        lambda: {value: Histogram(bounds) for value in values},
        lambda by: [((value,), each.buckets(), each.total) for value, each in by.items() if any(each.counts)],
        [label],
    )


@dataclass(slots=True)
class Metrics:
    acl_count: int = _gauge("ACLs in memory; -1 until the first load is complete.", -1)
    feed_age_seconds: float = _gauge("Seconds since the image was last known to equal the store's head.")
    readiness_state: str = _metric(
        GaugeMetricFamily,
        "1 for the state that the service is in, 0 for every other.",
        lambda: "STARTING",
        lambda now: [((state,), state == now) for state in READINESS_STATES],
        ["state"],
    )

    decisions: list[int] = _metric(
        CounterMetricFamily,
        "Decisions by result and by the rule that gave it.",
        lambda: [0] * len(VERDICTS),
        lambda counts: [
            ((verdict.result.value, verdict.rule.value), count) for verdict, count in zip(VERDICTS, counts, strict=True)
        ],
        ["result", "rule"],
    )
    http_requests: dict[str, list[int]] = _metric(
        CounterMetricFamily,
        "HTTP requests by operation and class of status.",
        lambda: {each: [0] * len(STATUS_CLASSES) for each in OPERATIONS},
        lambda requests: [
            ((operation, status_class), count)
            for operation, counts in requests.items()
            for status_class, count in zip(STATUS_CLASSES, counts, strict=True)
            if count
        ],
        ["operation", "status"],
    )
    http_request_duration_seconds: dict[str, Histogram] = _histogram_by(
        "operation", "Time from a request's arrival to the last byte of its answer.", OPERATIONS, _REQUEST_S
    )

    callers_refused: dict[str, int] = _counter_by("reason", "Requests whose credentials were not accepted, by reason.")
    tokens_file_faults: int = _counter("Checks of the tokens file that found it unusable.")

    connections: int = _gauge("Open connections of this process.")
    connections_refused: int = _counter("Connections refused because connections.max was reached.")
    requests_shed: int = _counter("Requests refused because the event loop was late (OVERLOADED).")
    admission_requests: dict[str, list[int]] = _metric(
        GaugeMetricFamily,
        "Requests in flight and queued, by pool.",
        lambda: {each: [0, 0] for each in ADMISSION_POOLS},
        lambda pools: [
            ((pool, state), count)
            for pool, counts in pools.items()
            for state, count in zip(("in_flight", "queued"), counts, strict=True)
        ],
        ["pool", "state"],
    )
    admission_refused: dict[str, int] = _counter_by(
        "pool", "Requests that a pool refused (OVERLOADED).", ADMISSION_POOLS
    )

    audit_lines_written: int = _counter("Lines handed to the audit log's sink.")
    audit_lines_dropped: int = _counter("Audit lines lost: the buffer was full, or the log was closed.")
    audit_lines_failed: int = _counter("Audit lines lost because the audit log's sink failed.")
    decision_log_lines: int = _counter("Lines written to the decision log.")
    decision_log_bytes: int = _counter("Bytes written to the decision log.")
    decision_log_dropped: dict[str, int] = _counter_by(
        "reason", "Lines of the decision log lost: the buffer or the disk was full.", DECISION_LOG_REASONS
    )
    decision_log_faults: int = _counter("Failed attempts to write the decision log.")
    decision_log_files_deleted: int = _counter("Decision log files deleted because of decision.log.retention.bytes.")

    image_loads: int = _counter("Snapshots of the store that became the image, including the first one.")
    image_load_failures: int = _counter("Failed loads of a snapshot; the image in use was kept.")
    feed_mismatches: int = _counter("Polls of the change feed that did not continue the image, which is then reloaded.")
    records_poisoned: int = _counter(
        "Polls and loads that met a record, or a row of a snapshot, that can't be applied."
    )
    records_unknown: int = _counter(
        "Of those, polls and loads that met a record or an ACL of a later version than this one."
    )
    configs_unknown: int = _gauge(
        "Stored properties that only a later version knows; they have no effect here (describeConfigs names them)."
    )
    feed_polls: int = _counter("Polls of the change feed.")
    feed_poll_failures: int = _counter("Polls of the change feed that failed.")
    transactions_applied: int = _counter("Transactions of the feed applied to the image.")
    records_applied: int = _counter("Records of the feed applied to the image.")
    feed_offset: int = _gauge("Offset of the change feed that the image is at; -1 before the first load.", -1)
    feed_high_watermark: int = _gauge("Last offset of the store at the latest poll of the feed; -1 before it.", -1)
    acls_with_end: int = _gauge("ACLs in memory that end some day, at the last count.")
    acls_ending_within_a_day: int = _gauge("ACLs in memory that end within a day, at the last count.")
    acls_ended: int = _gauge("ACLs that have ended and are not removed yet, at the last count.")
    acls_expired: int = _counter("ACLs that this process has removed because they had ended.")
    store_time_corrections: dict[str, int] = _counter_by(
        "direction",
        "Times that the database's clock differed by more than 2 s from what was counted: it was set, or this machine "
        "stood still.",
        CLOCK_DIRECTIONS,
    )
    acls_being_loaded: int = _gauge("ACLs read so far by the load in progress; 0 when there is none.")
    last_image_load_seconds: float = _gauge("How long the latest load of a snapshot took.", 0.0)
    image_from_state_file: int = _gauge(
        "1 while the image comes from the state file and the source has not been reached yet."
    )
    state_file_refusals: int = _counter("State files that could not be used at the start; the log says why.")
    state_file_faults: int = _counter("Failed attempts to write the state file.")
    state_file_bytes: int = _gauge(
        "Size of the state file that this process writes; 0 if another process writes it, or none."
    )
    state_file_timestamp_seconds: float = _gauge(
        "When the state in the file that this process writes last equalled the source's; 0 if it writes none."
    )
    mutator_groups_written: int = _counter("Transactions that the writer has committed.")
    mutator_group_failures: int = _counter("Transactions of the writer that failed.")
    mutator_mutations_written: int = _counter("Updates that the writer has committed.")
    mutator_queue_size: int = _gauge("Updates waiting for the writer.")
    purgatory_num_delayed_operations: int = _gauge(
        "Requests waiting for the image to reach their offset (Kafka: NumDelayedOperations)."
    )
    purgatory_size: int = _gauge(
        "Entries in the purgatory, including those of callers that left (Kafka: PurgatorySize)."
    )
    purgatory_expirations: int = _counter("Requests that timed out before the image reached their offset.")
    watch_readers: int = _gauge("Readers of this process's watch streams.")
    watch_ends: dict[str, int] = _counter_by("reason", "Watch streams that this process has ended.", WATCH_ENDS)
    request_local_time_seconds: dict[str, Histogram] = _histogram_by(
        "request", "Time that an update spent until its commit (Kafka: LocalTimeMs).", UPDATES, _UPDATE_S
    )
    request_remote_time_seconds: dict[str, Histogram] = _histogram_by(
        "request",
        "Time that an update waited for the change feed to bring it back (Kafka: RemoteTimeMs).",
        UPDATES,
        _UPDATE_S,
    )

    def count_request(self, operation: str, status: int, seconds: float) -> None:
        self.http_requests[operation][status // 100 - 1] += 1
        self.http_request_duration_seconds[operation].observe(seconds)

    def count_verdicts(self, verdicts: list[Verdict]) -> None:
        decisions = self.decisions
        if len(verdicts) == 1:
            decisions[VERDICTS.index(verdicts[0])] += 1
            return
        for at, verdict in enumerate(VERDICTS):
            decisions[at] += verdicts.count(verdict)
