"""ACLs as Redpanda's rpk lists them for programs: `rpk security acl list --format json`."""

from collections.abc import Iterator, Sequence
from typing import TextIO

from app.core.kafka.bindings import AclBinding, NewAcl
from app.formats.acl_entries import MAX_SHOWN, Entry, FormatLimitError, acl_of
from app.formats.acl_json import binding_json, object_of_texts, write_json_list
from app.formats.json_walk import JsonWalk, Pairs
from app.formats.reading import Reading
from app.formats.source import Outline, Source

_FIELDS = ("principal", "host", "resource_type", "resource_name", "resource_pattern_type", "operation", "permission")
_CALLED = {"pattern_type": "resource_pattern_type", "permission_type": "permission"}
_ROLE = "RedpandaRole:"


def is_rpk(outline: Outline) -> bool:
    return not outline.is_list and outline.has("matches", "filters")


def read_rpk(source: Source, _: Reading) -> Iterator[Entry]:
    """All ACLs of a listing. A failed filter is a problem, because the listing then lacks ACLs."""
    return _entries(source.json())


def write_rpk(bindings: Sequence[AclBinding], out: TextIO) -> None:
    for each in bindings:
        if each.principal.startswith(_ROLE):
            raise FormatLimitError(each, f"rpk reads {_ROLE} as a role, which Kafka does not have")
    lines = (binding_json(each, permission="permission", pattern="resource_pattern_type") for each in bindings)
    write_json_list("matches", lines, out)


def _entries(walk: JsonWalk) -> Iterator[Entry]:
    for line, name in walk.members():
        if name == "matches" and walk.next() == "[":
            for item_line, item in walk.raw_items():
                yield item_line, _acl(item)
            continue
        value = walk.value()
        if name == "filters" and _has_failed(value):
            yield line, ["`filters`: one of them failed, so ACLs may be missing; list them again"]
        elif name == "matches" and value is not None:
            yield line, ["`matches`: not a list; write one"]
        elif name not in ("filters", "matches"):
            yield line, [f"`{name[:MAX_SHOWN]}`: there is no such field; remove it"]
    walk.end()


def _has_failed(filters: object) -> bool:
    if filters is None:
        return False
    if isinstance(filters, Pairs) or not isinstance(filters, list):
        return True
    return any(not isinstance(each, Pairs) or dict(each).get("message", "") != "" for each in filters)


def _acl(text: bytes) -> NewAcl | list[str]:
    found = object_of_texts(text, required=_FIELDS, known=_FIELDS)
    if isinstance(found, list):
        return found
    if found["principal"].startswith(_ROLE):
        # To Kafka it would be a principal that nobody is, and a DENY of a role would deny nobody.
        return [
            "`principal`: a role of Redpanda, which Kafka does not have; write its ACLs out for each of its members"
        ]
    return acl_of(**{name: found[_CALLED.get(name, name)] for name in AclBinding._fields}, called=_CALLED)
