"""Jikkou's KafkaPrincipalAuthorization resources: a document for each principal, or what `jikkou get` lists of them.

Roles, deletions and regular expressions are told, because only Jikkou can resolve them. ACLs that differ by operation
only share a rule.
"""

import re
from collections.abc import Iterator, Sequence
from typing import IO, TextIO

from app.core.kafka.bindings import AclBinding
from app.core.kafka.codes import WILDCARD, AclOperation, AclPermissionType, PatternType, ResourceType
from app.formats.acl_entries import MAX_SHOWN, Entry, FormatLimitError
from app.formats.quoting import wide_quoted
from app.formats.words import loosely
from app.formats.yaml_documents import Fields, Scalar, Value
from app.formats.yaml_resources import (
    fields_of,
    is_given,
    items_of,
    read_resources,
    rule_entries,
    strange,
    text_of,
    texts_of,
)

KIND = "KafkaPrincipalAuthorization"
_LISTS = (f"{KIND}List", "ResourceList", "GenericResourceList", "List")
_GROUP = "kafka.jikkou.io/"
_VERSION = f"{_GROUP}v1beta2"
_WITHOUT_ACLS = re.compile(
    r"core\.jikkou\.io/\w+ ConfigMap(?:List)?\Z"
    r"|kafka\.jikkou\.io/\w+ Kafka(?:Topic|ClientQuota|Broker|ConsumerGroup|ShareGroup|TableRecord)(?:List)?\Z"
)
"""The API version and kind of Jikkou's own resources that hold no ACL."""

_SPEC = ("acls", "roles")
_RULE = ("resource", "type", "operations", "host")
_RESOURCE = ("type", "pattern", "patternType")
_MEANT_OTHERWISE = ("jikkou.io/delete", "jikkou.io/ignore")
_LISTING = "`jikkou get kafkaprincipalauthorizations` lists the ACLs that there are"

_BEGINS = re.compile(rb'^[ \t]*"?apiVersion"?[ \t]*:[ \t]*["\']?[a-z.]+\.jikkou\.io/', re.MULTILINE)
_TEMPLATE = re.compile(r"\{[{%#]")


def is_jikkou(head: bytes) -> bool:
    return _BEGINS.search(head) is not None


def read_jikkou(stream: IO[bytes]) -> Iterator[Entry]:
    return read_resources(stream, _resource, kind=KIND, lists=_LISTS)


def write_jikkou(bindings: Sequence[AclBinding], out: TextIO) -> None:
    principals: dict[str, dict[tuple[object, ...], list[AclBinding]]] = {}
    for each in bindings:
        if any(_TEMPLATE.search(text) is not None for text in (each.resource_name, each.principal, each.host)):
            raise FormatLimitError(each, "Jikkou takes `{{`, `{%` and `{#` for templates")
        rule = (each.resource_type, each.resource_name, each.pattern_type, each.host, each.permission_type)
        principals.setdefault(each.principal, {}).setdefault(rule, []).append(each)
    for principal, rules in principals.items():
        out.write(
            f"---\napiVersion: {wide_quoted(_VERSION)}\nkind: {wide_quoted(KIND)}\n"
            f"metadata:\n  name: {wide_quoted(principal)}\nspec:\n  acls:\n"
        )
        for acls in rules.values():
            first = acls[0]
            words = ", ".join(f'"{each.operation.name}"' for each in acls)
            out.write(
                f'    - resource:\n        type: "{first.resource_type.name}"\n'
                f"        pattern: {wide_quoted(first.resource_name)}\n"
                f'        patternType: "{first.pattern_type.name}"\n'
                # What must be there comes last, so that no rule that is cut off is a rule.
                f'      type: "{first.permission_type.name}"\n      host: {wide_quoted(first.host)}\n'
                f"      operations: [{words}]\n"
            )


def _resource(resource: Fields, kind: str, version: str) -> Iterator[Entry]:
    if kind == KIND and version.startswith(_GROUP):
        yield from _authorization(resource)
    elif _WITHOUT_ACLS.match(f"{version} {kind}") is None:
        problem = (
            f"`{version[:MAX_SHOWN]}` `{kind[:MAX_SHOWN]}`: not known here, so it may hold ACLs; leave it out if it "
            f"holds none. {_LISTING}"
        )
        yield resource.line, [problem]


def _authorization(document: Fields) -> Iterator[Entry]:
    problems: list[str] = []
    metadata = fields_of(document, "metadata", problems)
    spec = fields_of(document, "spec", problems)
    principal = "" if metadata is None else _principal(metadata, problems)
    if is_given(document, "template"):
        problems.append(f"`template`: only Jikkou can fill it in; {_LISTING}")
    rules: list[Value] = []
    if spec is not None:
        problems += strange(spec, _SPEC)
        rules = items_of(spec, "acls", problems)
        if items_of(spec, "roles", problems):
            problems.append(f"`roles`: only Jikkou can resolve them; {_LISTING}")
    if problems:
        yield document.line, problems
        return
    for rule in rules:
        yield from _rule(rule, principal)


def _principal(metadata: Fields, problems: list[str]) -> str:
    annotations = metadata.fields.get("annotations")
    if isinstance(annotations, Fields):
        problems += [
            f"`{name}`: the ACLs are not meant to be; remove the annotation, or leave the resource out"
            for name in _MEANT_OTHERWISE
            if not isinstance(value := annotations.fields.get(name), Scalar | None)
            or (value is not None and value.text.lower() != "false")
        ]
    return _plain(text_of(metadata, "name", problems), "name", problems)


def _rule(rule: Value, principal: str) -> Iterator[Entry]:
    if not isinstance(rule, Fields):
        yield rule.line, ["`acls`: an entry that is no rule; write resource, type and operations"]
        return
    problems = strange(rule, _RULE)
    resource = fields_of(rule, "resource", problems)
    resource_type = name = pattern_type = ""
    if resource is not None:
        problems += strange(resource, _RESOURCE)
        resource_type = loosely(ResourceType, text_of(resource, "type", problems))
        name = _plain(text_of(resource, "pattern", problems), "pattern", problems)
        pattern_type = loosely(PatternType, text_of(resource, "patternType", problems, PatternType.LITERAL.name))
    if "host" not in rule.fields:
        # Jikkou writes it last, and takes any host without it: of a file that is cut off, an ACL would allow more.
        problems.append(f'`host`: the field is missing; write host: "{WILDCARD}" for any host')
    if pattern_type == PatternType.MATCH.name:
        problems.append(f"`patternType`: a regular expression, which only Jikkou can resolve; {_LISTING}")
    yield from rule_entries(
        rule.line,
        problems,
        [loosely(AclOperation, each) for each in texts_of(rule, "operations", problems)],
        resource_type=resource_type,
        resource_name=name,
        pattern_type=pattern_type,
        principal=principal,
        host=_plain(text_of(rule, "host", problems, WILDCARD), "host", problems),
        permission_type=loosely(AclPermissionType, text_of(rule, "type", problems)),
    )


def _plain(text: str, field: str, problems: list[str]) -> str:
    if _TEMPLATE.search(text) is not None:
        problems.append(f"`{field}`: a template, which only Jikkou can fill in; {_LISTING}")
    return text
