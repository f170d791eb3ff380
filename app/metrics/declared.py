"""Every metric, declared once: plain attributes that the service bumps without a lock, read when Prometheus scrapes.

Label values come from closed sets (operations of the API, results, rules, states), never from a request: no
principal, topic or client id can become a series.
"""

from bisect import bisect_left
from dataclasses import dataclass, field
from typing import Any, Literal

from app.core.authorize import Verdict

OPERATIONS = (
    "authorize",
    "authorizedOperations",
    "authorizeByResourceType",
    "listGroups",
    "explain",
    "opaAuthorize",
    "createAcls",
    "deleteAcls",
    "acls",
    "getAcl",
    "aclCount",
    "start",
    "describeConfigs",
    "alterConfigs",
    "livez",
    "readyz",
    "readyzListener",
    "startupz",
    "metrics",
    "index",
    "openapi",
    "docs",
    "other",
)
"""The operations of the API by operationId; `other` is a request that reached none of them."""

ADMISSION_POOLS = ("decisions", "lists", "updates", "waiting", "probes")
"""The pools of `app.rest.http.admission`."""

DECISION_LOG_REASONS = ("buffer", "disk")
"""Why the decision log loses lines: decisions come faster than they are written, or nothing can be written."""

READINESS_STATES = ("STARTING", "LOADING", "READY", "LAGGING", "FENCED", "DRAINING")
VERDICTS = tuple(Verdict)
STATUS_CLASSES = ("1xx", "2xx", "3xx", "4xx", "5xx")

_FAST_S = (0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)


class Histogram:
    """Counts by upper bound, and the sum: what `observe` costs is one bisection."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def observe(self, value: float) -> None:
        """Count one value."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value

    def buckets(self) -> list[tuple[str, float]]:
        """The counts as Prometheus wants them: cumulative, with `+Inf` last."""
        below = 0
        cumulative: list[tuple[str, float]] = []
        for bound, count in zip((*map(str, self.bounds), "+Inf"), self.counts, strict=True):
            below += count
            cumulative.append((bound, below))
        return cumulative


Kind = Literal["counter", "gauge", "labelled", "state", "decisions", "requests", "histograms", "pools"]


def _about(kind: Kind, text: str, label: str = "") -> dict[str, str]:
    return {"kind": kind, "help": text, "label": label}


def _declared(kind: Kind, text: str, initial: float | str = 0, label: str = "") -> Any:  # noqa: ANN401 - as dataclasses.field
    return field(default=initial, metadata=_about(kind, text, label))


@dataclass(slots=True)
class Metrics:
    """What rest and the audit log count. An attribute's metric is `klamm_` and its name; counters end in `_total`."""

    acl_count: int = _declared("gauge", "ACLs in memory; -1 until the first load is complete.", -1)
    feed_age_seconds: float = _declared("gauge", "Seconds since the image was last known to equal the store's head.")
    readiness_state: str = _declared(
        "state", "1 for the state that the service is in, 0 for every other.", "STARTING", "state"
    )

    decisions: list[int] = field(
        default_factory=lambda: [0] * len(VERDICTS),
        metadata=_about("decisions", "Decisions by result and by the rule that gave it."),
    )
    http_requests: dict[str, list[int]] = field(
        default_factory=lambda: {each: [0] * len(STATUS_CLASSES) for each in OPERATIONS},
        metadata=_about("requests", "HTTP requests by operation and class of status."),
    )
    http_request_duration_seconds: dict[str, Histogram] = field(
        default_factory=lambda: {each: Histogram(_FAST_S) for each in OPERATIONS},
        metadata=_about("histograms", "Time from a request's arrival to the last byte of its answer.", "operation"),
    )

    callers_refused: dict[str, int] = field(
        default_factory=dict,
        metadata=_about("labelled", "Requests whose credentials proved nothing, by reason.", "reason"),
    )
    tokens_file_faults: int = _declared("counter", "Looks at the file of tokens that found it not usable.")

    connections: int = _declared("gauge", "Connections that this process has.")
    connections_refused: int = _declared("counter", "Connections that came when connections.max were there.")
    requests_shed: int = _declared("counter", "Requests refused because the event loop was late (OVERLOADED).")
    admission_requests: dict[str, list[int]] = field(
        default_factory=lambda: {each: [0, 0] for each in ADMISSION_POOLS},
        metadata=_about("pools", "Requests that are being worked on, and that wait for it, by pool."),
    )
    admission_refused: dict[str, int] = field(
        default_factory=lambda: dict.fromkeys(ADMISSION_POOLS, 0),
        metadata=_about("labelled", "Requests that a pool refused (OVERLOADED).", "pool"),
    )
    audit_lines_written: int = _declared("counter", "Lines handed to the audit log's sink.")
    audit_lines_dropped: int = _declared("counter", "Audit lines lost: the buffer was full, or the log was closed.")
    audit_lines_failed: int = _declared("counter", "Audit lines lost because the audit log's sink failed.")
    decision_log_lines: int = _declared("counter", "Lines written to the decision log.")
    decision_log_bytes: int = _declared("counter", "Bytes written to the decision log.")
    decision_log_dropped: dict[str, int] = field(
        default_factory=lambda: dict.fromkeys(DECISION_LOG_REASONS, 0),
        metadata=_about("labelled", "Lines of the decision log lost: the buffer or the disk was full.", "reason"),
    )
    decision_log_faults: int = _declared("counter", "Attempts to write the decision log that failed.")
    decision_log_files_deleted: int = _declared("counter", "Files deleted for decision.log.retention.bytes.")

    def count_request(self, operation: str, status: int, seconds: float) -> None:
        """Count one answered request."""
        self.http_requests[operation][status // 100 - 1] += 1
        self.http_request_duration_seconds[operation].observe(seconds)

    def count_verdicts(self, verdicts: list[Verdict]) -> None:
        """Count the decisions of one request."""
        decisions = self.decisions
        if len(verdicts) == 1:
            decisions[VERDICTS.index(verdicts[0])] += 1
            return
        for at, verdict in enumerate(VERDICTS):
            decisions[at] += verdicts.count(verdict)
