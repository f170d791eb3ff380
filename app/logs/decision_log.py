"""The decision log: what authorize has decided, as JSON lines that the pipeline ingests.

A line is one action. If the texts that a request's actions share are long, a line has a list of actions instead.
"""

import logging
import random
from collections.abc import Iterator, Sequence
from sys import getsizeof
from typing import NamedTuple, Protocol
from uuid import UUID

import msgspec
from msgspec import UNSET, UnsetType

from app.core.image import AuthorizerImage
from app.core.verdicts import Verdict
from app.logs.decision_files import DecisionFiles
from app.logs.json_text import groups_bytes, groups_content, json_content, written_bytes
from app.logs.lines import MAX_LINES, REPEATED_BYTES, LineLog, json_stamp
from app.metrics.declared import Metrics

_LOG = logging.getLogger(__name__)
_REQUEST_BYTES, _ACTION_BYTES = 384, 224
LONGEST_LINE = 1024 * 1024
"""A list of actions ends before its line gets longer than this: the pipeline reads no longer lines."""
_PROTOCOL = 32
"""Characters of a security protocol that a line shows; Kafka's have 14 at most."""


class Asked(Protocol):
    operation: str
    resource_type: str
    resource_name: str


class Asker(msgspec.Struct, gc=False):
    """What a line shows of a request's context. UNSET is written as null."""

    principal: str
    host: str
    listener_name: str | UnsetType | None = UNSET
    security_protocol: str | UnsetType | None = UNSET
    request_type: int | UnsetType | None = UNSET
    request_version: int | UnsetType | None = UNSET
    client_id: str | UnsetType | None = UNSET
    correlation_id: int | UnsetType | None = UNSET
    caller: str | None = None
    groups: Sequence[str] = ()


class Position(NamedTuple):
    """An image's position in the feed; before the first load, `epoch` is empty and `offset` -1."""

    epoch: str
    offset: int

    @staticmethod
    def of(image: AuthorizerImage) -> "Position":
        return Position("" if image.epoch is None else str(image.epoch), image.offset)


class Decided(NamedTuple):
    """One request: the actions, the verdict on each, and the id (16 bytes) of the ACL that decided it."""

    position: Position
    asker: Asker
    actions: Sequence[Asked]
    verdicts: Sequence[Verdict]
    acl_ids: Sequence[bytes | None]


class DecisionLog(LineLog[Decided]):
    """Writes the decisions of a share of the requests, `sample`."""

    retries = True

    def __init__(
        self,
        files: DecisionFiles,
        metrics: Metrics,
        *,
        sample: float = 1.0,
        capacity: int = 16 * 1024 * 1024,
        linger_s: float = 0.2,
    ) -> None:
        super().__init__("klamm-decisions", capacity=capacity, linger_s=linger_s)
        self._files = files
        self._metrics = metrics
        self._sample = sample
        self._end = f',"sampled":{float(sample)!r}}}\n'
        self._draw = random.Random().random  # noqa: S311 - a sample, not a secret

    def wants_next(self) -> bool:
        """Whether the next request is in the sample; ask once for each."""
        return self._sample >= 1.0 or self._draw() < self._sample

    def take(self, decided: Decided) -> None:
        self._put(decided, len(decided.actions), _size(decided))

    def close(self, timeout_s: float = 5.0) -> bool:
        is_done = super().close(timeout_s)
        if not is_done:
            _LOG.error("decision_log_unfinished", extra={"after_s": timeout_s})
        return is_done

    def _lines_of(self, time_s: float, request: Decided, part: slice) -> list[str]:
        return _lines(time_s, request, part, self._end)

    def _write(self, text: str) -> None:
        written = text.encode()
        self._files.append(written)
        self._metrics.decision_log_bytes += len(written)

    def _tidy(self) -> None:
        self._files.tidy()

    def _tidy_s(self) -> float | None:
        return self._files.tidy_s()

    def _finish(self) -> None:
        self._files.finish()

    def _count_written(self, lines: int) -> None:
        self._metrics.decision_log_lines += lines

    def _count_dropped(self, lines: int) -> None:
        # If the disk is failing, a full buffer is the disk's fault.
        self._metrics.decision_log_dropped["disk" if self._failing else "buffer"] += lines

    def _count_lost(self, lines: int) -> None:
        # INVARIANT: the thread counts here only at its end, when the event loop hands it nothing more.
        self._metrics.decision_log_dropped["disk"] += lines
        _LOG.error(
            "decision_log_lines_lost", extra={"lines": lines, "why": "could not be written before the process ended"}
        )

    def _on_failure(self, fault: Exception, *, is_news: bool) -> None:
        self._metrics.decision_log_faults += 1
        if is_news:
            why = f"{fault}; lines wait in memory, and are dropped when decision.log.buffer.bytes are full"
            _LOG.error("decision_log_not_writable", extra={"why": why, "requests_waiting": len(self._pending)})

    def _on_recovery(self) -> None:
        lost = self._metrics.decision_log_dropped["disk"]
        _LOG.warning("decision_log_writable_again", extra={"lines_lost_so_far": lost})


def _lines(time_s: float, decided: Decided, part: slice, end: str) -> list[str]:
    position, asker, actions, verdicts, acl_ids = decided
    seconds = int(time_s)
    head = (
        f"{json_stamp(seconds)}{int((time_s - seconds) * 1_000_000):06d}Z"
        f'","epoch":"{position.epoch}","offset":{position.offset}'
        f',"principal":"{json_content(asker.principal)}","host":"{json_content(asker.host)}"'
        f',"listener_name":{_text(asker.listener_name)},"security_protocol":{_text(_protocol_of(asker))}'
        f',"request_type":{_number(asker.request_type)},"request_version":{_number(asker.request_version)}'
        f',"client_id":{_text(asker.client_id)},"correlation_id":{_number(asker.correlation_id)}'
        f',"caller":{_text(asker.caller)}'
        f"{groups_content(asker.groups)}"
    )
    bodies = [
        _action(action, verdict, acl_id)
        for action, verdict, acl_id in zip(actions[part], verdicts[part], acl_ids[part], strict=True)
    ]
    if len(bodies) == 1 or len(head.encode()) <= REPEATED_BYTES:
        return [f"{head},{body}{end}" for body in bodies]
    return [f'{head},"actions":[{some}]{end}' for some in _lists(bodies, LONGEST_LINE - len(head.encode()))]


def _action(action: Asked, verdict: Verdict, acl_id: bytes | None) -> str:
    shown_id = "null" if acl_id is None else f'"{UUID(bytes=acl_id)}"'
    result = "ALLOWED" if verdict.allowed else "DENIED"
    return (
        f'"operation":"{action.operation}","resource_type":"{action.resource_type}"'
        f',"resource_name":"{json_content(action.resource_name)}"'
        f',"result":"{result}","rule":"{verdict.rule_word}","acl_id":{shown_id}'
    )


def _lists(bodies: Sequence[str], room: int) -> Iterator[str]:
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


def _protocol_of(asker: Asker) -> str | UnsetType | None:
    protocol = asker.security_protocol
    return protocol[:_PROTOCOL] if isinstance(protocol, str) else protocol


def _number(value: int | UnsetType | None) -> str:
    return "null" if value is UNSET or value is None else str(value)


def _size(decided: Decided) -> int:
    """The most bytes that its lines can take, or about what it takes in memory if that is more."""
    _, asker, actions, _, _ = decided
    head = _REQUEST_BYTES
    kept = 0
    texts = asker.principal, asker.host, asker.listener_name, _protocol_of(asker), asker.client_id, asker.caller
    for text in texts:
        if isinstance(text, str):
            head += written_bytes(text)
            kept += getsizeof(text)
    if asker.groups:
        head += groups_bytes(asker.groups)
        kept += sum(map(getsizeof, asker.groups))
    written = 0
    for action in actions:
        written += written_bytes(action.resource_name)
        kept += getsizeof(action.resource_name)
    written += len(actions) * _ACTION_BYTES
    kept += _REQUEST_BYTES + len(actions) * _ACTION_BYTES
    repeated = len(actions) * min(head, REPEATED_BYTES)
    if head > REPEATED_BYTES:
        # A list ends where MAX_LINES are written at once, or where the next action has no room in its line.
        lists = 2 + len(actions) // MAX_LINES + 2 * written // max(1, LONGEST_LINE - head)
        repeated = max(repeated, min(lists, len(actions)) * head)
    return max(kept, written + repeated)
