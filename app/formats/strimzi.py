"""Strimzi's KafkaUser resources: a document for each principal, its ACLs under `spec.authorization`.

Strimzi makes the principal of the resource's name: User:CN=<name> with _TLS, User:<name> otherwise.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Literal, TextIO

from app.core.kafka.bindings import AclBinding
from app.core.kafka.codes import CLUSTER_NAME, WILDCARD, AclOperation, PatternType, ResourceType
from app.formats.acl_entries import MAX_SHOWN, Entry, FormatLimitError, Problem, acl_of
from app.formats.quoting import wide_quoted
from app.formats.reading import Cluster, Reading
from app.formats.resources import Kinds, Metadata, by_rule, read_resources
from app.formats.shapes import Filled, PassedOver, Shape
from app.formats.source import Outline, Source
from app.formats.words import spellings

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

_LABEL = r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?"
_NAME = re.compile(rf"{_LABEL}(?:\.{_LABEL})*\Z")
_PRINCIPAL = re.compile(r"User:(CN=)?(.*)\Z", re.DOTALL)
_TEMPLATE = re.compile(r"\{\{|\{%")
_CLUSTER_LABEL = "strimzi.io/cluster"
_PAUSED = "strimzi.io/pause-reconciliation"


class _Resource(Shape, rename="camel"):
    type: Literal["topic", "group", "cluster", "transactionalId"]
    name: str | None = None
    pattern_type: Literal["literal", "prefix"] | None = None


class _Rule(Shape):
    resource: _Resource
    type: Literal["allow", "deny"] | None = None
    host: str | None = None
    operation: str | None = None
    operations: Filled[str] | None = None


class _Authorization(Shape):
    type: Literal["simple"]
    acls: list[_Rule] | None = None


class _SecretKey(Shape):
    name: str
    key: str
    optional: bool = False


class _PasswordSource(Shape, rename="camel"):
    secret_key_ref: _SecretKey


class _Password(Shape, rename="camel"):
    value_from: _PasswordSource


class _Authentication(Shape, rename="camel"):
    type: str
    password: _Password | None = None
    validity_days: int | None = None
    renewal_days: int | None = None


class _Quotas(Shape, rename="camel"):
    producer_byte_rate: int | None = None
    consumer_byte_rate: int | None = None
    request_percentage: int | None = None
    controller_mutation_rate: PassedOver = None


class _SecretMetadata(Shape):
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None


class _SecretTemplate(Shape):
    metadata: _SecretMetadata | None = None


class _Template(Shape):
    secret: _SecretTemplate | None = None


class _Spec(Shape):
    authentication: _Authentication | None = None
    authorization: _Authorization | None = None
    quotas: _Quotas | None = None
    template: _Template | None = None


class KafkaUser(Shape, rename="camel"):
    """The whole resource, as of Strimzi 1.0 (v1) and before (v1beta2)."""

    api_version: str
    kind: str
    metadata: Metadata
    spec: _Spec
    status: PassedOver = None


_KINDS = Kinds(
    read={f"{_GROUP}*": (_KIND,)},
    lists={"v1": ("List",), f"{_GROUP}*": ("KafkaUserList",)},
    passed_over={
        f"{_GROUP}*": (
            "Kafka", "KafkaNodePool", "KafkaTopic", "KafkaConnect", "KafkaConnector", "KafkaBridge", "KafkaMirrorMaker",
            "KafkaMirrorMaker2", "KafkaRebalance",
        ),
        "core.strimzi.io/*": ("StrimziPodSet",),
        "access.strimzi.io/*": ("KafkaAccess",),
        "v1": (
            "ConfigMap", "Secret", "Namespace", "Service", "ServiceAccount", "Pod", "PersistentVolume",
            "PersistentVolumeClaim", "LimitRange", "ResourceQuota", "Endpoints",
        ),
        "apps/v1": ("Deployment", "StatefulSet", "DaemonSet", "ReplicaSet"),
        "batch/v1": ("Job", "CronJob"),
        "rbac.authorization.k8s.io/v1": ("Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding"),
        "networking.k8s.io/v1": ("Ingress", "NetworkPolicy"),
        "policy/v1": ("PodDisruptionBudget",),
        "autoscaling/v2": ("HorizontalPodAutoscaler",),
        "apiextensions.k8s.io/v1": ("CustomResourceDefinition",),
        "kustomize.config.k8s.io/*": ("Kustomization", "Component"),
    },
    acls_at=("spec", "authorization", "acls"),
)  # fmt: skip
"""What is read, and what may be passed over: the kinds of Strimzi and Kubernetes that hold no ACLs of Kafka."""


def is_strimzi(outline: Outline) -> bool:
    return not outline.is_list and outline.has("apiVersion", "kind", kind='"') and not outline.has("data", kind="[")


def read_strimzi(source: Source, reading: Reading) -> Iterator[Entry]:
    """The ACLs of all KafkaUsers, also in a List of `kubectl get`; kinds that hold none are passed over by name."""
    return read_resources(source, reading, KafkaUser, _KINDS, _user)


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


def _user(user: KafkaUser, reading: Reading) -> Iterator[Entry]:
    problems = [*user.metadata.problems(), *_of_user(user)]
    if problems:
        yield user.line, problems
        return
    metadata, authentication = user.metadata, user.spec.authentication
    takes = reading.takes(Cluster((metadata.labels or {}).get(_CLUSTER_LABEL), metadata.namespace), metadata.line)
    if isinstance(takes, Problem):
        yield metadata.line, [takes]
    elif takes and user.spec.authorization is not None:
        is_tls = authentication is not None and authentication.type in _TLS
        principal = f"User:CN={metadata.name}" if is_tls else f"User:{metadata.name}"
        for rule in user.spec.authorization.acls or ():
            yield from _rule(principal, rule)


def _of_user(user: KafkaUser) -> Iterator[Problem]:
    metadata, authentication = user.metadata, user.spec.authentication
    if _NAME.match(metadata.name) is None or len(metadata.name) > _MAX_NAME:
        yield Problem(f"`{metadata.name[:MAX_SHOWN]}` is not a Kubernetes name", ("metadata", "name"))
    if authentication is not None and authentication.type not in (*_TLS, _SCRAM):
        known = ", ".join((*_TLS, _SCRAM))
        yield Problem(
            f"the principal of type `{authentication.type[:MAX_SHOWN]}` is unknown to Klamm; write one of {known}",
            ("spec", "authentication"),
        )
    if (metadata.annotations or {}).get(_PAUSED) == "true":
        text = f"`{metadata.name}` is paused, so Strimzi does nothing with it; remove the annotation, or leave it out"
        yield Problem(text, ("metadata", "annotations", _PAUSED))


def _rule(principal: str, rule: _Rule) -> Iterator[Entry]:
    problems: list[Problem] = []
    resource, host = rule.resource, WILDCARD if rule.host is None else rule.host
    name, pattern_type = _pattern(resource, problems)
    for field, text in (("name", name), ("host", host)):
        if _TEMPLATE.search(text) is not None:
            problems.append(Problem("a template that nothing has filled in; give what the chart makes of it", (field,)))
    operations = _operations(rule, problems)
    if problems:
        yield rule.line, problems
        return
    for operation in operations:
        yield (
            rule.line,
            acl_of(
                resource_type=_RESOURCE_TYPES[resource.type],
                resource_name=name,
                pattern_type=_PATTERN_TYPES[pattern_type],
                principal=principal,
                host=host,
                operation=_OPERATIONS[operation],
                permission_type="ALLOW" if rule.type is None else rule.type.upper(),
            ),
        )


def _pattern(resource: _Resource, problems: list[Problem]) -> tuple[str, str]:
    name, pattern_type = resource.name, resource.pattern_type or "literal"
    if resource.type == "cluster":
        # Strimzi passes both over, whatever they are.
        if name not in (None, CLUSTER_NAME) or pattern_type != "literal":
            problems.append(Problem("a cluster has neither name nor patternType; remove them", ("resource",)))
        return CLUSTER_NAME, "literal"
    if name is None:
        problems.append(Problem("the field is missing", ("name",)))
    return name or "", pattern_type


def _operations(rule: _Rule, problems: list[Problem]) -> Sequence[str]:
    if rule.operation is not None and rule.operations is not None:
        problems.append(Problem("both are given; keep `operations`", ("operation` and `operations",)))
        return ()
    if rule.operation is None and rule.operations is None:
        problems.append(Problem("the list is missing, or empty", ("operations",)))
        return ()
    words = rule.operations or [rule.operation or ""]
    problems += [
        Problem(
            f"`{each[:MAX_SHOWN]}` is not one of its values; write one of {', '.join(_OPERATIONS)}", ("operations",)
        )
        for each in words
        if each not in _OPERATIONS
    ]
    return words
