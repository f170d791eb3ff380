"""Resources of Kubernetes' kind, in YAML or JSON: apiVersion, kind, metadata, spec. Strimzi and Jikkou have them."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import msgspec

from app.core.kafka.bindings import AclBinding
from app.core.kafka.codes import AclOperation
from app.core.spelling import nearest
from app.formats.acl_entries import MAX_SHOWN, Entry, Problem
from app.formats.reading import Reading
from app.formats.shapes import PassedOver, Raw, Refused, Shape, read_shape
from app.formats.source import Source
from app.formats.yaml_documents import Fields, Items, Scalar, Value, fields_of, is_null, line_of

_S = TypeVar("_S", bound=Shape)


class Metadata(Shape, rename="camel"):
    """Of an object of Kubernetes (ObjectMeta, v1)."""

    name: str
    namespace: str | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    generate_name: PassedOver = None
    self_link: PassedOver = None
    uid: PassedOver = None
    resource_version: PassedOver = None
    generation: PassedOver = None
    creation_timestamp: PassedOver = None
    deletion_timestamp: Raw = None
    deletion_grace_period_seconds: PassedOver = None
    owner_references: PassedOver = None
    finalizers: PassedOver = None
    managed_fields: PassedOver = None

    def problems(self) -> list[Problem]:
        """Why the resource is not in force."""
        if self.deletion_timestamp is None or is_null(self.deletion_timestamp):
            return []
        place = ("metadata", "deletionTimestamp")
        return [Problem(f"`{self.name[:MAX_SHOWN]}` is being deleted; leave it out", place)]


class _ListMetadata(Shape, rename="camel"):
    resource_version: PassedOver = None
    self_link: PassedOver = None
    remaining_item_count: PassedOver = None
    following: str | None = msgspec.field(name="continue", default=None)


class _List(Shape, rename="camel"):
    api_version: str
    kind: str
    items: list[Raw]
    metadata: _ListMetadata | None = None


@dataclass(frozen=True, slots=True)
class Kinds:
    """The kinds of a format by their API version, in which `*` at the end stands for any version of a group."""

    read: Mapping[str, Sequence[str]]
    lists: Mapping[str, Sequence[str]]
    passed_over: Mapping[str, Sequence[str]]
    acls_at: tuple[str, ...]
    """Where a resource has its ACLs; one that is passed over has none there."""

    def has(self, some: Mapping[str, Sequence[str]], version: str, kind: str) -> bool:
        group = version.rpartition("/")[0]
        return kind in some.get(version, ()) or (bool(group) and kind in some.get(f"{group}/*", ()))

    def refusal(self, kind: str) -> str:
        """Why a resource of this kind is refused, with the kind that was probably meant."""
        every = {
            each: versions
            for some in (self.passed_over, self.lists, self.read)
            for versions in some
            for each in some[versions]
        }
        meant = kind if kind in every else nearest(kind, every)
        hint = f"; did you mean apiVersion {every[meant].replace('*', 'v1')}, kind {meant}?" if meant else ""
        return f"unknown to Klamm, so it may hold ACLs{hint or '; leave it out if it holds none'}"


def read_resources(
    source: Source,
    reading: Reading,
    shape: type[_S],
    kinds: Kinds,
    entries_of: Callable[[_S, Reading], Iterator[Entry]],
) -> Iterator[Entry]:
    """The ACLs of every resource of a file, also of those in a list."""
    for document in source.documents():
        if is_null(document):
            continue
        for resource in _unlisted(document, kinds, reading):
            if isinstance(resource, tuple):
                yield resource
            else:
                yield from _read(resource, reading, shape, kinds, entries_of)


def _read(
    resource: Value,
    reading: Reading,
    shape: type[_S],
    kinds: Kinds,
    entries_of: Callable[[_S, Reading], Iterator[Entry]],
) -> Iterator[Entry]:
    version, kind = _text_at(resource, "apiVersion"), _text_at(resource, "kind")
    if not isinstance(resource, Fields) or not version or not kind:
        yield line_of(resource), [Problem("not a resource; write one with apiVersion and kind")]
    elif kinds.has(kinds.read, version, kind):
        try:
            yield from entries_of(read_shape(shape, resource, reading), reading)
        except Refused as refused:
            yield from ((line, [problem]) for line, problem in refused.faults)
    elif not kinds.has(kinds.passed_over, version, kind):
        problem = f"`{version[:MAX_SHOWN]}` `{kind[:MAX_SHOWN]}`: {kinds.refusal(kind)}"
        yield line_of(resource), [Problem(problem)]
    elif _has(resource, kinds.acls_at) or _has(resource, kinds.acls_at[1:]):
        problem = f"`{kind}`: no such resource has ACLs, but this one has `{'.'.join(kinds.acls_at)}`; correct its kind"
        yield line_of(resource), [Problem(problem)]
    else:
        reading.passed_over[kind] += 1


def _unlisted(document: Value, kinds: Kinds, reading: Reading) -> Iterator[Value | Entry]:
    if not _is_list(document, kinds):
        yield document
        return
    try:
        found = read_shape(_List, document, reading)
    except Refused as refused:
        yield from ((line, [problem]) for line, problem in refused.faults)
        return
    if found.metadata is not None and found.metadata.following:
        text = "there are more pages; give the resources of all of them, without this field"
        yield found.line, [Problem(text, ("metadata", "continue"))]
    for item in found.items:
        # A list in a list could nest without end.
        yield (line_of(item), [Problem("a list within a list; give its items")]) if _is_list(item, kinds) else item


def _is_list(value: Value, kinds: Kinds) -> bool:
    return kinds.has(kinds.lists, _text_at(value, "apiVersion"), _text_at(value, "kind"))


def _text_at(value: Value, name: str) -> str:
    found = fields_of(value).get(name) if isinstance(value, Fields) else None
    return str(found.value) if isinstance(found, Scalar) else ""


def _has(value: Value, place: Sequence[str]) -> bool:
    for name in place:
        if not isinstance(value, Fields) or name not in (inside := fields_of(value)):
            return False
        value = inside[name]
    return isinstance(value, Items)


def by_rule(bindings: Sequence[AclBinding]) -> list[list[AclBinding]]:
    """The bindings in groups that differ by operation only, each group in the place of its first."""
    rules: dict[AclBinding, list[AclBinding]] = {}
    for each in bindings:
        rules.setdefault(each._replace(operation=AclOperation.ANY), []).append(each)
    return list(rules.values())
