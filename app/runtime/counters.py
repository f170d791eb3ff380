"""What the runtime counts. Plain numbers, bumped without locks by the event loop's thread; ops shows them."""

from bisect import bisect_left
from dataclasses import dataclass, field

BUCKET_BOUNDS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Upper bounds, inclusive, of every histogram's buckets, in seconds; one more bucket holds all above."""


@dataclass(slots=True)
class Histogram:
    """Times in buckets; `counts` are not cumulative and end with the bucket above every bound."""

    counts: list[int] = field(default_factory=lambda: [0] * (len(BUCKET_BOUNDS_S) + 1))
    sum_s: float = 0.0

    def observe(self, seconds: float) -> None:
        """Count one time."""
        self.counts[bisect_left(BUCKET_BOUNDS_S, seconds)] += 1
        self.sum_s += seconds


@dataclass(slots=True)
class RuntimeMetrics:
    """Names that end in `_total` only rise; the others are values of the moment."""

    # loader
    loads_total: int = 0
    """Snapshots that became the image, the first one included."""
    load_failures_total: int = 0
    feed_mismatches_total: int = 0
    """Looks at the feed that did not continue this image (other epoch or hash, trimmed, gone back)."""
    poisoned_records_total: int = 0
    """Looks that met a record, or a snapshot row, that can't be applied."""
    polls_total: int = 0
    poll_failures_total: int = 0
    transactions_applied_total: int = 0
    records_applied_total: int = 0
    image_offset: int = -1
    head_offset: int = -1
    """The head's offset when the feed was last looked at."""
    acls_being_loaded: int = 0
    """ACLs read so far by the snapshot under way; 0 when there is none."""
    last_load_s: float = 0.0
    # mutator
    groups_written_total: int = 0
    group_failures_total: int = 0
    mutations_written_total: int = 0
    mutations_queued: int = 0
    # purgatory, in Kafka's words
    num_delayed_operations: int = 0
    """Requests that wait for an offset now."""
    purgatory_size: int = 0
    """Entries in the purgatory, those of callers that have left among them."""
    purgatory_expirations_total: int = 0
    # createAcls and deleteAcls: until committed, and from there until visible in this process
    create_acls_local_time: Histogram = field(default_factory=Histogram)
    create_acls_remote_time: Histogram = field(default_factory=Histogram)
    delete_acls_local_time: Histogram = field(default_factory=Histogram)
    delete_acls_remote_time: Histogram = field(default_factory=Histogram)
