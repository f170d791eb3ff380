"""Turns kafka-acls' options into ACLs, with the rules, defaults and refusals of Kafka's AclCommand, in its order."""

from collections.abc import Mapping, Sequence
from itertools import product
from typing import NamedTuple

from app.client.acls.options import ExecutionError, Given
from app.core.kafka.bindings import AclBinding
from app.core.kafka.codes import CLUSTER_NAME, WILDCARD, AclOperation, AclPermissionType, PatternType, ResourceType
from app.core.kafka.operations import supported_operations
from app.core.spelling import did_you_mean, nearest
from app.formats.arguments import one_line
from app.formats.command_errors import UsageError


class Entry(NamedTuple):
    """An access control entry: an ACL without its pattern."""

    principal: str
    host: str
    operation: AclOperation
    permission_type: AclPermissionType

    @staticmethod
    def of(binding: AclBinding) -> "Entry":
        return Entry(binding.principal, binding.host, binding.operation, binding.permission_type)


class Pattern(NamedTuple):
    """A resource pattern, or a filter for patterns (ANY, MATCH). Sorts as ACLs do."""

    resource_type: ResourceType
    name: str
    pattern_type: PatternType

    @staticmethod
    def of(binding: AclBinding) -> "Pattern":
        return Pattern(binding.resource_type, binding.resource_name, binding.pattern_type)

    def with_entry(self, entry: Entry) -> AclBinding:
        return AclBinding(*(*self, *entry))


Meant = dict[Pattern, frozenset[Entry]]
"""The ACLs to add or remove; patterns in order. Removing a pattern without entries removes all ACLs on it."""

_ACTIONS = ("add", "remove", "list")
_EXCLUDED = (
    *product(
        ["list"], ["comment", "producer", "consumer", "allow-host", "allow-principal", "deny-host", "deny-principal"]
    ),
    *product(["list", "remove"], ["expires", "owner"]),
    *product(["add", "remove"], ["at"]),
    *product(["producer", "consumer"], ["operation", "deny-principal", "deny-host"]),
)
_PRODUCER = {
    ResourceType.TOPIC: (AclOperation.WRITE, AclOperation.DESCRIBE, AclOperation.CREATE),
    ResourceType.TRANSACTIONAL_ID: (AclOperation.WRITE, AclOperation.DESCRIBE),
}
_CONSUMER = {
    ResourceType.TOPIC: (AclOperation.READ, AclOperation.DESCRIBE),
    ResourceType.GROUP: (AclOperation.READ,),
}
_CLUSTER = Pattern(ResourceType.CLUSTER, CLUSTER_NAME, PatternType.LITERAL)
_SHOWN = 100
_HINTS = 3
_JAVA_TRIMS = "".join(map(chr, range(0x21)))
_OPERATIONS = {each.camel_case.upper(): each for each in AclOperation}


def check_options(given: Given) -> str:
    """Returns `add`, `remove` or `list`. Raises UsageError for options that exclude each other."""
    for name in ("bootstrap-server", "bootstrap-controller"):
        if given.has(name):
            raise UsageError(f"--{name} names a Kafka broker, but this command asks Klamm; use --klamm URL instead")
    actions = [name for name in _ACTIONS if given.has(name)]
    if len(actions) != 1:
        raise UsageError("Command must include exactly one action: --list, --add, --remove. ")
    for used, other in _EXCLUDED:
        if given.has(used) and given.has(other):
            raise UsageError(f'Option "[{used}]" can\'t be used with option "[{other}]"')
    if given.has("principal") and not given.has("list"):
        raise UsageError("The --principal option is only available if --list is set")
    if given.has("producer") and not given.has("topic"):
        raise UsageError("With --producer you must specify a --topic")
    if given.has("idempotent") and not given.has("producer"):
        raise UsageError("The --idempotent option is only available if --producer is set")
    excess = not given.has("producer") and (given.has("cluster") or given.has("transactional-id"))
    if given.has("consumer") and (not given.has("topic") or not given.has("group") or excess):
        raise UsageError(
            "With --consumer you must specify a --topic and a --group and no --cluster or --transactional-id option "
            "should be specified."
        )
    return actions[0]


def acls_to_add(given: Given) -> Meant:
    """Raises UsageError or ExecutionError."""
    pattern_type = _pattern_type(given)
    if pattern_type not in (PatternType.LITERAL, PatternType.PREFIXED):
        raise UsageError(f"A '--resource-pattern-type' value of '{pattern_type.name}' is not valid when adding acls.")
    meant = acls_to_remove(given)
    if not all(meant.values()):
        raise UsageError("You must specify one of: --allow-principal, --deny-principal when trying to add ACLs.")
    return meant


def acls_to_remove(given: Given) -> Meant:
    """Raises UsageError or ExecutionError."""
    meant: Meant = {}
    if given.has("producer"):
        meant = _of_clients(given, _PRODUCER)
        if given.has("idempotent"):
            meant[_CLUSTER] = _entries(given, (AclOperation.IDEMPOTENT_WRITE,))
    if given.has("consumer"):
        for pattern, entries in _of_clients(given, _CONSUMER).items():
            meant[pattern] = meant.get(pattern, frozenset()) | entries
    elif not given.has("producer"):
        operations = [_operation(word) for word in given.values("operation")]
        entries = _entries(given, operations or [AclOperation.ALL])
        meant = dict.fromkeys(_patterns_or_refusal(given), entries)
    meant = dict(sorted(meant.items()))
    for pattern, entries in meant.items():
        valid = (AclOperation.ALL, *supported_operations(pattern.resource_type))
        if any(entry.operation not in valid for entry in entries):
            words = ", ".join(operation.name for operation in valid)
            raise UsageError(
                f"ResourceType {pattern.resource_type.name} only supports operations [{words}]",
                hint=_hint_at_operations(given),
            )
    return meant


def patterns_to_list(given: Given) -> list[Pattern]:
    """Empty for every ACL."""
    return sorted(_patterns(given))


def principals_to_list(given: Given) -> list[str]:
    """Empty for all."""
    return sorted(_principals(given, "principal"))


def _pattern_type(given: Given) -> PatternType:
    found = [_pattern_type_named(word) for word in given.values("resource-pattern-type")]
    # Called for its refusal of a second value: Kafka complains about an unreadable value first.
    given.value("resource-pattern-type")
    return found[0] if found else PatternType.LITERAL


def _pattern_type_named(word: str) -> PatternType:
    known = [each for each in PatternType if each is not PatternType.UNKNOWN]
    for member in known:
        if [*map(_folded, word)] == [*map(_folded, member.name)]:
            return member
    question = did_you_mean(word[:_SHOWN], [each.name for each in known])
    raise ExecutionError(
        f"Cannot parse argument '{word}' of option resource-pattern-type",
        hint="--resource-pattern-type must be LITERAL or PREFIXED, or with --list and --remove also ANY or "
        f"MATCH{question}",
    )


def _folded(character: str) -> str:
    """The character as Java's `equalsIgnoreCase` compares it: one to one, so `İ` is an I, but `ﬁ` is not FI."""
    upper = character.upper()
    return (upper if len(upper) == 1 else character).lower()[0]


def _operation(word: str) -> AclOperation:
    return _OPERATIONS.get(_trimmed(word).upper(), AclOperation.UNKNOWN)


def _entries(given: Given, operations: Sequence[AclOperation]) -> frozenset[Entry]:
    found: set[Entry] = set()
    sides = {
        (side, permission_type): _principals(given, f"{side}-principal")
        for side, permission_type in (("allow", AclPermissionType.ALLOW), ("deny", AclPermissionType.DENY))
    }
    for (side, permission_type), principals in sides.items():
        if principals and AclOperation.ANY in operations:
            raise ExecutionError("operation must not be ANY")
        hosts = {_trimmed(host) for host in given.values(f"{side}-host")} or {WILDCARD}
        found |= {
            Entry(principal, host, operation, permission_type)
            for principal in principals
            for host in hosts
            for operation in operations
        }
    return frozenset(found)


def _principals(given: Given, option: str) -> set[str]:
    found = set()
    for text in given.values(option):
        principal = _trimmed(text)
        if ":" not in principal:
            raise ExecutionError(f"expected a string in format principalType:principalName but got {principal}")
        found.add(principal)
    return found


def _patterns(given: Given) -> set[Pattern]:
    pattern_type = _pattern_type(given)
    options = {
        "topic": ResourceType.TOPIC,
        "group": ResourceType.GROUP,
        "transactional-id": ResourceType.TRANSACTIONAL_ID,
        "delegation-token": ResourceType.DELEGATION_TOKEN,
        "user-principal": ResourceType.USER,
    }
    found = {
        # Kafka does not trim transactional ids.
        Pattern(resource_type, name if option == "transactional-id" else _trimmed(name), pattern_type)
        for option, resource_type in options.items()
        for name in given.values(option)
    }
    if pattern_type is PatternType.LITERAL and (given.has("cluster") or given.has("idempotent")):
        found.add(_CLUSTER)
    return found


def _patterns_or_refusal(given: Given) -> set[Pattern]:
    patterns = _patterns(given)
    if not patterns:
        raise UsageError(
            "You must provide at least one resource: --topic <topic> or --cluster or --group <group> or "
            "--delegation-token <Delegation Token ID>"
        )
    return patterns


def _of_clients(given: Given, operations: Mapping[ResourceType, Sequence[AclOperation]]) -> Meant:
    return {
        pattern: _entries(given, operations[pattern.resource_type])
        for pattern in _patterns_or_refusal(given)
        if pattern.resource_type in operations
    }


def _hint_at_operations(given: Given) -> str | None:
    """Names the unknown words. Kafka refuses them with the text for operations that the resource type does not have."""
    known = [each.camel_case for each in AclOperation if each not in (AclOperation.UNKNOWN, AclOperation.ANY)]
    hints = []
    for word in given.values("operation"):
        if _operation(word) is AclOperation.UNKNOWN:
            meant = nearest(_trimmed(word)[:_SHOWN].replace("_", "").replace("-", ""), known)
            question = f"one of {', '.join(known)}" if meant is None else f"did you mean {meant}?"
            hints.append(f"--operation: `{one_line(word[:_SHOWN])}` is not an operation; {question}")
    return "; ".join(hints[:_HINTS]) or None


def _trimmed(text: str) -> str:
    return text.strip(_JAVA_TRIMS)
