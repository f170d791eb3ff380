"""Jikkou's KafkaPrincipalAuthorization resources: a document for each principal, or what `jikkou get` lists of them.

Roles, deletions and regular expressions are told, because only Jikkou can resolve them. ACLs that differ by operation
only share a rule.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Annotated, TextIO

import msgspec

from app.core.kafka.bindings import AclBinding
from app.core.kafka.codes import WILDCARD, AclOperation, AclPermissionType, KafkaCode, PatternType, ResourceType
from app.core.spelling import nearest
from app.formats.acl_entries import VAGUE, Entry, FormatLimitError, Problem, acl_of
from app.formats.quoting import wide_quoted
from app.formats.reading import Cluster, Reading
from app.formats.resources import (
    LEAST_LIKENESS_OF_LABELS,
    Kinds,
    PlainText,
    at_place,
    by_rule,
    has_template,
    misspelt,
    read_resources,
)
from app.formats.shapes import Filled, Raw, Shape, Single, as_text, no_such_word
from app.formats.source import Outline, Source
from app.formats.words import is_word, loosely
from app.formats.yaml_documents import Scalar, Value, is_null, line_of

KIND = "KafkaPrincipalAuthorization"
_GROUP = "kafka.jikkou.io/"
_GROUPS = ".jikkou.io"
_VERSION = f"{_GROUP}v1beta2"
_LISTS = (f"{KIND}List", "KafkaTopicAuthorizationList", "ResourceList", "GenericResourceList", "List")
"""The second is what `jikkou get kafkaprincipalauthorizations --list` prints in 0.31 to 0.35."""
_MEANT_OTHERWISE = ("jikkou.io/delete", "jikkou.io/ignore")
_PROVIDER = "jikkou.io/provider"
_MEANINGFUL = (*_MEANT_OTHERWISE, _PROVIDER)
_ANNOTATIONS = (
    *_MEANINGFUL,
    *(
        f"jikkou.io/{name}"
        for name in (
            "bypass-validations",
            "changes-count",
            "config-override",
            "generated",
            "items-count",
            "managed-by-location",
            "no-report",
            "replace",
        )
    ),
)
_ACLS_AT = ("spec", "acls")
_LISTING = "`jikkou get kafkaprincipalauthorizations` lists the ACLs that exist"


def _word(words: type[KafkaCode], text: str) -> str:
    if words is PatternType and loosely(words, text) == PatternType.MATCH.name:
        raise ValueError(f"a regular expression, which only Jikkou can resolve; {_LISTING}")
    if not is_word(words, text):
        raise ValueError(no_such_word(text, [each.name for each in words if each.name not in VAGUE]))
    return loosely(words, text)


def _as_word(words: type[KafkaCode]) -> msgspec.Meta:
    return as_text(partial(_word, words))


class _Metadata(Shape):
    name: PlainText
    labels: dict[str, Single] | None = None
    annotations: dict[str, Raw] | None = None


class _Resource(Shape, rename="camel"):
    type: Annotated[str, _as_word(ResourceType)]
    pattern: PlainText
    pattern_type: Annotated[str, _as_word(PatternType)]


class _Rule(Shape):
    resource: _Resource
    type: Annotated[str, _as_word(AclPermissionType)]
    operations: Filled[Annotated[str, _as_word(AclOperation)]]
    host: PlainText | None = None


class _Spec(Shape):
    acls: list[_Rule] | None = None
    roles: list[Raw] | None = None


class KafkaPrincipalAuthorization(Shape, rename="camel"):
    """The whole resource, as of Jikkou 0.36 (v1) and before (v1beta2)."""

    api_version: str
    kind: str
    metadata: _Metadata
    spec: _Spec
    template: Raw = None


_KINDS = Kinds(
    read={f"{_GROUP}{version}": (KIND,) for version in ("v1", "v1beta2", "v1beta1")},
    lists={"v1": ("List",), f"{_GROUP}*": _LISTS, "core.jikkou.io/*": _LISTS},
    passed_over={
        "core.jikkou.io/*": ("ConfigMap",),
        f"{_GROUP}*": (
            "KafkaTopic", "KafkaClientQuota", "KafkaBroker", "KafkaConsumerGroup", "KafkaShareGroup",
            "KafkaTableRecord", "KafkaConnector", "KafkaUser",
        ),
        "schemaregistry.jikkou.io/*": ("SchemaRegistrySubject",),
        "aws.jikkou.io/*": ("AwsGlueSchema",),
        "iceberg.jikkou.io/*": ("IcebergNamespace", "IcebergTable", "IcebergView"),
    },
    meaningful=_MEANINGFUL,
)  # fmt: skip
"""What is read, and what may be passed over: Jikkou's own kinds that hold no ACLs of Kafka. Roles do."""


def is_jikkou(outline: Outline) -> bool:
    return outline.texts.get("apiVersion", "").partition("/")[0].endswith(_GROUPS)


def read_jikkou(source: Source, reading: Reading) -> Iterator[Entry]:
    return read_resources(source, reading, KafkaPrincipalAuthorization, _KINDS, _authorization)


def write_jikkou(bindings: Sequence[AclBinding], out: TextIO) -> None:
    principals: dict[str, list[AclBinding]] = {}
    for each in bindings:
        if has_template(each.resource_name, each.principal, each.host):
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


def _authorization(document: KafkaPrincipalAuthorization, reading: Reading) -> Iterator[Entry]:
    metadata = document.metadata
    provider = (metadata.annotations or {}).get(_PROVIDER)
    if provider is not None and not isinstance(provider, Scalar):
        yield line_of(provider), [Problem("not a name; write one", ("metadata", "annotations", _PROVIDER))]
        return
    takes = reading.takes(Cluster(None if provider is None or is_null(provider) else provider.value), metadata.line)
    if isinstance(takes, Problem):
        yield metadata.line, [Problem(takes, ("metadata",))]
    elif takes:
        problems = list(_problems(document))
        if problems:
            yield document.line, problems
            return
        for rule in document.spec.acls or ():
            yield from _rule(metadata.name, rule)


def _problems(document: KafkaPrincipalAuthorization) -> Iterator[Problem]:
    """What only Jikkou can say."""
    annotations = document.metadata.annotations or {}
    yield from misspelt(annotations, _ANNOTATIONS, "metadata", "annotations")
    for name in document.metadata.labels or ():
        meant = nearest(name, _MEANINGFUL, likeness=LEAST_LIKENESS_OF_LABELS)
        if meant is not None:
            text = f"not a label; write `{meant}` into `metadata.annotations`"
            yield Problem(text, ("metadata", "labels", name))
    for name in _MEANT_OTHERWISE:
        if name in annotations and not _is_false(annotations[name]):
            text = "Jikkou deletes or ignores these ACLs; remove the annotation, or leave the resource out"
            yield Problem(text, ("metadata", "annotations", name))
    if document.template is not None and not is_null(document.template):
        yield Problem(f"only Jikkou can fill it in; {_LISTING}", ("template",))
    if document.spec.roles:
        yield Problem(f"only Jikkou can resolve them; {_LISTING}", ("spec", "roles"))


def _is_false(value: Value) -> bool:
    return isinstance(value, Scalar) and value.value.lower() == "false"


def _rule(principal: str, rule: _Rule) -> Iterator[Entry]:
    if rule.host is None:
        # Jikkou writes it last, and takes any host without it: of a file that is cut off, an ACL would allow more.
        problem = Problem(f'the field is missing; write host: "{WILDCARD}" for any host', (*_ACLS_AT, "host"))
        yield rule.line, [problem]
        return
    for operation in rule.operations:
        found = acl_of(
            resource_type=rule.resource.type,
            resource_name=rule.resource.pattern,
            pattern_type=rule.resource.pattern_type,
            principal=principal,
            host=rule.host,
            operation=operation,
            permission_type=rule.type,
        )
        yield rule.line, at_place(found, *_ACLS_AT) if isinstance(found, list) else found
