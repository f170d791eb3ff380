"""The styles of formats in lines: CSV, and the text of kafka-acls."""

import random
from collections.abc import Mapping, Sequence
from datetime import datetime
from itertools import pairwise, permutations

from app.core.kafka.bindings import KEEP, AclBinding, NewAcl
from app.core.kafka.codes import PatternType, ResourceType
from app.formats.registry import AclFormat
from tests.acl_files.file import AclFile, Drawn, shown_end, text_of


def _with_signs(acls: Sequence[NewAcl], comma: str, draw: random.Random) -> list[NewAcl]:
    """Their principals are distinguished names, or have other signs, and so have their groups."""
    endings = (f"{comma}O=a b", f"{comma}O=a b", " b", ";n", ":x", "`", ")", "=f")
    return [_renamed(each, draw.choice(endings), draw.choice(endings)) for each in acls]


def _renamed(acl: NewAcl, of_principal: str, of_group: str) -> NewAcl:
    b = acl.binding
    name = b.resource_name if b.resource_type is ResourceType.TOPIC else f"{b.resource_name[::-1]}{of_group}"
    principal = f"User:CN={b.principal.removeprefix('User:')}{of_principal}"
    return acl._replace(binding=b._replace(principal=principal, resource_name=name))


_COLUMNS = ("Principal", "ResourceType", "PatternType", "ResourceName", "Operation", "PermissionType", "Host")
_TEXTS = ("Principal", "ResourceName", "Host")
_ORDERS = [
    each
    for each in permutations(_COLUMNS)
    if not any(one in _TEXTS and other in _TEXTS for one, other in pairwise(each))
]
"""Those in which no text stands beside another one, so that it is clear to which a comma belongs."""


def _csv(acl_format: AclFormat, acls: Sequence[NewAcl], draw: random.Random) -> AclFile:
    columns: Sequence[str] = _COLUMNS
    has_terms = acls[0].owner is not KEEP
    style = draw.choice(("its writer's", "columns in any order", "no header", "quoted", "kafbat UI's"))
    if style == "its writer's":
        said = acls if has_terms else [NewAcl(each.binding) for each in acls]
        return AclFile(text_of(acl_format, acls), tuple(said), style, has_bare_hosts=True)
    if style == "columns in any order":
        some = [*columns, "ExpiresAt", "Owner"] if has_terms else list(columns)
        columns = draw.sample(some, len(some))
    else:
        acls = [NewAcl(each.binding) for each in acls]
    if style in ("quoted", "kafbat UI's"):
        acls = _with_signs(acls, ",", draw)
    if style == "kafbat UI's" and draw.random() < 0.5:
        columns = draw.choice(_ORDERS)
    end, quote = draw.choice(("\n", "\r\n")), '"' if style == "quoted" else ""
    lines = [] if style == "no header" else [",".join(columns)]
    lines += [",".join(f"{quote}{_cell(each, name)}{quote}" for name in columns) for each in acls]
    return AclFile(
        "".join(f"{line}{end}" for line in lines),
        tuple(acls),
        style,
        has_bare_hosts=not quote,
        is_recognised=style != "no header",
    )


def _cell(acl: NewAcl, column: str) -> str:
    b = acl.binding
    return {
        "Principal": b.principal,
        "ResourceType": b.resource_type.name,
        "PatternType": b.pattern_type.name,
        "ResourceName": b.resource_name,
        "Operation": b.operation.name,
        "PermissionType": b.permission_type.name,
        "Host": b.host,
        "ExpiresAt": shown_end(acl.expires_at) if isinstance(acl.expires_at, datetime) else "",
        "Owner": acl.owner if isinstance(acl.owner, str) else "",
    }[column]


def _kafka_acls(acl_format: AclFormat, acls: Sequence[NewAcl], draw: random.Random) -> AclFile:
    style = draw.choice(("its writer's", "of 3.9", "of 2.1", "of 2.0", "of 1.0", "added"))
    if draw.random() < 0.3:
        acls = _with_signs(acls, ", ", draw)
    if style == "of 1.0":
        acls = [each._replace(binding=each.binding._replace(pattern_type=PatternType.LITERAL)) for each in acls]
    if style == "its writer's":
        return AclFile(text_of(acl_format, acls), tuple(acls), style)
    blank = " " if style in ("of 3.9", "of 2.0", "of 1.0") else ""
    said = "Adding" if style in ("added", "of 2.1") else "Current"
    lines = []
    for each in acls:
        resource, entry = _kafka_acls_resource(each.binding, style), _kafka_acls_entry(each.binding, style)
        lines += [f"{said} ACLs for resource `{resource}`:{blank}", f"{blank}\t{entry}{blank}", ""]
    return AclFile("".join(f"{line}\n" for line in lines), tuple(acls), style)


def _kafka_acls_resource(b: AclBinding, style: str) -> str:
    if style in ("of 1.0", "of 2.0"):
        pattern = "" if style == "of 1.0" else f"{b.pattern_type.name}:"
        return f"{_capital(b.resource_type.name)}:{pattern}{b.resource_name}"
    name = f"name={b.resource_name}, patternType={b.pattern_type.name}"
    return f"ResourcePattern(resourceType={b.resource_type.name}, {name})"


def _kafka_acls_entry(b: AclBinding, style: str) -> str:
    if style in ("of 1.0", "of 2.0", "of 2.1"):
        permission, operation = _capital(b.permission_type.name), _capital(b.operation.name)
        return f"{b.principal} has {permission} permission for operations: {operation} from hosts: {b.host}"
    words = f"operation={b.operation.name}, permissionType={b.permission_type.name}"
    return f"(principal={b.principal}, host={b.host}, {words})"


def _capital(name: str) -> str:
    return "".join(part.capitalize() for part in name.split("_"))


IN_LINES: Mapping[str, Drawn] = {"csv": _csv, "kafka-acls": _kafka_acls}
