"""Strimzi's KafkaUser resources, read: several documents, lists, and what older versions wrote."""

from collections.abc import Iterator, Sequence
from typing import IO

from app.core.codes import CLUSTER_NAME, WILDCARD, PatternType, ResourceType
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

_LISTS = ("List", "KafkaUserList")
_PERMISSION_TYPES = {"allow": "ALLOW", "deny": "DENY"}
_RULE = ("type", "resource", "host", "operation", "operations")
_RESOURCE = ("type", "name", "patternType")


def read_strimzi(stream: IO[bytes]) -> Iterator[Entry]:
    """The ACLs of all KafkaUsers, also in a List of `kubectl get`; resources of other kinds are passed over."""
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
    kind = _text(document, "kind", problems)
    version = _text(document, "apiVersion", problems)
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
        metadata = _fields(self._document, "metadata", problems)
        spec = _fields(self._document, "spec", problems)
        principal = None if metadata is None or spec is None else self._principal(metadata, spec)
        rules = None if spec is None else self._rules(spec)
        if problems or principal is None or rules is None:
            if problems:
                yield self._document.line, problems
            return
        for rule in rules:
            yield from _rule(rule, principal)

    def _principal(self, metadata: Fields, spec: Fields) -> str:
        name = _text(metadata, "name", self._problems)
        if not self._problems and (NAME.match(name) is None or len(name) > MAX_NAME):
            self._problems.append(f"`name`: `{name[:MAX_SHOWN]}` is no name of Kubernetes")
        if not _is_given(spec, "authentication"):
            return f"User:{name}"
        authentication = _fields(spec, "authentication", self._problems)
        kind = "" if authentication is None else _text(authentication, "type", self._problems)
        if not self._problems and kind not in (*TLS, SCRAM):
            known = ", ".join((*TLS, SCRAM))
            self._problems.append(
                f"`authentication`: the principal of type `{kind[:MAX_SHOWN]}` is not known; write one of {known}"
            )
        return f"User:CN={name}" if kind in TLS else f"User:{name}"

    def _rules(self, spec: Fields) -> "list[Value] | None":
        """None if it has no ACLs, or can't be read."""
        if not _is_given(spec, "authorization"):
            return None
        authorization = _fields(spec, "authorization", self._problems)
        if authorization is None:
            return None
        kind = _text(authorization, "type", self._problems)
        if not self._problems and kind != "simple":
            self._problems.append(f"`authorization`: type `{kind[:MAX_SHOWN]}` holds no ACLs; write `simple`")
        if not _is_given(authorization, "acls"):
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
    problems = _strange(rule, _RULE)
    resource = _fields(rule, "resource", problems)
    resource_type, name, pattern_type = ("", "", "") if resource is None else _pattern(resource, problems)
    permission_type = word_of("type", _text(rule, "type", problems, "allow"), _PERMISSION_TYPES, problems)
    host = _text(rule, "host", problems, WILDCARD)
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
    problems += _strange(resource, _RESOURCE)
    resource_type = word_of("type", _text(resource, "type", problems), RESOURCE_TYPES, problems)
    if resource_type == ResourceType.CLUSTER.name:
        # Strimzi passes both over, whatever they are.
        if any(_text(resource, each, problems, own) != own for each, own in _CLUSTER.items()):
            problems.append("`resource`: a cluster has neither name nor patternType; remove them")
        return resource_type, CLUSTER_NAME, PatternType.LITERAL.name
    name = _text(resource, "name", problems)
    return (
        resource_type,
        name,
        word_of("patternType", _text(resource, "patternType", problems, "literal"), PATTERN_TYPES, problems),
    )


_CLUSTER = {"name": CLUSTER_NAME, "patternType": "literal"}


def _operations(rule: Fields, problems: list[str]) -> list[str]:
    one, many = _is_given(rule, "operation"), _is_given(rule, "operations")
    if one and many:
        problems.append("`operation` and `operations`: both are there; keep `operations`")
        return []
    if one:
        return [_text(rule, "operation", problems)]
    listed = rule.fields.get("operations")
    if not isinstance(listed, Items) or not listed.items:
        problems.append("`operations`: the list is missing, or empty")
        return []
    texts = [each.text for each in listed.items if isinstance(each, Scalar) and each.is_text]
    if len(texts) != len(listed.items):
        problems.append("`operations`: an entry that is no text; write words such as Read")
    return texts


def _strange(within: Fields, known: Sequence[str]) -> list[str]:
    return [f"`{name[:MAX_SHOWN]}`: there is no such field; remove it" for name in within.fields if name not in known]


def _is_given(within: Fields, name: str) -> bool:
    value = within.fields.get(name)
    return value is not None and not (isinstance(value, Scalar) and value.is_null)


def _fields(within: Fields, name: str, problems: list[str]) -> Fields | None:
    value = within.fields.get(name)
    if isinstance(value, Fields):
        return value
    problems.append(
        f"`{name}`: the field is missing" if value is None else f"`{name}`: not a mapping; write its fields"
    )
    return None


def _text(within: Fields, name: str, problems: list[str], default: str | None = None) -> str:
    value = within.fields.get(name)
    if value is None and default is not None:
        return default
    if value is None:
        problems.append(f"`{name}`: the field is missing")
        return ""
    if not isinstance(value, Scalar) or not value.is_text:
        problems.append(f"`{name}`: the value is not text; write it in quotes")
        return ""
    return value.text
