"""Strimzi's KafkaUser resources, read: several documents, lists, and what older versions wrote."""

import re
from collections.abc import Iterator
from typing import IO

from app.core.kafka.codes import CLUSTER_NAME, WILDCARD, PatternType, ResourceType
from app.formats.acl_entries import MAX_SHOWN, Entry, binding_of
from app.formats.strimzi import (
    GROUP,
    KIND,
    MAX_NAME,
    NAME,
    OPERATIONS,
    PATTERN_TYPES,
    RESOURCE_TYPES,
    SCRAM,
    TLS,
)
from app.formats.words import word_of
from app.formats.yaml_documents import Fields, Items, Scalar, Value, YamlFault, read_documents
from app.formats.yaml_fields import fields_of, is_given, strange, text_of, texts_of

_LISTS = ("List", "KafkaUserList")
_PERMISSION_TYPES = {"allow": "ALLOW", "deny": "DENY"}
_RULE = ("type", "resource", "host", "operation", "operations")
_RESOURCE = ("type", "name", "patternType")
_SPEC = ("authentication", "authorization", "quotas", "template")
_AUTHORIZATION = ("type", "acls")
_WITHOUT_ACLS = re.compile(r"[a-z0-9]+\Z|(?:[a-z]+|[-a-z0-9.]+\.k8s\.io)/\w+\Z|(?:[a-z]+\.)?strimzi\.io/\w+\Z")
"""The API versions of Kubernetes itself, and of Strimzi: none of their kinds but KafkaUser holds an ACL."""


def read_strimzi(stream: IO[bytes]) -> Iterator[Entry]:
    """The ACLs of all KafkaUsers, also in a List of `kubectl get`; kinds that hold none are passed over."""
    try:
        for document in read_documents(stream):
            yield from _resource(document)
    except YamlFault as fault:
        yield fault.line, [str(fault)]


def _resource(document: Value) -> Iterator[Entry]:
    if isinstance(document, Scalar) and document.is_null:
        return
    if not isinstance(document, Fields):
        yield document.line, ["not a resource of Kubernetes; write a KafkaUser"]
        return
    problems: list[str] = []
    kind = text_of(document, "kind", problems)
    version = text_of(document, "apiVersion", problems)
    if problems:
        yield document.line, problems
    elif kind in _LISTS:
        yield from _list(document)
    elif kind == KIND and version.startswith(GROUP):
        yield from _User(document).entries()
    elif kind.lower() == KIND.lower():
        yield (
            document.line,
            [f"`{version[:MAX_SHOWN]}` `{kind[:MAX_SHOWN]}`: write apiVersion {GROUP}v1, kind {KIND}"],
        )
    elif _WITHOUT_ACLS.match(version) is None:
        # It may be of another tool that holds ACLs, perhaps a DENY.
        what = f"`{version[:MAX_SHOWN]}` `{kind[:MAX_SHOWN]}`"
        yield document.line, [f"{what}: not known here, so it may hold ACLs; leave it out if it holds none"]


def _list(document: Fields) -> Iterator[Entry]:
    items = document.fields.get("items")
    if not isinstance(items, Items):
        yield document.line, ["`items`: the field is missing, or no list"]
        return
    for item in items.items:
        # A List in a List could nest without end.
        if isinstance(item, Fields) and isinstance(kind := item.fields.get("kind"), Scalar) and kind.text in _LISTS:
            yield item.line, ["a list within a list; give its items"]
        else:
            yield from _resource(item)


class _User:
    """One KafkaUser."""

    def __init__(self, document: Fields) -> None:
        self._document = document
        self._problems: list[str] = []

    def entries(self) -> Iterator[Entry]:
        """Its ACLs."""
        problems = self._problems
        metadata = fields_of(self._document, "metadata", problems)
        spec = fields_of(self._document, "spec", problems)
        if spec is not None:
            problems += strange(spec, _SPEC)
        principal = None if metadata is None or spec is None else self._principal(metadata, spec)
        rules = None if spec is None else self._rules(spec)
        if problems or principal is None or rules is None:
            if problems:
                yield self._document.line, problems
            return
        for rule in rules:
            yield from _rule(rule, principal)

    def _principal(self, metadata: Fields, spec: Fields) -> str:
        name = text_of(metadata, "name", self._problems)
        if not self._problems and (NAME.match(name) is None or len(name) > MAX_NAME):
            self._problems.append(f"`name`: `{name[:MAX_SHOWN]}` is no name of Kubernetes")
        if not is_given(spec, "authentication"):
            return f"User:{name}"
        authentication = fields_of(spec, "authentication", self._problems)
        kind = "" if authentication is None else text_of(authentication, "type", self._problems)
        if not self._problems and kind not in (*TLS, SCRAM):
            known = ", ".join((*TLS, SCRAM))
            self._problems.append(
                f"`authentication`: the principal of type `{kind[:MAX_SHOWN]}` is not known; write one of {known}"
            )
        return f"User:CN={name}" if kind in TLS else f"User:{name}"

    def _rules(self, spec: Fields) -> "list[Value] | None":
        """None if it has no ACLs, or can't be read."""
        if not is_given(spec, "authorization"):
            return None
        authorization = fields_of(spec, "authorization", self._problems)
        if authorization is None:
            return None
        kind = text_of(authorization, "type", self._problems)
        self._problems += strange(authorization, _AUTHORIZATION) if kind == "simple" else []
        if not self._problems and kind != "simple":
            self._problems.append(f"`authorization`: type `{kind[:MAX_SHOWN]}` holds no ACLs; write `simple`")
        if not is_given(authorization, "acls"):
            return None
        acls = authorization.fields["acls"]
        if not isinstance(acls, Items):
            self._problems.append("`acls`: not a list; write one")
            return None
        return acls.items


def _rule(rule: Value, principal: str) -> Iterator[Entry]:
    if not isinstance(rule, Fields):
        yield rule.line, ["`acls`: an entry that is no rule; write resource and operations"]
        return
    problems = strange(rule, _RULE)
    resource = fields_of(rule, "resource", problems)
    resource_type, name, pattern_type = ("", "", "") if resource is None else _pattern(resource, problems)
    permission_type = word_of("type", text_of(rule, "type", problems, "allow"), _PERMISSION_TYPES, problems)
    host = text_of(rule, "host", problems, WILDCARD)
    operations = [word_of("operations", each, OPERATIONS, problems) for each in _operations(rule, problems)]
    if problems:
        yield rule.line, problems
        return
    for operation in operations:
        yield (
            rule.line,
            binding_of(
                resource_type=resource_type,
                resource_name=name,
                pattern_type=pattern_type,
                principal=principal,
                host=host,
                operation=operation,
                permission_type=permission_type,
            ),
        )


def _pattern(resource: Fields, problems: list[str]) -> tuple[str, str, str]:
    """Type, name and pattern type in Kafka's words."""
    problems += strange(resource, _RESOURCE)
    resource_type = word_of("type", text_of(resource, "type", problems), RESOURCE_TYPES, problems)
    if resource_type == ResourceType.CLUSTER.name:
        # Strimzi passes both over, whatever they are.
        if any(text_of(resource, each, problems, own) != own for each, own in _CLUSTER.items()):
            problems.append("`resource`: a cluster has neither name nor patternType; remove them")
        return resource_type, CLUSTER_NAME, PatternType.LITERAL.name
    name = text_of(resource, "name", problems)
    return (
        resource_type,
        name,
        word_of("patternType", text_of(resource, "patternType", problems, "literal"), PATTERN_TYPES, problems),
    )


_CLUSTER = {"name": CLUSTER_NAME, "patternType": "literal"}


def _operations(rule: Fields, problems: list[str]) -> list[str]:
    one, many = is_given(rule, "operation"), is_given(rule, "operations")
    if one and many:
        problems.append("`operation` and `operations`: both are there; keep `operations`")
        return []
    if one:
        return [text_of(rule, "operation", problems)]
    return texts_of(rule, "operations", problems)
