"""Resources of Kubernetes' kind, in YAML or JSON: apiVersion, kind, metadata, spec. Strimzi and Jikkou have them."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, TypeAlias, TypeVar

import msgspec

from app.core.kafka.bindings import AclBinding
from app.core.kafka.codes import AclOperation
from app.core.spelling import nearest
from app.formats.acl_entries import MAX_SHOWN, Entry, Problem
from app.formats.reading import Reading
from app.formats.shape_faults import Refused
from app.formats.shape_reader import read_shape
from app.formats.shapes import PassedOver, Prose, Raw, Shape, Single, as_text
from app.formats.source import Source
from app.formats.yaml_documents import (
    Fields,
    Items,
    Scalar,
    Value,
    fields,
    fields_of,
    is_null,
    is_text,
    line_of,
    scalar,
)

_S = TypeVar("_S", bound=Shape)


_TEMPLATE = re.compile(r"\{[{%#]")


def has_template(*texts: str) -> bool:
    """Whether one of them has what Helm, Ansible or Jikkou would fill in."""
    return any(_TEMPLATE.search(each) is not None for each in texts)


def _plain_text(text: str) -> str:
    if has_template(text):
        raise ValueError("a template that nothing has filled in; give what is made of it")
    return text


PlainText: TypeAlias = Annotated[str, as_text(_plain_text)]
"""A text that is no template."""


class _OwnerReference(Shape, rename="camel"):
    api_version: Single = None
    kind: Single = None
    name: Single = None
    uid: Single = None
    controller: Single = None
    block_owner_deletion: Single = None


class _ManagedFields(Shape, rename="camel"):
    api_version: Single = None
    fields_type: Single = None
    fields_v1: PassedOver = msgspec.field(name="fieldsV1", default=None)
    manager: Single = None
    operation: Single = None
    subresource: Single = None
    time: Single = None


class Metadata(Shape, rename="camel"):
    """Of an object of Kubernetes (ObjectMeta, v1)."""

    name: PlainText
    namespace: PlainText | None = None
    labels: dict[str, PlainText] | None = None
    annotations: dict[str, Prose] | None = None
    generate_name: Single = None
    self_link: Single = None
    uid: Single = None
    resource_version: Single = None
    generation: Single = None
    creation_timestamp: Single = None
    deletion_timestamp: Raw = None
    deletion_grace_period_seconds: Single = None
    owner_references: list[_OwnerReference] | None = None
    finalizers: list[str] | None = None
    managed_fields: list[_ManagedFields] | None = None
    cluster_name: Single = None

    def problems(self) -> list[Problem]:
        """Why the resource is not in force."""
        if self.deletion_timestamp is None or is_null(self.deletion_timestamp):
            return []
        place = ("metadata", "deletionTimestamp")
        return [Problem(f"`{self.name[:MAX_SHOWN]}` is being deleted; leave it out", place)]


class _ListMetadata(Shape, rename="camel"):
    """Of a list of Kubernetes (ListMeta, v1), or of Jikkou."""

    resource_version: Single = None
    self_link: Single = None
    remaining_item_count: Single = None
    following: str | None = msgspec.field(name="continue", default=None)
    name: Single = None
    labels: dict[str, PassedOver] | None = None
    annotations: dict[str, PassedOver] | None = None

    def problems(self, meaningful: Sequence[str]) -> Iterator[Problem]:
        """Why it may not be what is in force. Of `meaningful`, the tools read nothing of a list."""
        if self.following:
            text = "there are more pages; give the resources of all of them, without this field"
            yield Problem(text, ("metadata", "continue"))
        for block, names in (("labels", self.labels), ("annotations", self.annotations)):
            for name in names or ():
                if name in meaningful or nearest(name, meaningful, likeness=LEAST_LIKENESS_OF_LABELS) is not None:
                    text = "it says nothing about the items of a list; write it into the metadata of each"
                    yield Problem(text, ("metadata", block, name))


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
    """Lists of resources, besides those of each kind that is passed over."""
    passed_over: Mapping[str, Sequence[str]]
    changing: Mapping[str, Callable[[Fields, Reading], Iterator[Entry]]] = field(default_factory=dict)
    """For kinds that are passed over but change other resources: what is wrong with one of them."""
    meaningful: Sequence[str] = ()
    """Labels and annotations that say something about ACLs; only a resource may have them, and no list."""

    def has(self, some: Mapping[str, Sequence[str]], version: str, kind: str) -> bool:
        group = version.rpartition("/")[0]
        return kind in some.get(version, ()) or (bool(group) and kind in some.get(f"{group}/*", ()))

    def is_list(self, version: str, kind: str) -> bool:
        one = kind.removesuffix("List")
        return self.has(self.lists, version, kind) or (one != kind and self.has(self.passed_over, version, one))

    def kind_of_items(self, version: str, kind: str) -> str:
        """Of what kind all items of this list are; empty if each says it."""
        one = kind.removesuffix("List")
        is_known = one != kind and (self.has(self.read, version, one) or self.has(self.passed_over, version, one))
        return one if is_known else ""

    def refusal(self, kind: str) -> str:
        """Why a resource of this kind is refused, with the kind that was probably meant."""
        every = {
            each: version
            for some in (self.passed_over, self.lists, self.read)
            for version in reversed(list(some))
            for each in some[version]
        }
        meant = kind if kind in every else nearest(kind, every, likeness=_LEAST_LIKENESS)
        hint = f"did you mean apiVersion {every[meant].replace('*', 'v1')}, kind {meant}? Otherwise " if meant else ""
        return f"unknown to Klamm, so it may hold ACLs; {hint}leave it out if it holds none"


_LEAST_LIKENESS = 0.75
LEAST_LIKENESS_OF_LABELS = 0.85
_ACLS = "acls"


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
    if not isinstance(resource, Fields):
        yield line_of(resource), [Problem("not a resource; write one with apiVersion and kind")]
        return
    if (nameless := _nameless(resource)) is not None:
        yield nameless
        return
    version, kind = _text_at(resource, "apiVersion"), _text_at(resource, "kind")
    if kinds.has(kinds.read, version, kind):
        try:
            yield from entries_of(read_shape(shape, resource, reading), reading)
        except Refused as refused:
            yield from refused.entries()
    elif not kinds.has(kinds.passed_over, version, kind):
        problem = f"`{version[:MAX_SHOWN]}` `{kind[:MAX_SHOWN]}`: {kinds.refusal(kind)}"
        yield line_of(resource), [Problem(problem)]
    elif (place := _place_of_acls(resource)) is not None:
        problem = f"a {kind} has no ACLs, but this one has a list `{'.'.join(place)[:MAX_SHOWN]}`; correct its kind"
        yield line_of(resource), [Problem(problem, ("kind",))]
    else:
        reading.passed_over[kind] += 1
        if (changes_of := kinds.changing.get(kind)) is not None:
            yield from changes_of(resource, reading)


def _nameless(resource: Fields) -> Entry | None:
    """Why the resource does not say what it is."""
    keys = {key.value: key for key, _ in resource.value}
    values = fields_of(resource)
    for name in ("apiVersion", "kind"):
        if name in values:
            if not is_text(values[name]) or not values[name].value:
                return line_of(keys[name]), [Problem("the value is not text, or empty; write it in quotes", (name,))]
        elif (meant := nearest(name, keys)) is not None:
            return line_of(keys[meant]), [Problem(f"there is no such field; did you mean `{name}`?", (meant,))]
        else:
            return line_of(resource), [Problem("the field is missing", (name,))]
    return None


def _unlisted(document: Value, kinds: Kinds, reading: Reading) -> Iterator[Value | Entry]:
    if not _is_list(document, kinds):
        yield document
        return
    try:
        found = read_shape(_List, document, reading)
    except Refused as refused:
        yield from refused.entries()
        return
    if found.metadata is not None and (problems := list(found.metadata.problems(kinds.meaningful))):
        yield found.metadata.line, problems
    of_one_kind = kinds.kind_of_items(found.api_version, found.kind)
    for item in found.items:
        if _is_list(item, kinds):
            # A list in a list could nest without end.
            yield line_of(item), [Problem("a list within a list; give its items")]
        else:
            yield _as_the_list_says(item, found.api_version, of_one_kind) if of_one_kind else item


def _as_the_list_says(item: Value, version: str, kind: str) -> Value:
    """The items of a list of one kind may leave out what they are."""
    if not isinstance(item, Fields):
        return item
    names = fields_of(item).keys()
    line = line_of(item)
    left_out = [
        (scalar(name, line), scalar(text, line))
        for name, text in (("apiVersion", version), ("kind", kind))
        if name not in names and nearest(name, names) is None
    ]
    return fields([*left_out, *item.value], line) if left_out else item


def _is_list(value: Value, kinds: Kinds) -> bool:
    return kinds.is_list(_text_at(value, "apiVersion"), _text_at(value, "kind"))


def _text_at(value: Value, name: str) -> str:
    found = fields_of(value).get(name) if isinstance(value, Fields) else None
    return str(found.value) if isinstance(found, Scalar) else ""


def _place_of_acls(value: Value, place: tuple[str, ...] = ()) -> tuple[str, ...] | None:
    """Where a list of ACLs stands, in whatever blocks."""
    if not isinstance(value, Fields):
        return None
    for key, inside in value.value:
        here = (*place, key.value)
        found = here if key.value == _ACLS and isinstance(inside, Items) else _place_of_acls(inside, here)
        if found is not None:
            return found
    return None


def misspelt(names: Iterable[str], known: Sequence[str], *place: str) -> Iterator[Problem]:
    """Of names of the user's own, those that are nearly one of these that the format has a meaning for."""
    for name in names:
        meant = nearest(name, known, likeness=LEAST_LIKENESS_OF_LABELS)
        if meant is not None and name not in known:
            yield Problem(f"did you mean `{meant}`?", (*place, name))


def at_place(problems: Sequence[Problem], *place: str) -> Sequence[Problem]:
    """They are of what stands at this place."""
    for each in problems:
        each.place = (*place, *each.place)
    return problems


def by_rule(bindings: Sequence[AclBinding]) -> list[list[AclBinding]]:
    """The bindings in groups that differ by operation only, each group in the place of its first."""
    rules: dict[AclBinding, list[AclBinding]] = {}
    for each in bindings:
        rules.setdefault(each._replace(operation=AclOperation.ANY), []).append(each)
    return list(rules.values())
