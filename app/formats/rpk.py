"""ACLs as Redpanda's rpk lists them for programs: `rpk security acl list --format json`, or yaml."""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import TextIO

from app.core.kafka.bindings import AclBinding
from app.formats.acl_entries import MAX_SHOWN, Entry, FormatLimitError, Problem, acl_of
from app.formats.acl_json import binding_json, write_json_list
from app.formats.reading import Reading
from app.formats.shapes import (
    Each,
    OperationWord,
    PatternTypeWord,
    PermissionTypeWord,
    Refused,
    ResourceTypeWord,
    Shape,
    read_each,
    read_shape,
)
from app.formats.source import Outline, Source
from app.formats.yaml_documents import Fields, Value, fields_of, is_null

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


class RpkListing(Shape):
    """What `rpk security acl list` prints for programs."""

    filters: list[_Filter] | None = None
    matches: Each[_Acl] | None = None


def is_rpk(outline: Outline) -> bool:
    return not outline.is_list and outline.has(_MATCHES, "filters")


def read_rpk(source: Source, reading: Reading) -> Iterator[Entry]:
    """All ACLs of a listing. A failed filter is a problem, because the listing then lacks ACLs."""
    for document in source.documents():
        if is_null(document):
            continue
        try:
            yield from _failed(read_shape(RpkListing, document, reading))
        except Refused as refused:
            yield from refused.entries()
        if isinstance(document, Fields):
            yield from read_each(fields_of(document).get(_MATCHES), partial(_acl, reading))


def write_rpk(bindings: Sequence[AclBinding], out: TextIO) -> None:
    for each in bindings:
        if each.principal.startswith(_ROLE):
            raise FormatLimitError(each, f"rpk reads {_ROLE} as a role, which Kafka does not have")
    lines = (binding_json(each, permission="permission", pattern="resource_pattern_type") for each in bindings)
    write_json_list(_MATCHES, lines, out)


def _failed(listing: RpkListing) -> Iterator[Entry]:
    for each in listing.filters or ():
        if each.message:
            text = f"one of them failed ({each.message[:MAX_SHOWN]}), so ACLs may be missing; list them again"
            yield each.line, [Problem(text, ("filters",))]


def _acl(reading: Reading, value: Value) -> Entry:
    found = read_shape(_Acl, value, reading, (_MATCHES,), within=RpkListing)
    if found.principal.startswith(_ROLE):
        # To Kafka it would be a principal that nobody is, and a DENY of a role would deny nobody.
        text = "a role of Redpanda, which Kafka does not have; write its ACLs out for each of its members"
        return found.line, [Problem(text, (_MATCHES, "principal"))]
    return found.line, acl_of(**{name: getattr(found, _CALLED.get(name, name)) for name in AclBinding._fields})
