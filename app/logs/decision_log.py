"""The decision log: what authorize has decided, an action a line, as JSON that the pipeline ingests.

Where it is long what a request's actions share, they stand in a list, and it is written once for many of them.

The event loop pays for one append a request. Lines are made, written and rotated by a thread of their own; what waits
for it is bounded, and what has no room is dropped and counted.
"""

import logging
import random
import time
from collections import deque
from collections.abc import Iterator, Sequence
from functools import lru_cache
from queue import Empty, SimpleQueue
from sys import getsizeof
from threading import Event, Thread
from typing import Literal, NamedTuple, Protocol
from uuid import UUID

import msgspec
from msgspec import UNSET, UnsetType

from app.core.authorize import Verdict
from app.core.backoff import Backoff
from app.core.image import AuthorizerImage
from app.logs.decision_files import DecisionFiles, Seldom
from app.logs.json_text import json_content, written_bytes
from app.metrics.declared import Metrics

_LOG = logging.getLogger(__name__)
_REQUEST_BYTES, _ACTION_BYTES = 384, 224
REPEATED_BYTES = 1024
"""What a request's actions share is repeated in the line of each if it takes no more than this."""

LONGEST_LINE = 1024 * 1024
"""A list of actions ends before its line gets longer, for the pipeline reads none that is."""

_LINES_AT_ONCE = 100
_BREATH_S = 0.0002
_FIRST_RETRY_S, _LAST_RETRY_S = 0.5, 30.0


class Asked(Protocol):
    """An action, in the words of the request."""

    operation: str
    resource_type: str
    resource_name: str


class Asker(msgspec.Struct, gc=False):
    """Who asked: what a line shows of a request's context. UNSET is null."""

    principal: str
    host: str
    listener_name: str | UnsetType | None
    request_type: int | UnsetType | None
    client_id: str | UnsetType | None
    caller: str | None


class Stand(NamedTuple):
    """Where in the feed an image stands: `epoch` is empty and `offset` -1 before the first load."""

    epoch: str
    offset: int

    @staticmethod
    def of(image: AuthorizerImage) -> "Stand":
        """Where this one stands."""
        return Stand("" if image.epoch is None else str(image.epoch), image.offset)


class Decided(NamedTuple):
    """All of one request: the actions, what came of each, and the id (its 16 bytes) of the ACL that decided it."""

    stand: Stand
    asker: Asker
    actions: Sequence[Asked]
    verdicts: Sequence[Verdict]
    acl_ids: Sequence[bytes | None]


_Item = tuple[float, Decided, int]
"""When it was decided, what, and the room that it takes."""


class DecisionLog:
    """Takes decided requests on the event loop and writes their lines from a daemon thread.

    `sample` is the share of requests that are wanted, each drawn by itself. At most `capacity` bytes wait.
    """

    def __init__(
        self,
        files: DecisionFiles,
        metrics: Metrics,
        *,
        sample: float = 1.0,
        capacity: int = 16 * 1024 * 1024,
        linger_s: float = 0.2,
    ) -> None:
        self._files = files
        self._metrics = metrics
        self._sample = sample
        self._capacity = capacity
        self._linger_s = linger_s
        self._end = f',"sampled":{float(sample)!r}}}\n'
        self._draw = random.Random().random  # noqa: S311 - a sample, not a secret
        self._queue: SimpleQueue[_Item | None] = SimpleQueue()
        self._pending: deque[_Item] = deque()
        self._at = 0
        """How many actions of the first that waits are written already."""
        self._closing = Event()
        self._faulty = False
        self._backoff = Backoff(_FIRST_RETRY_S, _LAST_RETRY_S, random.uniform)
        self._may_tell = Seldom()
        self._told = False
        self._thread = Thread(target=self._run, name="klamm-decisions", daemon=True)
        # INVARIANT: each counter has one writer (event loop, thread), so the difference needs no lock.
        self._size_in = 0
        self._size_out = 0

    def start(self) -> None:
        """Start the thread that writes; what dead processes left open is closed by it."""
        self._thread.start()

    def wants_next(self) -> bool:
        """Whether the next request is in the sample; to be asked once for each."""
        return self._sample >= 1.0 or self._draw() < self._sample

    def take(self, decided: Decided) -> None:
        """Take one request, all of it or nothing."""
        size = _size(decided)
        if self._closing.is_set() or self._size_in - self._size_out + size > self._capacity:
            # The disk is to blame for a buffer that it doesn't empty.
            self._drop("disk" if self._faulty else "buffer", len(decided.actions))
            return
        self._size_in += size
        self._queue.put((time.time(), decided, size))

    def close(self, timeout_s: float = 5.0) -> None:
        """Write what waits, close the file and stop; blocks for at most the timeout, so not for the event loop."""
        self._closing.set()
        self._queue.put(None)
        if self._thread.is_alive():
            self._thread.join(timeout_s)
            if self._thread.is_alive():
                _LOG.error("decision_log_unfinished", extra={"after_s": timeout_s})

    # INVARIANT: the thread drops only at its end, when the event loop hands it no more.
    def _drop(self, reason: Literal["buffer", "disk"], lines: int) -> None:
        self._metrics.decision_log_dropped[reason] += lines

    def _run(self) -> None:
        while not self._closing.is_set():
            self._flush()
            self._gather()
        self._collect()
        self._flush(last=True)
        lost = sum(len(decided.actions) for _, decided, _ in self._pending) - self._at
        if lost:
            self._drop("disk", lost)
            _LOG.error("decision_log_lines_lost", extra={"lines": lost, "why": "could not be written before the end"})

    def _gather(self) -> None:
        """Wait until there is something to write or to tidy up."""
        if not self._pending:
            try:
                item = self._queue.get(timeout=self._files.tidy_s())
            except Empty:
                return
            if item is None:
                return
            self._pending.append(item)
            # Under load, lines that come within the linger share one wake-up.
            self._closing.wait(self._linger_s)
        self._collect()

    def _collect(self) -> None:
        while True:
            try:
                item = self._queue.get_nowait()
            except Empty:
                return
            if item is not None:
                self._pending.append(item)

    def _flush(self, *, last: bool = False) -> None:
        try:
            while self._pending:
                self._write_some()
                self._files.tidy()
                # The event loop would wait 5 ms each time for an interpreter that a thread doesn't let go of.
                time.sleep(_BREATH_S)
            if last:
                self._files.finish()
            self._files.tidy()
        except Exception as fault:  # noqa: BLE001 - whatever the disk raises, the thread has to live on
            self._failed(fault)
        else:
            self._recovered()

    def _write_some(self) -> None:
        """Write the first lines that wait, and be rid of the requests that are through."""
        texts, room, at, through, size = [], _LINES_AT_ONCE, self._at, 0, 0
        for time_s, decided, taken in self._pending:
            stop = min(len(decided.actions), at + room)
            texts.append(_lines(time_s, decided, slice(at, stop), self._end))
            room -= stop - at
            if stop < len(decided.actions):
                at = stop
                break
            at, through, size = 0, through + 1, size + taken
            if not room:
                break
        written = "".join(texts).encode()
        if written:
            self._files.append(written)
        self._at = at
        for _ in range(through):
            self._pending.popleft()
        self._size_out += size
        self._metrics.decision_log_lines += _LINES_AT_ONCE - room
        self._metrics.decision_log_bytes += len(written)

    def _failed(self, fault: Exception) -> None:
        self._faulty = True
        self._metrics.decision_log_faults += 1
        if self._may_tell.is_due():
            self._told = True
            why = f"{fault}; lines wait in memory, and are dropped when decision.log.buffer.bytes are full"
            _LOG.error("decision_log_not_writable", extra={"why": why, "requests_waiting": len(self._pending)})
        self._closing.wait(self._backoff.next_s())

    def _recovered(self) -> None:
        if self._faulty:
            self._faulty = False
            self._backoff.reset()
            if self._told:
                self._told = False
                lost = self._metrics.decision_log_dropped["disk"]
                _LOG.warning("decision_log_writable_again", extra={"lines_lost_so_far": lost})


def _lines(time_s: float, decided: Decided, part: slice, end: str) -> str:
    stand, asker, actions, verdicts, acl_ids = decided
    seconds = int(time_s)
    request_type = asker.request_type
    head = (
        f'{_stamp(seconds)}{int((time_s - seconds) * 1_000_000):06d}Z","epoch":"{stand.epoch}","offset":{stand.offset}'
        f',"principal":"{json_content(asker.principal)}","host":"{json_content(asker.host)}"'
        f',"listener_name":{_text(asker.listener_name)}'
        f',"request_type":{"null" if request_type is UNSET or request_type is None else request_type}'
        f',"client_id":{_text(asker.client_id)},"caller":{_text(asker.caller)}'
    )
    bodies = [
        _action(action, verdict, acl_id)
        for action, verdict, acl_id in zip(actions[part], verdicts[part], acl_ids[part], strict=True)
    ]
    if len(bodies) == 1 or len(head.encode()) <= REPEATED_BYTES:
        return "".join([f"{head},{body}{end}" for body in bodies])
    return "".join([f'{head},"actions":[{some}]{end}' for some in _lists(bodies, LONGEST_LINE - len(head.encode()))])


def _action(action: Asked, verdict: Verdict, acl_id: bytes | None) -> str:
    shown_id = "null" if acl_id is None else f'"{UUID(bytes=acl_id)}"'
    result = "ALLOWED" if verdict.allowed else "DENIED"
    return (
        f'"operation":"{action.operation}","resource_type":"{action.resource_type}"'
        f',"resource_name":"{json_content(action.resource_name)}"'
        f',"result":"{result}","rule":"{verdict.rule_word}","acl_id":{shown_id}'
    )


def _lists(bodies: Sequence[str], room: int) -> Iterator[str]:
    """The actions as objects, as many at once as there is room for."""
    some: list[str] = []
    size = _REQUEST_BYTES
    for body in bodies:
        taken = len(body.encode()) + 3
        if some and size + taken > room:
            yield ",".join(some)
            some, size = [], _REQUEST_BYTES
        some.append(f"{{{body}}}")
        size += taken
    yield ",".join(some)


def _text(value: str | UnsetType | None) -> str:
    return "null" if value is UNSET or value is None else f'"{json_content(value)}"'


@lru_cache(maxsize=4)
def _stamp(seconds: int) -> str:
    return time.strftime('{"time":"%Y-%m-%dT%H:%M:%S.', time.gmtime(seconds))


def _size(decided: Decided) -> int:
    """As many bytes as its lines take at most, and about what it takes in memory if that is more."""
    _, asker, actions, _, _ = decided
    head = _REQUEST_BYTES
    kept = 0
    for text in (asker.principal, asker.host, asker.listener_name, asker.client_id, asker.caller):
        if isinstance(text, str):
            head += written_bytes(text)
            kept += getsizeof(text)
    written = 0
    for action in actions:
        written += written_bytes(action.resource_name)
        kept += getsizeof(action.resource_name)
    written += len(actions) * _ACTION_BYTES
    kept += _REQUEST_BYTES + len(actions) * _ACTION_BYTES
    repeated = len(actions) * min(head, REPEATED_BYTES)
    if head > REPEATED_BYTES:
        # A list ends with what is written at once, or where the next action has no room in its line.
        lists = 2 + len(actions) // _LINES_AT_ONCE + 2 * written // max(1, LONGEST_LINE - head)
        repeated = max(repeated, min(lists, len(actions)) * head)
    return max(kept, written + repeated)
