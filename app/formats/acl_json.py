"""ACLs as JSON: a binding a line (JSON Lines), the bindings of one createAcls body, or an array of them.

The fields are those of createAcls' bindings, as strictly as there: no unknown field, no key twice, only texts, and null
for no end or no owner.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import TextIO

import msgspec
from msgspec import UNSET, UnsetType

from app.core.kafka.bindings import KEEP, AclBinding, AclTerms, NewAcl
from app.core.kafka.codes import WILDCARD
from app.formats.acl_bodies import terms_of
from app.formats.acl_entries import MAX_SHOWN, Entry, acl_of
from app.formats.json_walk import JsonWalk, Pairs, not_json
from app.formats.lines import NOT_UTF_8, raw_lines
from app.formats.quoting import json_quoted
from app.formats.reading import Reading
from app.formats.source import Outline, Source

_REQUIRED = ("resource_type", "resource_name", "principal", "operation", "permission_type")
_REQUIRED_QUOTES = 4 * len(_REQUIRED)
_FIELDS = (*_REQUIRED, "pattern_type", "host", *AclTerms._fields)
_BODY_FIELDS = ("context", "bindings", "timeout_ms", "if_unchanged_since", "comment", "at_least")


class JsonBinding(msgspec.Struct, forbid_unknown_fields=True, gc=False, kw_only=True):
    """A binding in JSON, in files and in bodies of createAcls; a missing field is UNSET."""

    resource_type: str
    resource_name: str
    pattern_type: str | UnsetType = UNSET
    principal: str
    host: str | UnsetType = UNSET
    operation: str
    permission_type: str
    expires_at: str | UnsetType | None = UNSET
    owner: str | UnsetType | None = UNSET


_decode = msgspec.json.Decoder(JsonBinding).decode


def read_json_lines(source: Source, _: Reading) -> Iterator[Entry]:
    for number, line in raw_lines(source.stream, way_out="write one binding per line"):
        if isinstance(line, list):
            yield number, line
        elif not line.isspace():
            yield number, parse_acl(line)


def is_json_lines(outline: Outline) -> bool:
    return outline.is_lines or (not outline.is_list and outline.has(*_REQUIRED) and not outline.has("permission"))


def is_create_acls_body(outline: Outline) -> bool:
    if outline.is_list:
        return not outline.fields or (outline.has(*_REQUIRED) and not outline.has("permission"))
    return outline.has("bindings")


def read_create_acls_body(source: Source, _: Reading) -> Iterator[Entry]:
    """The bindings of a createAcls body. Passed over are `context`, since the actor is who imports, and `comment`."""
    return _body_entries(source.json())


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


def parse_acl(text: bytes) -> NewAcl | list[str]:
    try:
        fields = _decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as fault:
        return _problems(text) or [str(fault)]
    pattern_type, host, ends, owner = fields.pattern_type, fields.host, fields.expires_at, fields.owner
    # msgspec keeps the last of equal keys in silence. But each key that came has two quotes and its text two more, so
    # there are more of them than the kept ones have; or there are escaped ones, which are worth a closer look.
    left = text.count(b'"') - _REQUIRED_QUOTES
    if pattern_type is not UNSET:
        left -= 4
    if host is not UNSET:
        left -= 4
    if ends is not UNSET:
        left -= 2 if ends is None else 4
    if owner is not UNSET:
        left -= 2 if owner is None else 4
    if left and (problems := _problems(text)):
        return problems
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


def _problems(text: bytes) -> list[str]:
    """What is wrong with the form of a binding, field by field; slower than `parse_acl`."""
    found = object_of_texts(text, required=_REQUIRED, known=_FIELDS, nullable=AclTerms._fields)
    return found if isinstance(found, list) else []


def object_of_texts(
    text: bytes,
    *,
    required: Sequence[str],
    known: Sequence[str],
    passed_over: Sequence[str] = (),
    nullable: Sequence[str] = (),
) -> dict[str, str] | list[str]:
    """The fields of the object in this JSON that are texts, or what is wrong with them, field by field."""
    try:
        pairs = json.loads(text.rstrip().decode(), object_pairs_hook=Pairs)
    except UnicodeDecodeError:
        return [NOT_UTF_8]
    except json.JSONDecodeError as fault:
        return [not_json(fault)]
    except (ValueError, RecursionError):
        return ["not a binding: a number is too long, or the nesting is too deep"]
    if not isinstance(pairs, Pairs):
        return ["not an object; write one with the fields of a binding"]
    names = [name for name, _ in pairs]
    problems = [f"`{name}`: the field is missing" for name in required if name not in names]
    fields: dict[str, str] = {}
    for name, value in pairs:
        if name in passed_over or (value is None and name in nullable):
            continue
        if name not in known:
            problems.append(f"`{name[:MAX_SHOWN]}`: there is no such field; remove it")
        elif not isinstance(value, str):
            problems.append(f"`{name}`: the value is not text; write a string")
        else:
            fields[name] = value
    problems += [f"`{name}`: the key comes more than once; write it once" for name in known if names.count(name) > 1]
    return problems or fields


def _body_entries(walk: JsonWalk) -> Iterator[Entry]:
    if walk.next() == "[":
        for line, item in walk.raw_items():
            yield line, parse_acl(item)
        walk.end()
        return
    has_bindings = False
    for line, name in walk.members():
        if name == "bindings":
            has_bindings = True
            for item_line, item in walk.raw_items():
                yield item_line, parse_acl(item)
            continue
        if name not in _BODY_FIELDS:
            yield line, [f"`{name[:MAX_SHOWN]}`: there is no such field; remove it"]
        walk.value()
    walk.end()
    if not has_bindings:
        yield 1, ["`bindings`: the field is missing"]
