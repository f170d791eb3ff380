"""Jikkou's KafkaPrincipalAuthorization resources: a document for each principal, or what `jikkou get` lists of them.

Roles, deletions and regular expressions are told, because only Jikkou can resolve them. ACLs that differ by operation
only share a rule.
"""

import re
from collections.abc import Iterator, Sequence
from functools import partial
from typing import TextIO

from app.core.kafka.bindings import AclBinding
from app.core.kafka.codes import WILDCARD, AclOperation, AclPermissionType, PatternType, ResourceType
from app.formats.acl_entries import MAX_SHOWN, Entry, FormatLimitError
from app.formats.quoting import wide_quoted
from app.formats.reading import Reading
from app.formats.source import Outline, Source
from app.formats.words import loosely
from app.formats.yaml_documents import Fields, Scalar, Value, fields_of
from app.formats.yaml_resources import Part, by_rule, read_resources, rules_in

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
_LISTING = "`jikkou get kafkaprincipalauthorizations` lists the ACLs that exist"

_GROUPS = re.compile(r"[a-z.]+\.jikkou\.io/")
_TEMPLATE = re.compile(r"\{[{%#]")


def is_jikkou(outline: Outline) -> bool:
    return _GROUPS.match(outline.texts.get("apiVersion", "")) is not None


def read_jikkou(source: Source, _: Reading) -> Iterator[Entry]:
    return read_resources(source, _resource, kind=KIND, lists=_LISTS)


def write_jikkou(bindings: Sequence[AclBinding], out: TextIO) -> None:
    principals: dict[str, list[AclBinding]] = {}
    for each in bindings:
        if any(_TEMPLATE.search(text) is not None for text in (each.resource_name, each.principal, each.host)):
            raise FormatLimitError(each, "Jikkou takes `{{`, `{%` and `{#` for templates")
        principals.setdefault(each.principal, []).append(each)
    for principal, its_acls in principals.items():
        out.write(
            f"---\napiVersion: {wide_quoted(_VERSION)}\nkind: {wide_quoted(KIND)}\n"
            f"metadata:\n  name: {wide_quoted(principal)}\nspec:\n  acls:\n"
        )
        for acls in by_rule(its_acls):
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


def _resource(resource: Part, kind: str, version: str) -> Iterator[Entry]:
    if kind == KIND and version.startswith(_GROUP):
        yield from _authorization(resource)
    elif _WITHOUT_ACLS.match(f"{version} {kind}") is None:
        problem = (
            f"`{version[:MAX_SHOWN]}` `{kind[:MAX_SHOWN]}`: unknown to Klamm, so it may hold ACLs; leave it out if it "
            f"holds none. {_LISTING}"
        )
        yield resource.line, [problem]


def _authorization(document: Part) -> Iterator[Entry]:
    metadata, spec = document.part("metadata"), document.part("spec")
    principal = "" if metadata is None else _principal(metadata)
    if document.has("template"):
        document.problems.append(f"`template`: only Jikkou can fill it in; {_LISTING}")
    rules: list[Value] = []
    if spec is not None:
        spec.allows_only(*_SPEC)
        rules = spec.items("acls")
        if spec.items("roles"):
            spec.problems.append(f"`roles`: only Jikkou can resolve them; {_LISTING}")
    return rules_in(document, rules, partial(_rule, principal), "resource, type and operations")


def _principal(metadata: Part) -> str:
    annotations = metadata.value("annotations")
    if isinstance(annotations, Fields):
        metadata.problems += [
            f"`{name}`: Jikkou deletes or ignores these ACLs; remove the annotation, or leave the resource out"
            for name in _MEANT_OTHERWISE
            if (value := fields_of(annotations).get(name)) is not None
            and not (isinstance(value, Scalar) and value.value.lower() == "false")
        ]
    return _plain_text(metadata, "name")


def _rule(principal: str, rule: Part) -> Iterator[Entry]:
    rule.allows_only(*_RULE)
    resource = rule.part("resource")
    resource_type = name = pattern_type = ""
    if resource is not None:
        resource.allows_only(*_RESOURCE)
        resource_type = loosely(ResourceType, resource.text("type"))
        name = _plain_text(resource, "pattern")
        pattern_type = loosely(PatternType, resource.text("patternType", PatternType.LITERAL.name))
    if rule.value("host") is None:
        # Jikkou writes it last, and takes any host without it: of a file that is cut off, an ACL would allow more.
        rule.problems.append(f'`host`: the field is missing; write host: "{WILDCARD}" for any host')
    if pattern_type == PatternType.MATCH.name:
        rule.problems.append(f"`patternType`: a regular expression, which only Jikkou can resolve; {_LISTING}")
    operations = [loosely(AclOperation, each) for each in rule.texts("operations")]
    host = _plain_text(rule, "host", WILDCARD)
    permission_type = loosely(AclPermissionType, rule.text("type"))
    return rule.entries(
        operations,
        resource_type=resource_type,
        resource_name=name,
        pattern_type=pattern_type,
        principal=principal,
        host=host,
        permission_type=permission_type,
    )


def _plain_text(part: Part, field: str, default: str | None = None) -> str:
    text = part.text(field, default)
    if _TEMPLATE.search(text) is not None:
        part.problems.append(f"`{field}`: a template, which only Jikkou can fill in; {_LISTING}")
    return text
