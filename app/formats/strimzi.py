"""Strimzi's KafkaUser resources: a document for each principal, its ACLs under `spec.authorization`.

Strimzi makes the principal of the resource's name: User:CN=<name> with _TLS, User:<name> otherwise.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import IO, TextIO

from app.core.kafka.bindings import AclBinding
from app.core.kafka.codes import CLUSTER_NAME, WILDCARD, AclOperation, PatternType, ResourceType
from app.formats.acl_entries import MAX_SHOWN, Entry, FormatLimitError
from app.formats.quoting import wide_quoted
from app.formats.words import spellings, word_of
from app.formats.yaml_documents import Value
from app.formats.yaml_resources import Part, by_rule, read_resources, rules_in

_MAX_NAME = 253
_MAX_TLS_NAME = 64
"""A certificate's common name is no longer."""

_KIND = "KafkaUser"
_GROUP = "kafka.strimzi.io/"
_TLS = ("tls", "tls-external")
_SCRAM = "scram-sha-512"

_OPERATIONS = spellings(AclOperation, up_to=AclOperation.IDEMPOTENT_WRITE)
_RESOURCE_TYPES = {"topic": "TOPIC", "group": "GROUP", "cluster": "CLUSTER", "transactionalId": "TRANSACTIONAL_ID"}
_PATTERN_TYPES = {"literal": "LITERAL", "prefix": "PREFIXED"}

_OPERATION_WORDS = {AclOperation[name]: word for word, name in _OPERATIONS.items()}
_RESOURCE_WORDS = {ResourceType[name]: word for word, name in _RESOURCE_TYPES.items()}
_PATTERN_WORDS = {PatternType[name]: word for word, name in _PATTERN_TYPES.items()}

_BEGINS = re.compile(rb'^(?:apiVersion|kind)[ \t]*:|\A\s*\{\s*"(?:apiVersion|kind)"\s*:\s*"(?!KafkaAcl)', re.MULTILINE)
_LABEL = r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?"
_NAME = re.compile(rf"{_LABEL}(?:\.{_LABEL})*\Z")
_PRINCIPAL = re.compile(r"User:(CN=)?(.*)\Z", re.DOTALL)

_LISTS = ("List", "KafkaUserList")
_CLUSTER = {"name": CLUSTER_NAME, "patternType": "literal"}
_PERMISSION_TYPES = {"allow": "ALLOW", "deny": "DENY"}
_RULE = ("type", "resource", "host", "operation", "operations")
_RESOURCE = ("type", "name", "patternType")
_SPEC = ("authentication", "authorization", "quotas", "template")
_AUTHORIZATION = ("type", "acls")
_WITHOUT_ACLS = re.compile(r"[a-z0-9]+\Z|(?:[a-z]+|[-a-z0-9.]+\.k8s\.io)/\w+\Z|(?:[a-z]+\.)?strimzi\.io/\w+\Z")
"""The API versions of Kubernetes itself, and of Strimzi: none of their kinds but KafkaUser holds an ACL."""


def is_strimzi(head: bytes) -> bool:
    return _BEGINS.search(head) is not None


def read_strimzi(stream: IO[bytes]) -> Iterator[Entry]:
    """The ACLs of all KafkaUsers, also in a List of `kubectl get`; kinds that hold none are passed over."""
    return read_resources(stream, _resource, kind=_KIND, lists=_LISTS)


def write_strimzi(bindings: Sequence[AclBinding], out: TextIO) -> None:
    """A KafkaUser for each principal, in the order of their names; ACLs that differ by operation only share a rule."""
    users: dict[str, list[AclBinding]] = {}
    for binding in bindings:
        users.setdefault(_checked(binding), []).append(binding)
    for acls in users.values():
        odd = next((each for each in acls if each.principal != acls[0].principal), None)
        if odd is not None:
            raise FormatLimitError(odd, f"Strimzi already has a KafkaUser of this name, `{acls[0].principal}`")
    for at, name in enumerate(sorted(users)):
        out.write("---\n" if at else "")
        _write_user(name, users[name], out)


def _checked(binding: AclBinding) -> str:
    """The name of the binding's KafkaUser. Raises FormatLimitError if Strimzi can't say the binding."""
    found = _PRINCIPAL.match(binding.principal)
    if found is None:
        raise FormatLimitError(binding, "Strimzi supports only principals of type User")
    name = found[2]
    if _NAME.match(name) is None or len(name) > (_MAX_TLS_NAME if found[1] else _MAX_NAME):
        raise FormatLimitError(
            binding,
            "Strimzi makes principals from resource names: User:<name> or User:CN=<name>, with a Kubernetes name "
            f"(lower case letters, digits, `-`, `.`) of up to {_MAX_TLS_NAME} characters with CN=",
        )
    if binding.resource_type not in _RESOURCE_WORDS:
        raise FormatLimitError(binding, f"Strimzi has no ACLs on {binding.resource_type.name}")
    if binding.operation not in _OPERATION_WORDS:
        raise FormatLimitError(binding, f"Strimzi has no operation {binding.operation.name}")
    if binding.resource_type is ResourceType.CLUSTER and binding.pattern_type is not PatternType.LITERAL:
        raise FormatLimitError(binding, "Strimzi's ACLs on the cluster have no pattern type but LITERAL")
    return name


def _write_user(name: str, acls: Sequence[AclBinding], out: TextIO) -> None:
    authentication = "tls" if acls[0].principal == f"User:CN={name}" else _SCRAM
    out.write(
        f"apiVersion: {_GROUP}v1\nkind: {_KIND}\nmetadata:\n  name: {wide_quoted(name)}\nspec:\n"
        f"  authentication:\n    type: {authentication}\n  authorization:\n    type: simple\n    acls:\n"
    )
    for rule in by_rule(acls):
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


def _resource(resource: Part, kind: str, version: str) -> Iterator[Entry]:
    what = f"`{version[:MAX_SHOWN]}` `{kind[:MAX_SHOWN]}`"
    if kind == _KIND and version.startswith(_GROUP):
        yield from _user(resource)
    elif kind.lower() == _KIND.lower():
        yield resource.line, [f"{what}: write apiVersion {_GROUP}v1, kind {_KIND}"]
    elif _WITHOUT_ACLS.match(version) is None:
        # It may be of another tool that holds ACLs, perhaps a DENY.
        yield resource.line, [f"{what}: unknown to Klamm, so it may hold ACLs; leave it out if it holds none"]


def _user(user: Part) -> Iterator[Entry]:
    metadata, spec = user.part("metadata"), user.part("spec")
    principal, rules = "", list[Value]()
    if spec is not None:
        spec.allows_only(*_SPEC)
        principal = "" if metadata is None else _principal(metadata, spec)
        rules = _rules(spec)
    return rules_in(user, rules, partial(_rule, principal), "resource and operations")


def _principal(metadata: Part, spec: Part) -> str:
    problems = spec.problems
    name = metadata.text("name")
    if not problems and (_NAME.match(name) is None or len(name) > _MAX_NAME):
        problems.append(f"`name`: `{name[:MAX_SHOWN]}` is not a Kubernetes name")
    if not spec.has("authentication"):
        return f"User:{name}"
    authentication = spec.part("authentication")
    kind = "" if authentication is None else authentication.text("type")
    if not problems and kind not in (*_TLS, _SCRAM):
        known = ", ".join((*_TLS, _SCRAM))
        problems.append(
            f"`authentication`: the principal of type `{kind[:MAX_SHOWN]}` is unknown to Klamm; write one of {known}"
        )
    return f"User:CN={name}" if kind in _TLS else f"User:{name}"


def _rules(spec: Part) -> list[Value]:
    authorization = spec.part("authorization") if spec.has("authorization") else None
    if authorization is None:
        return []
    kind = authorization.text("type")
    if kind == "simple":
        authorization.allows_only(*_AUTHORIZATION)
    elif not spec.problems:
        spec.problems.append(f"`authorization`: type `{kind[:MAX_SHOWN]}` holds no ACLs; write `simple`")
    return authorization.items("acls")


def _rule(principal: str, rule: Part) -> Iterator[Entry]:
    rule.allows_only(*_RULE)
    resource = rule.part("resource")
    pattern = {} if resource is None else _pattern(resource)
    operations = [word_of("operations", each, _OPERATIONS, rule.problems) for each in _operations(rule)]
    host = rule.text("host", WILDCARD)
    permission_type = word_of("type", rule.text("type", "allow"), _PERMISSION_TYPES, rule.problems)
    return rule.entries(operations, **pattern, principal=principal, host=host, permission_type=permission_type)


def _pattern(resource: Part) -> Mapping[str, str]:
    resource.allows_only(*_RESOURCE)
    resource_type = word_of("type", resource.text("type"), _RESOURCE_TYPES, resource.problems)
    if resource_type == ResourceType.CLUSTER.name:
        # Strimzi passes both over, whatever they are.
        if any(resource.text(each, own) != own for each, own in _CLUSTER.items()):
            resource.problems.append("`resource`: a cluster has neither name nor patternType; remove them")
        name, pattern_type = CLUSTER_NAME, PatternType.LITERAL.name
    else:
        name, pattern_type = resource.text("name"), resource.text("patternType", "literal")
        pattern_type = word_of("patternType", pattern_type, _PATTERN_TYPES, resource.problems)
    return {"resource_type": resource_type, "resource_name": name, "pattern_type": pattern_type}


def _operations(rule: Part) -> list[str]:
    one, many = rule.has("operation"), rule.has("operations")
    if one and many:
        rule.problems.append("`operation` and `operations`: both are given; keep `operations`")
        return []
    if one:
        return [rule.text("operation")]
    return rule.texts("operations")
