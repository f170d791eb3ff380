"""What clients of Kafka need, as ACLs: a few names become the ACLs that such a client's documentation asks for."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from app.console.difference import MAX_CHANGES
from app.core.kafka.bindings import AclBinding
from app.core.kafka.codes import WILDCARD, AclOperation, AclPermissionType, PatternType, ResourceType
from app.core.kafka.validation import validate_new_acl
from app.formats.command_errors import UsageError

_Op = AclOperation
_TOPIC, _GROUP, _TRANSACTION = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.TRANSACTIONAL_ID

Needs = Iterator[tuple[ResourceType, str, Iterable[AclOperation]]]
Fields = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Field:
    name: str
    label: str
    hint: str
    is_needed: bool = True


@dataclass(frozen=True, slots=True)
class Preset:
    title: str
    about: str
    fields: tuple[Field, ...]
    needs: Callable[[Fields], Needs]


_TOPICS = Field("topics", "Topics", "orders, payments.*")
_GROUP_FIELD = Field("group", "Consumer group", "reports")


def _producer(fields: Fields) -> Needs:
    for name in _names(fields, "topics"):
        yield _TOPIC, name, (_Op.WRITE, _Op.DESCRIBE, _Op.CREATE)


def _consumer(fields: Fields) -> Needs:
    for name in _names(fields, "topics"):
        yield _TOPIC, name, (_Op.READ, _Op.DESCRIBE)
    yield _GROUP, fields["group"], (_Op.READ,)


def _transactional(fields: Fields) -> Needs:
    yield from _producer(fields)
    yield _TRANSACTION, fields["transactional_id"], (_Op.WRITE, _Op.DESCRIBE)


def _streams(fields: Fields) -> Needs:
    own = f"{fields['application_id']}*"
    for name in _names(fields, "inputs"):
        yield _TOPIC, name, (_Op.READ, _Op.DESCRIBE)
    for name in _names(fields, "outputs"):
        yield _TOPIC, name, (_Op.WRITE, _Op.DESCRIBE)
    yield _TOPIC, own, (_Op.READ, _Op.WRITE, _Op.CREATE, _Op.DELETE, _Op.DESCRIBE)
    yield _GROUP, own, (_Op.READ, _Op.DESCRIBE)
    yield _TRANSACTION, own, (_Op.WRITE, _Op.DESCRIBE)


def _share(fields: Fields) -> Needs:
    for name in _names(fields, "topics"):
        yield _TOPIC, name, (_Op.READ, _Op.DESCRIBE)
    yield _GROUP, fields["group"], (_Op.READ, _Op.DESCRIBE)


def _connect(fields: Fields) -> Needs:
    yield _GROUP, fields["group"], (_Op.READ,)
    yield _TOPIC, fields["internal"], (_Op.READ, _Op.WRITE, _Op.CREATE, _Op.DESCRIBE, _Op.DESCRIBE_CONFIGS)
    for name in _names(fields, "sources"):
        yield _TOPIC, name, (_Op.WRITE, _Op.CREATE, _Op.DESCRIBE)
    for name in _names(fields, "sinks"):
        yield _TOPIC, name, (_Op.READ, _Op.DESCRIBE)
    if fields["sinks"].strip():
        yield _GROUP, "connect-*", (_Op.READ,)


def _mirror_source(fields: Fields) -> Needs:
    for name in _names(fields, "topics"):
        yield _TOPIC, name, (_Op.READ, _Op.DESCRIBE, _Op.DESCRIBE_CONFIGS)
    yield _TOPIC, "mm2-*", (_Op.READ, _Op.WRITE, _Op.CREATE, _Op.DESCRIBE)
    yield _GROUP, "*", (_Op.DESCRIBE,)


def _mirror_target(fields: Fields) -> Needs:
    mirrored = f"{fields['alias']}.*"
    yield _TOPIC, mirrored, (_Op.WRITE, _Op.CREATE, _Op.DESCRIBE, _Op.ALTER, _Op.ALTER_CONFIGS, _Op.DESCRIBE_CONFIGS)
    # MirrorMaker reads its checkpoints when a task starts, so as not to take the offsets of groups back.
    yield _TOPIC, f"{fields['alias']}.checkpoints.internal", (_Op.READ,)
    yield _TOPIC, "mm2-*", (_Op.READ, _Op.WRITE, _Op.CREATE, _Op.DESCRIBE, _Op.DESCRIBE_CONFIGS)
    yield _TOPIC, "heartbeats", (_Op.READ, _Op.WRITE, _Op.CREATE, _Op.DESCRIBE)
    yield _GROUP, f"{fields['alias']}-mm2*", (_Op.READ, _Op.DESCRIBE)


PRESETS: Mapping[str, Preset] = MappingProxyType(
    {
        "producer": Preset("Producer", "writes to topics, and may create them", (_TOPICS,), _producer),
        "consumer": Preset("Consumer", "reads topics in a consumer group", (_TOPICS, _GROUP_FIELD), _consumer),
        "transactional": Preset(
            "Transactional producer",
            "writes to topics in transactions",
            (_TOPICS, Field("transactional_id", "Transactional id", "checkout-*")),
            _transactional,
        ),
        "streams": Preset(
            "Kafka Streams",
            "reads, writes, and keeps its state in topics that begin with its application id",
            (
                Field("application_id", "Application id", "fraud-scores"),
                Field("inputs", "Input topics", "orders, payments"),
                Field("outputs", "Output topics", "fraud.scores", is_needed=False),
            ),
            _streams,
        ),
        "share": Preset(
            "Share group",
            "reads topics as a queue (KIP-932)",
            (_TOPICS, Field("group", "Share group", "work")),
            _share,
        ),
        "connect": Preset(
            "Kafka Connect",
            "a worker cluster with its own topics, and what its connectors write and read",
            (
                Field("group", "Group of the workers (group.id)", "connect-cluster"),
                Field("internal", "Topics of config, offsets and status", "connect-*"),
                Field("sources", "Topics that source connectors write", "cdc.*", is_needed=False),
                Field("sinks", "Topics that sink connectors read", "orders", is_needed=False),
            ),
            _connect,
        ),
        "mirror-source": Preset(
            "MirrorMaker, on the source",
            "reads topics and their configuration, and the offsets of all groups",
            (_TOPICS,),
            _mirror_source,
        ),
        "mirror-target": Preset(
            "MirrorMaker, on the target",
            "keeps the mirrored topics, which begin with the source's alias",
            (Field("alias", "Alias of the source", "eu-west"),),
            _mirror_target,
        ),
    }
)


def acls_of(preset: Preset, fields: Fields) -> list[AclBinding]:
    """Raises UsageError, which names the field that is wrong."""
    for each in preset.fields:
        if each.is_needed and not fields.get(each.name, "").strip():
            raise UsageError(f"{each.label}: enter a value, such as {each.hint}")
    principal, host = fields.get("principal", ""), fields.get("host", "").strip() or WILDCARD
    if ":" not in principal:
        raise UsageError("Principal: enter type and name, such as User:orders-service")
    given = {each.name: fields.get(each.name, "").strip() for each in preset.fields}
    found: dict[AclBinding, None] = {}
    for resource_type, pattern, operations in preset.needs(given):
        name, pattern_type = _pattern(pattern)
        for operation in operations:
            acl = AclBinding(resource_type, name, pattern_type, principal, host, operation, AclPermissionType.ALLOW)
            refusal = validate_new_acl(acl)
            if refusal is not None:
                raise UsageError(refusal.message)
            found[acl] = None
    return list(found)


def _names(fields: Fields, name: str) -> list[str]:
    """Topics have no commas in their names. Raises UsageError for too many."""
    if fields[name].count(",") > MAX_CHANGES:
        raise UsageError(f"more than {MAX_CHANGES} topics; use `klamm plan` with a file")
    return [each.strip() for each in fields[name].split(",") if each.strip()]


def _pattern(text: str) -> tuple[str, PatternType]:
    """`orders.*` means all names that begin with `orders.`; `*` alone means every name."""
    if text != WILDCARD and text.endswith(WILDCARD):
        return text[:-1], PatternType.PREFIXED
    return text, PatternType.LITERAL
