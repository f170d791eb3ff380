"""The audit log `kafka.authorizer.logger`, in the wording, levels and layout of Kafka's own, or as JSON lines.

ALLOWED with log_if_allowed is DEBUG, DENIED with log_if_denied is INFO, everything else TRACE. Lines are made and
written by a thread of their own: a decision pays for one append, and the event loop never waits for a disk.
"""

import hashlib
import logging
import re
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from queue import Empty, SimpleQueue
from threading import Event, Thread

import msgspec

from app.core.authorize import Verdict
from app.core.kafka.bindings import StandardAcl
from app.core.kafka.codes import AclOperation, ResourceType
from app.logs.api_keys import API_KEY_NAMES, request_name
from app.logs.json_text import json_content, written_bytes
from app.metrics.declared import Metrics
from app.settings.log_format import LogFormat

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
_AT_ONCE_CHARS = 64 * 1024
REPEATED_BYTES = 1024
"""A principal that takes more than this in a line stands in full in the first of a request's lines, and no more."""

_SHOWN_OF_LONG = 64

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

    `write` gets whole lines, several at once. At most `capacity` bytes wait, counted as they will be written, and what
    comes on top is counted in `audit_lines_dropped`.
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
        self._line_bytes = len("".join(self._lines(0.0, _WIDEST_SOURCE, [_WIDEST_ENTRY])).encode())
        """Of a line all of whose names are empty."""
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
        size = self._room(source, entries)
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

    def _room(self, source: AuditSource, entries: Sequence[AuditEntry]) -> int:
        """How many bytes the lines of these take at most."""
        principal = written_bytes(source.principal)
        again = min(principal, REPEATED_BYTES)
        ids = (source.request_id, source.trace_id, source.caller)
        line = self._line_bytes + written_bytes(source.host) + sum(written_bytes(each) for each in ids if each)
        size = principal - again + len(entries) * (line + again)
        for entry in entries:
            size += written_bytes(entry.resource_name)
            if entry.acl is not None:
                binding = entry.acl.binding
                size += _ACL_BYTES + written_bytes(binding.resource_name) + written_bytes(binding.host)
                size += again if binding.principal == source.principal else written_bytes(binding.principal)
        # The first line names a principal of its own twice where an ACL decided.
        return size + principal - again

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
        lines: list[str] = []
        size = 0
        for time_s, source, entries, _ in batch:
            for line in self._lines(time_s, source, entries):
                lines.append(line)
                size += len(line)
                if size >= _AT_ONCE_CHARS:
                    self._write_lines(lines)
                    lines, size = [], 0
        if lines:
            self._write_lines(lines)
        self._size_out += sum(room for _, _, _, room in batch)

    def _write_lines(self, lines: Sequence[str]) -> None:
        try:
            self._write("".join(lines))
        except Exception:  # noqa: BLE001 - whatever the sink raises, the thread has to live on
            # A full disk or a closed stream costs these lines, never the thread.
            self._metrics.audit_lines_failed += len(lines)
            _LOG.exception("audit_write_failed", extra={"lines": len(lines)})
        else:
            self._metrics.audit_lines_written += len(lines)


def audit_message(source: AuditSource, entry: AuditEntry) -> str:
    """The message of Kafka's StandardAuthorizer, control characters escaped."""
    return next(_KAFKA.lines("", source, [entry]))[len(_LEVEL_NAMES[entry.level]) + 1 : -len(_KAFKA.end)]


class _Form:
    """One layout of a line; `shown` is how it shows what others have named."""

    def __init__(self, before: str, end: str, shown: Callable[[str], str]) -> None:
        self.end = end
        self._before = f"{before}Principal = "
        self._shown = shown

    def lines(self, stamp: str, source: AuditSource, entries: Sequence[AuditEntry], ids: str = "") -> Iterator[str]:
        """A line for each of a request's actions; what they share is worded once."""
        shown = self._shown
        principal = shown(source.principal)
        # What would be repeated; None if it may be.
        short = None if len(entries) == 1 or len(principal.encode()) <= REPEATED_BYTES else _short(source.principal)
        where = f" from host = {shown(source.host)} on resource = "
        request = f" for request = {request_name(source.request_type)} with resourceRefCount = "
        end = f"{ids}{self.end}"
        for at, entry in enumerate(entries):
            verdict, acl = entry.verdict, entry.acl
            if at and short is not None:
                principal, acl = shown(short), _shortened(acl, source.principal, short)
            rule = verdict.rule_word if acl is None else shown(f"{verdict.rule_word}(acl={acl})")
            yield (
                f"{stamp}{_LEVEL_NAMES[entry.level]}{self._before}{principal} is {_DECIDED[verdict.allowed]}"
                f"{_OPERATIONS[entry.operation]}{where}{_RESOURCE_TYPES[entry.resource_type]}"
                f"{shown(entry.resource_name)}{request}{entry.resource_reference_count} based on rule {rule}{end}"
            )


def _short(principal: str) -> str:
    """What stands for a long principal in all of a request's lines but the first."""
    encoded = principal.encode("utf-8", "surrogatepass")
    mark = f"{len(encoded)} bytes, SHA-256 {hashlib.sha256(encoded).hexdigest()[:16]}, in full in the first line"
    return f"{principal[:_SHOWN_OF_LONG]}... [{mark}]"


def _shortened(acl: StandardAcl | None, principal: str, short: str) -> StandardAcl | None:
    if acl is None or acl.binding.principal != principal:
        return acl
    return replace(acl, binding=replace(acl.binding, principal=short))


def _printable(text: str) -> str:
    return text if text.isprintable() else _UNSAFE.sub(_escaped, text)


# Kafka's log4j layout: [%d] %p %m (%c)%n
_KAFKA = _Form(" ", " (kafka.authorizer.logger)\n", _printable)
# Kafka's sentence as it is, character by character, escaped as JSON has it.
_JSON = _Form('","logger":"kafka.authorizer.logger","event":"decision","message":"', "}\n", json_content)


def _kafka_lines(time_s: float, source: AuditSource, entries: Sequence[AuditEntry]) -> Iterator[str]:
    seconds = int(time_s)
    return _KAFKA.lines(f"[{_stamp(seconds)},{int((time_s - seconds) * 1000):03d}] ", source, entries)


def _json_lines(time_s: float, source: AuditSource, entries: Sequence[AuditEntry]) -> Iterator[str]:
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


def _widest(words: Sequence[str]) -> int:
    return max(range(len(words)), key=lambda at: len(words[at]))


# From these two follows how much a line takes beside its names.
_WIDEST_SOURCE = AuditSource("", "", _widest(API_KEY_NAMES), "", "", "")
_WIDEST_ENTRY = AuditEntry(
    DEBUG, _widest(_OPERATIONS), _widest(_RESOURCE_TYPES), "", -(2**31), Verdict.DEFAULT_ALLOW, None
)
_ACL_BYTES = 192
"""The same of an ACL: `(acl=StandardAcl(resourceType=TRANSACTIONAL_ID, resourceName=, ...))`."""
