"""Strimzi's KafkaUser resources: a document for each principal, its ACLs under `spec.authorization`; written here.

Strimzi makes the principal of the resource's name: User:CN=<name> with TLS, User:<name> otherwise.
"""

import re
from collections.abc import Sequence
from typing import TextIO

from app.core.kafka.bindings import AclBinding
from app.core.kafka.codes import AclOperation, PatternType, ResourceType
from app.formats.acl_entries import FormatLimitError
from app.formats.quoting import wide_quoted
from app.formats.words import spellings

MAX_NAME = 253
MAX_TLS_NAME = 64
"""A certificate's common name is no longer."""

KIND = "KafkaUser"
GROUP = "kafka.strimzi.io/"
TLS = ("tls", "tls-external")
SCRAM = "scram-sha-512"

OPERATIONS = spellings(AclOperation, up_to=AclOperation.IDEMPOTENT_WRITE)
RESOURCE_TYPES = {"topic": "TOPIC", "group": "GROUP", "cluster": "CLUSTER", "transactionalId": "TRANSACTIONAL_ID"}
PATTERN_TYPES = {"literal": "LITERAL", "prefix": "PREFIXED"}

_OPERATION_WORDS = {member: word for word, name in OPERATIONS.items() for member in [AclOperation[name]]}
_RESOURCE_WORDS = {ResourceType[name]: word for word, name in RESOURCE_TYPES.items()}
_PATTERN_WORDS = {PatternType[name]: word for word, name in PATTERN_TYPES.items()}

_BEGINS = re.compile(rb'^(?:apiVersion|kind)[ \t]*:|\A\s*\{\s*"(?:apiVersion|kind)"\s*:\s*"(?!KafkaAcl)', re.MULTILINE)
_LABEL = r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?"
NAME = re.compile(rf"{_LABEL}(?:\.{_LABEL})*\Z")
_PRINCIPAL = re.compile(r"User:(CN=)?(.*)\Z", re.DOTALL)


def is_strimzi(head: bytes) -> bool:
    """Whether a file that begins so holds resources of Kubernetes."""
    return _BEGINS.search(head) is not None


def write_strimzi(bindings: Sequence[AclBinding], out: TextIO) -> None:
    """A KafkaUser for each principal, in the order of their names; ACLs that differ by operation only share a rule."""
    users: dict[str, list[AclBinding]] = {}
    for binding in bindings:
        users.setdefault(_checked(binding), []).append(binding)
    for acls in users.values():
        odd = next((each for each in acls if each.principal != acls[0].principal), None)
        if odd is not None:
            raise FormatLimitError(odd, f"a KafkaUser of this name is `{acls[0].principal}` already (Strimzi)")
    for at, name in enumerate(sorted(users)):
        out.write("---\n" if at else "")
        _write_user(name, users[name], out)


def _checked(binding: AclBinding) -> str:
    """The name of the binding's KafkaUser. Raises FormatLimitError if Strimzi can't say the binding."""
    found = _PRINCIPAL.match(binding.principal)
    if found is None:
        raise FormatLimitError(binding, "Strimzi knows principals of type User only")
    name = found[2]
    if NAME.match(name) is None or len(name) > (MAX_TLS_NAME if found[1] else MAX_NAME):
        raise FormatLimitError(
            binding,
            "Strimzi makes principals of resource names: User:<name> or User:CN=<name>, a name of Kubernetes (lower "
            f"case letters, digits, `-`, `.`), of up to {MAX_TLS_NAME} characters with CN=",
        )
    if binding.resource_type not in _RESOURCE_WORDS:
        raise FormatLimitError(binding, f"Strimzi has no ACLs on {binding.resource_type.name}")
    if binding.operation not in _OPERATION_WORDS:
        raise FormatLimitError(binding, f"Strimzi has no operation {binding.operation.name}")
    if binding.resource_type is ResourceType.CLUSTER and binding.pattern_type is not PatternType.LITERAL:
        raise FormatLimitError(binding, "Strimzi's ACLs on the cluster have no pattern type but LITERAL")
    return name


def _write_user(name: str, acls: Sequence[AclBinding], out: TextIO) -> None:
    authentication = "tls" if acls[0].principal == f"User:CN={name}" else SCRAM
    out.write(
        f"apiVersion: {GROUP}v1\nkind: {KIND}\nmetadata:\n  name: {wide_quoted(name)}\nspec:\n"
        f"  authentication:\n    type: {authentication}\n  authorization:\n    type: simple\n    acls:\n"
    )
    rules: dict[tuple[object, ...], list[AclBinding]] = {}
    for each in acls:
        key = (each.permission_type, each.resource_type, each.resource_name, each.pattern_type, each.host)
        rules.setdefault(key, []).append(each)
    for rule in rules.values():
        _write_rule(rule, out)


def _write_rule(rule: Sequence[AclBinding], out: TextIO) -> None:
    first = rule[0]
    out.write(
        f"      - type: {first.permission_type.name.lower()}\n        resource:\n"
        f"          type: {_RESOURCE_WORDS[first.resource_type]}\n"
    )
    if first.resource_type is not ResourceType.CLUSTER:
        out.write(
            f"          name: {wide_quoted(first.resource_name)}\n"
            f"          patternType: {_PATTERN_WORDS[first.pattern_type]}\n"
        )
    words = ", ".join(_OPERATION_WORDS[each.operation] for each in rule)
    out.write(f"        host: {wide_quoted(first.host)}\n        operations: [{words}]\n")
