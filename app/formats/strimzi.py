"""Strimzi's KafkaUser resources: a document for each principal, its ACLs under `spec.authorization`.

Strimzi makes the principal of the resource's name: User:CN=<name> with _TLS, User:<name> otherwise.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Literal, TextIO, TypeAlias

from msgspec import UNSET, UnsetType

from app.core.kafka.bindings import AclBinding
from app.core.kafka.codes import CLUSTER_NAME, WILDCARD, AclOperation, PatternType, ResourceType
from app.formats import kustomization
from app.formats.acl_entries import MAX_SHOWN, Entry, FormatLimitError, Problem, acl_of
from app.formats.kustomization import CLUSTER_LABEL, PAUSED
from app.formats.quoting import wide_quoted
from app.formats.reading import Cluster, Reading
from app.formats.resources import (
    Kinds,
    Metadata,
    PlainText,
    at_place,
    by_rule,
    has_template,
    misspelt,
    read_resources,
)
from app.formats.shapes import Filled, Prose, Shape, Single, as_text, as_word
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
_PERMISSION_TYPES = {"allow": "ALLOW", "deny": "DENY"}

_OPERATION_WORDS = {AclOperation[name]: word for word, name in _OPERATIONS.items()}
_RESOURCE_WORDS = {ResourceType[name]: word for word, name in _RESOURCE_TYPES.items()}
_PATTERN_WORDS = {PatternType[name]: word for word, name in _PATTERN_TYPES.items()}

_LABEL = r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?"
_NAME = re.compile(rf"{_LABEL}(?:\.{_LABEL})*\Z")
_PRINCIPAL = re.compile(r"User:(CN=)?(.*)\Z", re.DOTALL)
_ACLS_AT = ("spec", "authorization", "acls")


def _simple(text: str) -> str:
    if text != _SIMPLE:
        raise ValueError(f"`{text[:MAX_SHOWN]}` holds no ACLs; write `{_SIMPLE}`")
    return text


_SIMPLE = "simple"
_Operation: TypeAlias = Annotated[str, as_word(_OPERATIONS)]


class _Resource(Shape, rename="camel"):
    type: Annotated[str, as_word(_RESOURCE_TYPES)]
    name: PlainText | UnsetType = UNSET
    pattern_type: Annotated[str, as_word(_PATTERN_TYPES)] | UnsetType = UNSET


class _Rule(Shape):
    """Kubernetes takes no null here; a default in its place could allow more than was meant."""

    resource: _Resource
    type: Annotated[str, as_word(_PERMISSION_TYPES)] | UnsetType = UNSET
    host: PlainText | UnsetType = UNSET
    operation: _Operation | UnsetType = UNSET
    operations: Filled[_Operation] | UnsetType = UNSET


class _Authorization(Shape):
    type: Annotated[str, as_text(_simple)]
    acls: list[_Rule] | None = None


class _SecretKey(Shape):
    name: Single = None
    key: Single = None
    optional: Single = None


class _PasswordSource(Shape, rename="camel"):
    secret_key_ref: _SecretKey | None = None


class _Password(Shape, rename="camel"):
    value_from: _PasswordSource | None = None


class _Authentication(Shape, rename="camel"):
    type: Literal["tls", "tls-external", "scram-sha-512"]
    password: _Password | None = None
    validity_days: Single = None
    renewal_days: Single = None


class _Quotas(Shape, rename="camel"):
    producer_byte_rate: Single = None
    consumer_byte_rate: Single = None
    request_percentage: Single = None
    controller_mutation_rate: Single = None


class _SecretMetadata(Shape):
    labels: dict[str, Single] | None = None
    annotations: dict[str, Single] | None = None


class _SecretTemplate(Shape):
    metadata: _SecretMetadata | None = None


class _Template(Shape):
    secret: _SecretTemplate | None = None


class _Spec(Shape):
    authentication: _Authentication | None = None
    authorization: _Authorization | None = None
    quotas: _Quotas | None = None
    template: _Template | None = None


class _Condition(Shape, rename="camel"):
    type: Single = None
    status: Single = None
    last_transition_time: Single = None
    reason: Single = None
    message: Prose | None = None


class _Status(Shape, rename="camel"):
    conditions: list[_Condition] | None = None
    observed_generation: Single = None
    username: Single = None
    secret: Single = None


class KafkaUser(Shape, rename="camel"):
    """The whole resource, as of Strimzi 1.2 (v1) and 0.45 (v1beta2 and before)."""

    api_version: str
    kind: str
    metadata: Metadata
    spec: _Spec
    status: _Status | None = None


_KINDS = Kinds(
    read={f"{_GROUP}{version}": (_KIND,) for version in ("v1", "v1beta2", "v1beta1", "v1alpha1")},
    lists={"v1": ("List",), f"{_GROUP}*": (f"{_KIND}List",)},
    passed_over={
        f"{_GROUP}*": (
            "Kafka", "KafkaNodePool", "KafkaTopic", "KafkaConnect", "KafkaConnectS2I", "KafkaConnector", "KafkaBridge",
            "KafkaMirrorMaker", "KafkaMirrorMaker2", "KafkaRebalance",
        ),
        "core.strimzi.io/*": ("StrimziPodSet",),
        "access.strimzi.io/*": ("KafkaAccess",),
        "v1": (
            "ConfigMap", "Secret", "Namespace", "Node", "Service", "ServiceAccount", "Pod", "PodTemplate",
            "PersistentVolume", "PersistentVolumeClaim", "LimitRange", "ResourceQuota", "ReplicationController",
            "Endpoints", "Event",
        ),
        "apps/*": ("Deployment", "StatefulSet", "DaemonSet", "ReplicaSet", "ControllerRevision"),
        "batch/*": ("Job", "CronJob"),
        "rbac.authorization.k8s.io/*": ("Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding"),
        "networking.k8s.io/*": ("Ingress", "IngressClass", "NetworkPolicy"),
        "policy/*": ("PodDisruptionBudget", "PodSecurityPolicy"),
        "autoscaling/*": ("HorizontalPodAutoscaler",),
        "scheduling.k8s.io/*": ("PriorityClass",),
        "storage.k8s.io/*": ("StorageClass",),
        "coordination.k8s.io/*": ("Lease",),
        "discovery.k8s.io/*": ("EndpointSlice",),
        "events.k8s.io/*": ("Event",),
        "admissionregistration.k8s.io/*": ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"),
        "apiextensions.k8s.io/*": ("CustomResourceDefinition",),
        "apiregistration.k8s.io/*": ("APIService",),
        "kustomize.config.k8s.io/*": kustomization.KINDS,
        "monitoring.coreos.com/*": (
            "PodMonitor", "ServiceMonitor", "PrometheusRule", "Probe", "ScrapeConfig", "Prometheus", "PrometheusAgent",
            "Alertmanager", "AlertmanagerConfig", "ThanosRuler",
        ),
        "cert-manager.io/*": ("Certificate", "Issuer", "ClusterIssuer"),
        "route.openshift.io/*": ("Route",),
    },
    changing=dict.fromkeys(kustomization.KINDS, kustomization.changes_of),
    meaningful=(CLUSTER_LABEL, PAUSED),
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
    if has_template(binding.resource_name, binding.host):
        raise FormatLimitError(binding, "Klamm takes `{{`, `{%` and `{#` in Strimzi's files for templates")
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
    metadata, authentication, authorization = user.metadata, user.spec.authentication, user.spec.authorization
    takes = reading.takes(Cluster((metadata.labels or {}).get(CLUSTER_LABEL), metadata.namespace), metadata.line)
    if isinstance(takes, Problem):
        yield metadata.line, [Problem(takes, ("metadata",))]
    elif takes:
        problems = [*metadata.problems(), *_problems(metadata, metadata.labels or {}, metadata.annotations or {})]
        if problems:
            yield metadata.line, problems
        elif authorization is not None:
            is_tls = authentication is not None and authentication.type in _TLS
            principal = f"User:CN={metadata.name}" if is_tls else f"User:{metadata.name}"
            for rule in authorization.acls or ():
                yield from _rule(principal, rule)


def _problems(metadata: Metadata, labels: Mapping[str, str], annotations: Mapping[str, str]) -> Iterator[Problem]:
    name = metadata.name[:MAX_SHOWN]
    if _NAME.match(metadata.name) is None or len(metadata.name) > _MAX_NAME:
        yield Problem(f"`{name}` is not a Kubernetes name", ("metadata", "name"))
    yield from misspelt(labels, [CLUSTER_LABEL], "metadata", "labels")
    yield from misspelt(annotations, [PAUSED], "metadata", "annotations")
    if CLUSTER_LABEL in annotations:
        yield Problem("not an annotation; it belongs to `metadata.labels`", ("metadata", "annotations", CLUSTER_LABEL))
    if PAUSED in labels:
        yield Problem("not a label; it belongs to `metadata.annotations`", ("metadata", "labels", PAUSED))
    paused = annotations.get(PAUSED, "")
    # As Java's Boolean.parseBoolean has it, by which Strimzi goes.
    if paused.lower() == "true" or has_template(paused):
        text = f"`{name}` is paused, so Strimzi does nothing with it; remove the annotation, or leave it out"
        yield Problem(text, ("metadata", "annotations", PAUSED))


def _rule(principal: str, rule: _Rule) -> Iterator[Entry]:
    problems: list[Problem] = []
    name, pattern_type = _pattern(rule.resource, problems)
    operations = _operations(rule, problems)
    if problems:
        yield rule.line, at_place(problems, *_ACLS_AT)
        return
    for operation in operations:
        found = acl_of(
            resource_type=rule.resource.type,
            resource_name=name,
            pattern_type=pattern_type,
            principal=principal,
            host=WILDCARD if rule.host is UNSET else rule.host,
            operation=operation,
            permission_type=rule.type or "ALLOW",
        )
        yield rule.line, at_place(found, *_ACLS_AT) if isinstance(found, list) else found


def _pattern(resource: _Resource, problems: list[Problem]) -> tuple[str, str]:
    name = None if resource.name is UNSET else resource.name
    pattern_type = resource.pattern_type or PatternType.LITERAL.name
    if resource.type == ResourceType.CLUSTER.name:
        # Strimzi passes both over, whatever they are. With any other name the type may be wrong.
        if name not in (None, CLUSTER_NAME, WILDCARD) or pattern_type != PatternType.LITERAL.name:
            problems.append(Problem("a cluster has neither name nor patternType; remove them", ("resource",)))
        return CLUSTER_NAME, PatternType.LITERAL.name
    if name is None:
        problems.append(Problem("the field is missing", ("resource", "name")))
    return name or "", pattern_type


def _operations(rule: _Rule, problems: list[Problem]) -> Sequence[str]:
    if rule.operation is not UNSET and rule.operations is not UNSET:
        problems.append(Problem("`operation` is given as well; keep `operations`", ("operations",)))
    elif rule.operation is UNSET and rule.operations is UNSET:
        problems.append(Problem("the list is missing", ("operations",)))
    return rule.operations or [rule.operation or ""]
