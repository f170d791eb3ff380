"""ACLs as Redpanda's rpk lists them for programs: `rpk security acl list --format json`, or yaml.

In YAML rpk prints the names of its fields without `_`: `resourcetype`.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import TextIO

from app.core.kafka.bindings import AclBinding
from app.formats.acl_entries import MAX_SHOWN, Entry, FormatLimitError, Problem, acl_of
from app.formats.acl_json import binding_json, write_json_list
from app.formats.reading import Reading
from app.formats.shape_faults import Refused
from app.formats.shape_reader import read_each, read_shape
from app.formats.shapes import Each, OperationWord, PatternTypeWord, PermissionTypeWord, ResourceTypeWord, Shape
from app.formats.source import Outline, Source
from app.formats.yaml_documents import Fields, Items, Value, fields_of, is_null

_CALLED = {"pattern_type": "resource_pattern_type", "permission_type": "permission"}
_ROLE = "RedpandaRole:"
_MATCHES = "matches"


class _Acl(Shape):
    principal: str
    host: str
    resource_type: ResourceTypeWord
    resource_name: str
    resource_pattern_type: PatternTypeWord
    operation: OperationWord
    permission: PermissionTypeWord


def _without_underscores(name: str) -> str:
    return name.replace("_", "")


class _YamlAcl(_Acl, rename=_without_underscores):
    resource_type: ResourceTypeWord
    resource_name: str
    resource_pattern_type: PatternTypeWord


class _Filter(Shape):
    """What was asked for, which says nothing of an ACL, and how that failed."""

    message: str | None = None
    principal: str | None = None
    host: str | None = None
    resource_type: str | None = None
    resource_name: str | None = None
    resource_pattern_type: str | None = None
    operation: str | None = None
    permission: str | None = None


class _YamlFilter(_Filter, rename=_without_underscores):
    resource_type: str | None = None
    resource_name: str | None = None
    resource_pattern_type: str | None = None


class RpkListing(Shape):
    """What `rpk security acl list --format json` prints."""

    filters: list[_Filter] | None = None
    matches: Each[_Acl] | None = None


class RpkYamlListing(Shape):
    """What it prints with `--format yaml`."""

    filters: list[_YamlFilter] | None = None
    matches: Each[_YamlAcl] | None = None


_ONLY_IN_YAML = frozenset(_YamlAcl.__struct_encode_fields__) - frozenset(_Acl.__struct_encode_fields__)


def is_rpk(outline: Outline) -> bool:
    return not outline.is_list and outline.has(_MATCHES, "filters")


def read_rpk(source: Source, reading: Reading) -> Iterator[Entry]:
    """All ACLs of a listing. A failed filter is a problem, because the listing then lacks ACLs."""
    for document in source.documents():
        if is_null(document):
            continue
        is_yaml = _is_yaml(document)
        try:
            if is_yaml:
                yield from _failed(read_shape(RpkYamlListing, document, reading).filters)
            else:
                yield from _failed(read_shape(RpkListing, document, reading).filters)
        except Refused as refused:
            yield from refused.entries()
        if isinstance(document, Fields):
            yield from read_each(fields_of(document).get(_MATCHES), partial(_entry, reading, is_yaml=is_yaml))


def write_rpk(bindings: Sequence[AclBinding], out: TextIO) -> None:
    for each in bindings:
        if each.principal.startswith(_ROLE):
            raise FormatLimitError(each, f"rpk reads {_ROLE} as a role, which Kafka does not have")
    lines = (binding_json(each, permission="permission", pattern="resource_pattern_type") for each in bindings)
    write_json_list(_MATCHES, lines, out)


def _is_yaml(document: Value) -> bool:
    """Whether its first ACL or filter has the names that rpk prints in YAML; other tools may make YAML of its JSON."""
    lists = fields_of(document).values() if isinstance(document, Fields) else ()
    firsts = [each.value[0] for each in lists if isinstance(each, Items) and each.value]
    return any(isinstance(each, Fields) and not _ONLY_IN_YAML.isdisjoint(fields_of(each)) for each in firsts)


def _failed(filters: Sequence[_Filter] | None) -> Iterator[Entry]:
    for each in filters or ():
        if each.message:
            text = f"one of them failed ({each.message[:MAX_SHOWN]}), so ACLs may be missing; list them again"
            yield each.line, [Problem(text, ("filters",))]


def _entry(reading: Reading, value: Value, *, is_yaml: bool) -> Entry:
    found: _Acl
    if is_yaml:
        found = read_shape(_YamlAcl, value, reading, (_MATCHES,), within=RpkYamlListing)
    else:
        found = read_shape(_Acl, value, reading, (_MATCHES,), within=RpkListing)
    if found.principal.startswith(_ROLE):
        # To Kafka it would be a principal that nobody is, and a DENY of a role would deny nobody.
        text = "a role of Redpanda, which Kafka does not have; write its ACLs out for each of its members"
        return found.line, [Problem(text, (_MATCHES, "principal"))]
    return found.line, acl_of(**{name: getattr(found, _CALLED.get(name, name)) for name in AclBinding._fields})
