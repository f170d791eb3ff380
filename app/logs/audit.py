"""The audit log `kafka.authorizer.logger`, in the wording, levels and layout of Kafka's own, or as JSON lines.

ALLOWED with log_if_allowed is DEBUG, DENIED with log_if_denied is INFO, everything else TRACE.
"""

import hashlib
import logging
import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache

import msgspec

from app.core.kafka.bindings import StandardAcl
from app.core.kafka.codes import AclOperation, ResourceType
from app.core.verdicts import Verdict
from app.logs.json_text import LogFormat, groups_bytes, groups_content, json_content, written_bytes
from app.logs.lines import REPEATED_BYTES, LineLog, json_stamp
from app.metrics.declared import Metrics

TRACE = 5
DEBUG = logging.DEBUG
INFO = logging.INFO
LEVELS = {"TRACE": TRACE, "DEBUG": DEBUG, "INFO": INFO, "WARN": logging.WARNING, "ERROR": logging.ERROR, "OFF": 100}
"""The values of `audit.level`; nothing is logged above INFO."""

_LOG = logging.getLogger(__name__)
_LEVEL_NAMES = {level: name for name, level in LEVELS.items()}
_OPERATIONS = tuple(each.name for each in AclOperation)
_RESOURCE_TYPES = tuple(
    "".join(word.capitalize() for word in each.name.split("_")) + ":LITERAL:" for each in ResourceType
)
_DECIDED = {True: "Allowed operation = ", False: "Denied operation = "}
_SHOWN_OF_LONG = 64

# C0 and C1 controls, DEL, line and paragraph separator, and the marks that reorder text on a screen.
_UNSAFE = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069]")

_API_KEY_NAMES = """
Produce Fetch ListOffsets Metadata LeaderAndIsr StopReplica UpdateMetadata ControlledShutdown OffsetCommit OffsetFetch
FindCoordinator JoinGroup Heartbeat LeaveGroup SyncGroup DescribeGroups ListGroups SaslHandshake ApiVersions
CreateTopics DeleteTopics DeleteRecords InitProducerId OffsetForLeaderEpoch AddPartitionsToTxn AddOffsetsToTxn EndTxn
WriteTxnMarkers TxnOffsetCommit DescribeAcls CreateAcls DeleteAcls DescribeConfigs AlterConfigs AlterReplicaLogDirs
DescribeLogDirs SaslAuthenticate CreatePartitions CreateDelegationToken RenewDelegationToken ExpireDelegationToken
DescribeDelegationToken DeleteGroups ElectLeaders IncrementalAlterConfigs AlterPartitionReassignments
ListPartitionReassignments OffsetDelete DescribeClientQuotas AlterClientQuotas DescribeUserScramCredentials
AlterUserScramCredentials Vote BeginQuorumEpoch EndQuorumEpoch DescribeQuorum AlterPartition UpdateFeatures Envelope
FetchSnapshot DescribeCluster DescribeProducers BrokerRegistration BrokerHeartbeat UnregisterBroker
DescribeTransactions ListTransactions AllocateProducerIds ConsumerGroupHeartbeat ConsumerGroupDescribe
ControllerRegistration GetTelemetrySubscriptions PushTelemetry AssignReplicasToDirs ListConfigResources
DescribeTopicPartitions ShareGroupHeartbeat ShareGroupDescribe ShareFetch ShareAcknowledge AddRaftVoter
RemoveRaftVoter UpdateRaftVoter InitializeShareGroupState ReadShareGroupState WriteShareGroupState
DeleteShareGroupState ReadShareGroupStateSummary StreamsGroupHeartbeat StreamsGroupDescribe DescribeShareGroupOffsets
AlterShareGroupOffsets DeleteShareGroupOffsets StreamsGroupTopologyDescriptionUpdate UnregisterController
"""
API_KEY_NAMES = tuple(_API_KEY_NAMES.split())
"""The names of Kafka's requests by API key, as `ApiKeys.name` of Kafka 4.4.0 spells them."""


class AuditEntry(msgspec.Struct, gc=False):
    """One decided action. `acl` is None unless the rule is MatchingAcl."""

    level: int
    operation: int
    resource_type: int
    resource_name: str
    resource_reference_count: int
    verdict: Verdict
    acl: StandardAcl | None


class AuditSource(msgspec.Struct, gc=False):
    principal: str
    host: str
    request_type: int | None
    request_id: str | None = None
    trace_id: str | None = None
    caller: str | None = None
    """The name of the client, not of the principal that it asks about."""
    groups: Sequence[str] = ()
    """For the JSON layout; Kafka's has the group in the ACL that decided."""


def level_of(verdict: Verdict, log_if_allowed: object, log_if_denied: object) -> int:
    """The level of Kafka's StandardAuthorizer for this decision. Flags count as true unless they are False."""
    if verdict.allowed:
        return DEBUG if log_if_allowed is not False else TRACE
    return INFO if log_if_denied is not False else TRACE


_Request = tuple[AuditSource, Sequence[AuditEntry]]


class AuditLog(LineLog[_Request]):
    """Writes decided actions in one of two layouts; what can't be written is lost and counted."""

    # A closed standard output does not come back.
    retries = False

    def __init__(
        self,
        write: Callable[[str], object],
        metrics: Metrics,
        *,
        form: LogFormat = "TEXT",
        capacity: int = 16 * 1024 * 1024,
        linger_s: float = 0.02,
    ) -> None:
        super().__init__("klamm-audit", capacity=capacity, linger_s=linger_s)
        self._sink = write
        self._metrics = metrics
        self._layout = _json_lines if form == "JSON" else _kafka_lines
        # The length of a line whose names are all empty.
        self._line_bytes = len("".join(self._layout(0.0, _WIDEST_SOURCE, [_WIDEST_ENTRY], slice(1))).encode())

    def log(self, source: AuditSource, entries: Sequence[AuditEntry]) -> None:
        self._put((source, entries), len(entries), self._room(source, entries))

    def _room(self, source: AuditSource, entries: Sequence[AuditEntry]) -> int:
        principal = written_bytes(source.principal)
        again = min(principal, REPEATED_BYTES)
        # Measured together: a call costs more than the look itself.
        ids = f"{source.host}{source.request_id or ''}{source.trace_id or ''}{source.caller or ''}"
        line = self._line_bytes + written_bytes(ids)
        size = principal - again + len(entries) * (line + again)
        if source.groups:
            groups = groups_bytes(source.groups)
            size += groups + (len(entries) - 1) * (groups if groups <= REPEATED_BYTES else 0)
        for entry in entries:
            size += written_bytes(entry.resource_name)
            if entry.acl is not None:
                binding = entry.acl.binding
                size += _ACL_BYTES + written_bytes(binding.resource_name) + written_bytes(binding.host)
                size += again if binding.principal == source.principal else written_bytes(binding.principal)
        # The first line names the principal twice if its own ACL decided.
        return size + principal - again

    def _lines_of(self, time_s: float, request: _Request, part: slice) -> Iterable[str]:
        return self._layout(time_s, *request, part)

    def _write(self, text: str) -> None:
        self._sink(text)

    def _count_written(self, lines: int) -> None:
        self._metrics.audit_lines_written += lines

    def _count_dropped(self, lines: int) -> None:
        self._metrics.audit_lines_dropped += lines

    def _count_lost(self, lines: int) -> None:
        self._metrics.audit_lines_failed += lines

    def _on_failure(self, fault: Exception, *, is_news: bool) -> None:
        if is_news:
            extra = {"lines_lost_so_far": self._metrics.audit_lines_failed}
            _LOG.error("audit_write_failed", exc_info=fault, extra=extra)

    def _on_recovery(self) -> None:
        _LOG.warning("audit_written_again", extra={"lines_lost_so_far": self._metrics.audit_lines_failed})


def _kafka_lines(time_s: float, source: AuditSource, entries: Sequence[AuditEntry], part: slice) -> Iterator[str]:
    """Kafka's log4j layout: [%d] %p %m (%c)%n."""
    seconds = int(time_s)
    stamp = f"[{_stamp(seconds)},{int((time_s - seconds) * 1000):03d}] "
    return _lines(source, entries, part, _printable, (stamp, " ", " (kafka.authorizer.logger)\n"))


def _json_lines(time_s: float, source: AuditSource, entries: Sequence[AuditEntry], part: slice) -> Iterator[str]:
    seconds = int(time_s)
    stamp = f'{json_stamp(seconds)}{int((time_s - seconds) * 1000):03d}Z","level":"'
    end = '"' if source.request_id is None else f'","request_id":"{json_content(source.request_id)}"'
    if source.trace_id is not None:
        end += f',"trace_id":"{json_content(source.trace_id)}"'
    if source.caller is not None:
        end += f',"caller":"{json_content(source.caller)}"'
    before = '","logger":"kafka.authorizer.logger","event":"decision","message":"'
    groups = groups_content(source.groups)
    if groups_bytes(source.groups) <= REPEATED_BYTES:
        yield from _lines(source, entries, part, json_content, (stamp, before, f"{end}{groups}}}\n"))
        return
    lines = _lines(source, entries, part, json_content, (stamp, before, end))
    for at, line in enumerate(lines, part.start or 0):
        yield f"{line}{'' if at else groups}}}\n"


def _lines(
    source: AuditSource,
    entries: Sequence[AuditEntry],
    part: slice,
    shown: Callable[[str], str],
    around: tuple[str, str, str],
) -> Iterator[str]:
    """`shown` escapes names; `around` stands before and after the level, and at the end."""
    stamp, before, end = around
    principal = shown(source.principal)
    # None if the principal may be repeated as it is.
    short = None if len(entries) == 1 or len(principal.encode()) <= REPEATED_BYTES else _short(source.principal)
    where = f" from host = {shown(source.host)} on resource = "
    request = f" for request = {request_name(source.request_type)} with resourceRefCount = "
    for at, entry in enumerate(entries[part], part.start or 0):
        verdict, acl = entry.verdict, entry.acl
        if at and short is not None:
            principal, acl = shown(short), _shortened(acl, source.principal, short)
        rule = verdict.rule_word if acl is None else shown(f"{verdict.rule_word}(acl={acl})")
        yield (
            f"{stamp}{_LEVEL_NAMES[entry.level]}{before}Principal = {principal} is {_DECIDED[verdict.allowed]}"
            f"{_OPERATIONS[entry.operation]}{where}{_RESOURCE_TYPES[entry.resource_type]}"
            f"{shown(entry.resource_name)}{request}{entry.resource_reference_count} based on rule {rule}{end}"
        )


def request_name(api_key: int | None) -> str:
    """The number itself where Kafka 4.4.0 has no name for it, as AclAuthorizer printed it; or `null`."""
    if api_key is None:
        return "null"
    return API_KEY_NAMES[api_key] if 0 <= api_key < len(API_KEY_NAMES) else str(api_key)


def _short(principal: str) -> str:
    """How a long principal is shown in all lines of a request but the first."""
    encoded = principal.encode("utf-8", "surrogatepass")
    mark = f"{len(encoded)} bytes, SHA-256 {hashlib.sha256(encoded).hexdigest()[:16]}, in full in the first line"
    return f"{principal[:_SHOWN_OF_LONG]}... [{mark}]"


def _shortened(acl: StandardAcl | None, principal: str, short: str) -> StandardAcl | None:
    if acl is None or acl.binding.principal != principal:
        return acl
    return replace(acl, binding=acl.binding._replace(principal=short))


def _printable(text: str) -> str:
    return text if text.isprintable() else _UNSAFE.sub(_escaped, text)


@lru_cache(maxsize=4)
def _stamp(seconds: int) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(seconds))


def _escaped(found: re.Match[str]) -> str:
    return f"\\u{ord(found[0]):04x}"


def _widest(words: Sequence[str]) -> int:
    return max(range(len(words)), key=lambda at: len(words[at]))


# These two give the size of a line without its names.
_WIDEST_SOURCE = AuditSource("", "", _widest(API_KEY_NAMES), "", "", "")
_WIDEST_ENTRY = AuditEntry(
    DEBUG, _widest(_OPERATIONS), _widest(_RESOURCE_TYPES), "", -(2**31), Verdict.DEFAULT_ALLOW, None
)
_ACL_BYTES = 192
"""The same of an ACL: `(acl=StandardAcl(resourceType=TRANSACTIONAL_ID, resourceName=, ...))`."""
