"""ACLs as JSON: a binding a line (JSON Lines), the bindings of one createAcls body, an array of them, or one binding.

The fields are those of createAcls' bindings, as strictly as there: no unknown field, no key twice, only texts, and null
for no end or no owner. All but JSON Lines may be YAML as well.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import TextIO

import msgspec
from msgspec import UNSET, UnsetType

from app.core.kafka.bindings import KEEP, AclBinding, NewAcl
from app.core.kafka.codes import WILDCARD
from app.formats.acl_bodies import terms_of
from app.formats.acl_entries import Entry, FieldPlace, Problem, acl_of
from app.formats.json_walk import JsonWalk, not_json
from app.formats.lines import NOT_UTF_8, TextFault, raw_lines
from app.formats.quoting import json_quoted
from app.formats.reading import Reading
from app.formats.shape_faults import Refused
from app.formats.shape_reader import read_each, read_one, read_shape
from app.formats.shapes import Each, OperationWord, PatternTypeWord, PermissionTypeWord, ResourceTypeWord, Shape
from app.formats.source import Outline, Source
from app.formats.yaml_documents import Fields, Items, Value, fields_of, is_null, line_of


class JsonBinding(msgspec.Struct, forbid_unknown_fields=True, gc=False, kw_only=True):
    """A binding in JSON, in files and in bodies of createAcls; a missing field is UNSET."""

    resource_type: ResourceTypeWord
    resource_name: str
    pattern_type: PatternTypeWord | UnsetType = UNSET
    principal: str
    host: str | UnsetType = UNSET
    operation: OperationWord
    permission_type: PermissionTypeWord
    expires_at: str | UnsetType | None = UNSET
    owner: str | UnsetType | None = UNSET


class Context(Shape):
    """The caller of a body of createAcls; it is left out, since the actor is who imports."""

    principal: str | None = None
    client_address: str | None = None
    listener_name: str | None = None
    security_protocol: str | None = None
    request_type: int | None = None
    request_version: int | None = None
    client_id: str | None = None
    correlation_id: int | None = None
    groups: list[str] | None = None


class CreateAclsBody(Shape):
    """Of a body of createAcls, all but the bindings is left out."""

    bindings: Each[JsonBinding]
    context: Context | None = None
    timeout_ms: int | None = None
    if_unchanged_since: str | None = None
    comment: str | None = None
    at_least: str | None = None


_decode = msgspec.json.Decoder(JsonBinding).decode
_REQUIRED_QUOTES = 4 * 5
_QUOTES: dict[type, int] = {str: 4, type(None): 2, UnsetType: 0}
"""Around the name of an optional field and its text, its null, or nothing."""

_BINDINGS = "bindings"
_OWN_FIELDS = ("resource_type", "resource_name", "principal", "operation")
_KNOWN = frozenset(JsonBinding.__struct_fields__)


def is_json_lines(outline: Outline) -> bool:
    return outline.is_lines and (not outline.fields or _is_binding(outline))


def is_create_acls_body(outline: Outline) -> bool:
    if outline.is_list:
        return not outline.fields or _is_binding(outline)
    return outline.has(_BINDINGS) or (not outline.is_lines and _is_binding(outline))


def _is_binding(outline: Outline) -> bool:
    return outline.has("permission_type") or (outline.has(*_OWN_FIELDS) and not outline.has("permission"))


def read_json_lines(source: Source, reading: Reading) -> Iterator[Entry]:
    quickly = _quick(reading)
    for number, line in raw_lines(source.stream, way_out="write one binding per line"):
        if isinstance(line, list):
            yield number, list(map(Problem, line))
        elif quickly is not None and (found := quickly(line)) is not None:
            yield number, found
        elif not line.isspace():
            yield from read_one(partial(_of_line, reading, number, line))


def read_create_acls_body(source: Source, reading: Reading) -> Iterator[Entry]:
    """The bindings of a createAcls body, of an array, or one binding; also of YAML, and of each of its documents."""
    for document in source.documents():
        names = fields_of(document).keys() if isinstance(document, Fields) else ()
        if isinstance(document, Items):
            yield from read_each(document, partial(_binding, reading), _quick(reading))
        elif _BINDINGS not in names and not _KNOWN.isdisjoint(names):
            yield from read_one(partial(_binding, reading, document))
        elif not is_null(document):
            yield from _body(document, reading)


def _body(document: Value, reading: Reading) -> Iterator[Entry]:
    try:
        read_shape(CreateAclsBody, document, reading)
    except Refused as refused:
        yield from refused.entries()
    if isinstance(document, Fields):
        binding = partial(_binding, reading, place=(_BINDINGS,), within=CreateAclsBody)
        yield from read_each(fields_of(document).get(_BINDINGS), binding, _quick(reading))


def _binding(
    reading: Reading, value: Value, *, place: FieldPlace = (), within: type[msgspec.Struct] | None = None
) -> Entry:
    return line_of(value), _acl(read_shape(JsonBinding, value, reading, place, within))


def write_json_lines(acls: Sequence[NewAcl], out: TextIO) -> None:
    out.writelines(f"{_acl_json(acl)}\n" for acl in acls)


def write_create_acls_body(acls: Sequence[NewAcl], out: TextIO) -> None:
    """One body of createAcls, a binding a line; its `context` is whoever sends it."""
    write_json_list("bindings", map(_acl_json, acls), out)


def write_json_list(name: str, items: Iterable[str], out: TextIO) -> None:
    out.write(f'{{"{name}": [')
    between = ""
    for item in items:
        out.write(f"{between}\n  {item}")
        between = ","
    out.write("\n]}\n")


def binding_json(binding: AclBinding, *, permission: str = "permission_type", pattern: str = "pattern_type") -> str:
    """The binding as a JSON object on one line; other tools have other names for `permission` and `pattern`."""
    b = binding
    return (
        f'{{"resource_type": "{b.resource_type.name}", "resource_name": {json_quoted(b.resource_name)}, '
        f'"{pattern}": "{b.pattern_type.name}", "principal": {json_quoted(b.principal)}, '
        f'"host": {json_quoted(b.host)}, "operation": "{b.operation.name}", '
        f'"{permission}": "{b.permission_type.name}"}}'
    )


def _acl_json(acl: NewAcl) -> str:
    terms = "".join(f', "{name}": {_nullable(text)}' for name, text in terms_of(acl).items())
    return f"{binding_json(acl.binding)[:-1]}{terms}}}"


def _nullable(text: str | None) -> str:
    return "null" if text is None else json_quoted(text)


def _quick(reading: Reading) -> Callable[[bytes], NewAcl | None] | None:
    """None where every field is to be looked at, as a person may have named one of them to be passed over."""
    return None if reading.files.pass_over else _quickly


def _quickly(text: bytes) -> NewAcl | None:
    """The ACL of a binding without fault; None if it may have one, for which its tree is to be read."""
    try:
        fields = _decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    # INVARIANT: no key comes twice. msgspec keeps the last of equal keys in silence, and then the text has more quotes
    # than the keys and texts that were kept; it has more of them, too, if a text has one as an escape.
    optional = _QUOTES[type(fields.pattern_type)] + _QUOTES[type(fields.host)]
    if text.count(b'"') != _REQUIRED_QUOTES + optional + _QUOTES[type(fields.expires_at)] + _QUOTES[type(fields.owner)]:
        return None
    acl = _acl(fields)
    return acl if isinstance(acl, NewAcl) else None


def _acl(fields: JsonBinding) -> NewAcl | list[Problem]:
    pattern_type, host, ends, owner = fields.pattern_type, fields.host, fields.expires_at, fields.owner
    return acl_of(
        resource_type=fields.resource_type,
        resource_name=fields.resource_name,
        pattern_type="LITERAL" if pattern_type is UNSET else pattern_type,
        principal=fields.principal,
        # Nearly all of millions say `*`, which is then one text for all of them.
        host=WILDCARD if host is UNSET or host == WILDCARD else host,
        operation=fields.operation,
        permission_type=fields.permission_type,
        expires_at=KEEP if ends is UNSET else ends,
        owner=KEEP if owner is UNSET else owner,
    )


def _of_line(reading: Reading, number: int, line: bytes) -> Entry:
    """Raises TextFault and Refused."""
    try:
        walk = JsonWalk(line.decode(), line=number)
        document = walk.tree()
        walk.end()
    except UnicodeDecodeError:
        raise TextFault(number, NOT_UTF_8) from None
    except json.JSONDecodeError as fault:
        raise TextFault(number, not_json(fault)) from None
    except (ValueError, RecursionError):
        raise TextFault(number, "a number is too long, or the nesting is too deep") from None
    return _binding(reading, document)
