"""The audit log `kafka.authorizer.logger`, in the wording, levels and layout of Kafka's own, or as JSON lines.

ALLOWED with log_if_allowed is DEBUG, DENIED with log_if_denied is INFO, everything else TRACE. Lines are made and
written by a thread of their own: a decision pays for one append, and the event loop never waits for a disk.
"""

import logging
import re
import time
from collections.abc import Callable, Sequence
from functools import lru_cache
from queue import Empty, SimpleQueue
from threading import Event, Thread

import msgspec

from app.core.authorize import Verdict
from app.core.bindings import StandardAcl
from app.core.codes import AclOperation, ResourceType
from app.ops.api_keys import request_name
from app.ops.json_text import json_content
from app.ops.logs import LogFormat
from app.ops.metrics import Metrics

TRACE = 5
DEBUG = logging.DEBUG
INFO = logging.INFO
LEVELS = {"TRACE": TRACE, "DEBUG": DEBUG, "INFO": INFO, "WARN": logging.WARNING, "ERROR": logging.ERROR, "OFF": 100}
"""The values of `audit.level`: what is below the level is not logged. Nothing is logged above INFO."""

_LOG = logging.getLogger(__name__)
_LEVEL_NAMES = {TRACE: "TRACE", DEBUG: "DEBUG", INFO: "INFO"}
_OPERATIONS = tuple(each.name for each in AclOperation)
_RESOURCE_TYPES = tuple(
    "".join(word.capitalize() for word in each.name.split("_")) + ":LITERAL:" for each in ResourceType
)
_DECIDED = {True: "Allowed operation = ", False: "Denied operation = "}
_LINE_OVERHEAD = 256

# C0 and C1 controls, DEL, line and paragraph separator, and the marks that reorder text on a screen.
_UNSAFE = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069]")


class AuditEntry(msgspec.Struct, gc=False):
    """One decided action, as the log wants it. `acl` is None unless the rule is MatchingAcl."""

    level: int
    operation: int
    resource_type: int
    resource_name: str
    resource_reference_count: int
    verdict: Verdict
    acl: StandardAcl | None


class AuditSource(msgspec.Struct, gc=False):
    """Who asked: the parts of a request's context that an audit line shows."""

    principal: str
    host: str
    request_type: int | None
    request_id: str | None = None
    trace_id: str | None = None
    caller: str | None = None
    """The name of who made the request, which is not the principal that it asked about."""


_Item = tuple[float, AuditSource, Sequence[AuditEntry], int]
"""When it was decided, who asked, what was decided, and the room that it takes."""


def level_of(verdict: Verdict, log_if_allowed: object, log_if_denied: object) -> int:
    """The level of Kafka's StandardAuthorizer for this decision. Flags count as true unless they are False."""
    if verdict.allowed:
        return DEBUG if log_if_allowed is not False else TRACE
    return INFO if log_if_denied is not False else TRACE


class AuditLog:
    """Takes decided actions on the event loop and writes their lines, in this form, from a daemon thread.

    `write` gets whole lines, several at once. At most `capacity` characters wait, and what comes on top is counted
    in `audit_lines_dropped`.
    """

    def __init__(
        self,
        write: Callable[[str], object],
        metrics: Metrics,
        *,
        form: LogFormat = "TEXT",
        capacity: int = 16 * 1024 * 1024,
        linger_s: float = 0.02,
    ) -> None:
        self._write = write
        self._metrics = metrics
        self._lines = _json_lines if form == "JSON" else _kafka_lines
        self._capacity = capacity
        self._linger_s = linger_s
        self._queue: SimpleQueue[_Item | None] = SimpleQueue()
        self._closing = Event()
        self._thread = Thread(target=self._run, name="klamm-audit", daemon=True)
        # INVARIANT: each counter has one writer (event loop, thread), so the difference needs no lock.
        self._size_in = 0
        self._size_out = 0

    def start(self) -> None:
        """Start the thread that writes."""
        self._thread.start()

    def log(self, source: AuditSource, entries: Sequence[AuditEntry]) -> None:
        """Take the actions of one request, already chosen by level."""
        size = _size(entries)
        if self._closing.is_set() or self._size_in - self._size_out + size > self._capacity:
            self._metrics.audit_lines_dropped += len(entries)
            return
        self._size_in += size
        self._queue.put((time.time(), source, entries, size))

    def close(self, timeout_s: float = 5.0) -> None:
        """Write what waits and stop; blocks for at most the timeout, so not for the event loop."""
        self._closing.set()
        self._queue.put(None)
        if self._thread.is_alive():
            self._thread.join(timeout_s)

    def _run(self) -> None:
        while True:
            item = self._queue.get()
            if item is None:
                return
            # Under load, lines that come within the linger share one write and one wake-up.
            self._closing.wait(self._linger_s)
            batch = [item, *self._waiting()]
            self._write_batch(batch)

    def _waiting(self) -> list[_Item]:
        items: list[_Item] = []
        while True:
            try:
                item = self._queue.get_nowait()
            except Empty:
                return items
            if item is None:
                self._queue.put(None)
                return items
            items.append(item)

    def _write_batch(self, batch: Sequence[_Item]) -> None:
        count = sum(len(entries) for _, _, entries, _ in batch)
        try:
            self._write("".join([self._lines(time_s, source, entries) for time_s, source, entries, _ in batch]))
        except Exception:  # noqa: BLE001 - whatever the sink raises, the thread has to live on
            # A full disk or a closed stream costs these lines, never the thread.
            self._metrics.audit_lines_failed += count
            _LOG.exception("audit_write_failed", extra={"lines": count})
        else:
            self._metrics.audit_lines_written += count
        finally:
            self._size_out += sum(size for _, _, _, size in batch)


def audit_message(source: AuditSource, entry: AuditEntry) -> str:
    """The message of Kafka's StandardAuthorizer, control characters escaped."""
    return _KAFKA.lines("", source, [entry])[len(_LEVEL_NAMES[entry.level]) + 1 : -len(_KAFKA.end)]


class _Form:
    """One layout of a line; `shown` is how it shows what others have named."""

    def __init__(self, before: str, end: str, shown: Callable[[str], str]) -> None:
        self.end = end
        self._before = f"{before}Principal = "
        self._shown = shown

    def lines(self, stamp: str, source: AuditSource, entries: Sequence[AuditEntry], ids: str = "") -> str:
        """A line for each of a request's actions; what they share is worded once."""
        shown = self._shown
        who = f"{self._before}{shown(source.principal)} is "
        where = f" from host = {shown(source.host)} on resource = "
        request = f" for request = {request_name(source.request_type)} with resourceRefCount = "
        end = f"{ids}{self.end}"
        lines = []
        for entry in entries:
            verdict, acl = entry.verdict, entry.acl
            rule = verdict.rule_word if acl is None else shown(f"{verdict.rule_word}(acl={acl})")
            lines.append(
                f"{stamp}{_LEVEL_NAMES[entry.level]}{who}{_DECIDED[verdict.allowed]}{_OPERATIONS[entry.operation]}"
                f"{where}{_RESOURCE_TYPES[entry.resource_type]}{shown(entry.resource_name)}{request}"
                f"{entry.resource_reference_count} based on rule {rule}{end}"
            )
        return "".join(lines)


def _printable(text: str) -> str:
    return text if text.isprintable() else _UNSAFE.sub(_escaped, text)


# Kafka's log4j layout: [%d] %p %m (%c)%n
_KAFKA = _Form(" ", " (kafka.authorizer.logger)\n", _printable)
# Kafka's sentence as it is, character by character, escaped as JSON has it.
_JSON = _Form('","logger":"kafka.authorizer.logger","event":"decision","message":"', "}\n", json_content)


def _kafka_lines(time_s: float, source: AuditSource, entries: Sequence[AuditEntry]) -> str:
    seconds = int(time_s)
    return _KAFKA.lines(f"[{_stamp(seconds)},{int((time_s - seconds) * 1000):03d}] ", source, entries)


def _json_lines(time_s: float, source: AuditSource, entries: Sequence[AuditEntry]) -> str:
    seconds = int(time_s)
    stamp = f'{_json_stamp(seconds)}{int((time_s - seconds) * 1000):03d}Z","level":"'
    ids = '"' if source.request_id is None else f'","request_id":"{json_content(source.request_id)}"'
    if source.trace_id is not None:
        ids += f',"trace_id":"{json_content(source.trace_id)}"'
    if source.caller is not None:
        ids += f',"caller":"{json_content(source.caller)}"'
    return _JSON.lines(stamp, source, entries, ids)


@lru_cache(maxsize=4)
def _stamp(seconds: int) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(seconds))


@lru_cache(maxsize=4)
def _json_stamp(seconds: int) -> str:
    return time.strftime('{"time":"%Y-%m-%dT%H:%M:%S.', time.gmtime(seconds))


def _escaped(found: re.Match[str]) -> str:
    return f"\\u{ord(found[0]):04x}"


def _size(entries: Sequence[AuditEntry]) -> int:
    size = _LINE_OVERHEAD * len(entries)
    for entry in entries:
        size += len(entry.resource_name)
    return size
