"""Bounds and times: every wait, queue and retry of the runtime has its bound here."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path

from app.formats.clock import SYSTEM_CLOCK, Clock


@dataclass(frozen=True, slots=True, kw_only=True)
class StateOptions:
    """The folder where a replica keeps its image, and how long that may be used without the source. Times in
    seconds.
    """

    path: Path
    origin: frozenset[str]
    """A digest for each address of the source. Only an image of a source with one of them may be used."""
    max_age_s: float = 24 * 3_600.0
    key: bytes | None = None
    cluster_id: str | None = None
    """Only an image of this cluster may be used; None: of any."""
    clocks_differ_s: float = 60.0
    """A file dated further ahead is refused: one of the two clocks is wrong, so its age is not known."""
    bookmark_s: float = 10.0
    """How often the file says that the source was seen."""
    least_tail_bytes: int = 4 * 1024 * 1024
    """The file is rewritten once its tail exceeds both this and an eighth of its snapshot."""
    rest_s: float = 10.0
    rest_for_each: float = 10.0
    """From one snapshot's end to the next: `rest_s`, or this many times what the last one took, if that is longer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeOptions:
    """Times in seconds."""

    enabled: bool = True
    """authorizer.enabled: without it every action is allowed and the ACL calls answer SECURITY_DISABLED."""
    request_timeout_s: float = 5.0
    """How long a caller waits for a write or for `at_least`, unless it asks for another time."""
    max_request_timeout_s: float = 300.0  # the longest that it may ask for
    poll_s: float = 1.0  # the feed is polled this often even without a hint
    poll_records: int = 1_000  # records wanted in one poll
    max_step_records: int = 100_000
    """The last step of a larger transaction would hold up the loop for 100 ms and more (20,000 records: 20 ms): a
    fresh snapshot, built in slices, brings it instead."""
    poll_timeout_s: float = 2.0  # for one poll of the feed
    snapshot_timeout_s: float = 35.0
    """For each part of a snapshot; the store may have to sort all ACLs before the first."""
    write_timeout_s: float = 30.0
    """For one transaction of the writer; past it the outcome is unknown. The store's own limits should come first."""
    first_backoff_s: float = 0.05
    max_backoff_s: float = 0.5
    """Short, so that all works again within 2 s of the store's return; the store itself spares its server."""
    max_poison_backoff_s: float = 30.0
    """The longest rest between snapshots that are tried because a record can't be applied."""
    max_group_mutations: int = 500
    max_group_bindings: int = 10_000
    """A group holds no more bindings, filters and changes than this, unless a single mutation does."""
    max_group_deletes: int = 10  # each may remove 10,000 ACLs: together they stay within `max_step_records`
    max_queued_mutations: int = 5_000
    max_queued_bindings: int = 200_000
    max_delayed_operations: int = 10_000  # how many requests may wait for an offset at once
    drain_timeout_s: float = 2.5
    """How long each of the four waits of closing may take; together they stay near 10 s even if all of them hang."""
    load_turn: Callable[[float], AbstractAsyncContextManager[object]] = nullcontext
    """Entered for each load of a snapshot, so that workers of one machine load one after the other. It is given the
    most seconds to wait."""
    first_turn_s: float = 300.0
    reload_turn_s: float = 5.0
    """How long a load waits for its turn; not long if the image served meanwhile is one that the store has left."""
    state: StateOptions | None = None
    """None: the image is kept in memory only."""
    clock: Clock = SYSTEM_CLOCK

    def within(self, seconds: float) -> float:
        """How long a caller that asks for this may wait."""
        return min(max(0.0, seconds), self.max_request_timeout_s)
