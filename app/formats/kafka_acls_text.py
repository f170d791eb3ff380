"""The text that `kafka-acls` prints: `--list`, and what `--add` says it does.

A principal may hold ", " and "=" (distinguished names), and so may a name: entries and headers are read from their
right end. Besides today's spelling (since Kafka 2.2) there are those of 1.x and 2.0: `Topic:orders`,
`Topic:PREFIXED:orders-`, "User:a has Allow permission for operations: Read from hosts: *".
"""

import re
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import IO, TextIO

from app.core.bindings import AclBinding
from app.core.codes import AclOperation, AclPermissionType, PatternType, ResourceType
from app.formats.acl_entries import Entry, FormatLimitError, binding_of
from app.formats.lines import text_lines
from app.formats.words import loosely

_BEGINS = re.compile(rb"^(?:(?:Current|Adding) ACLs for resource `|ACLs for principal `|Acl \(pattern=)", re.MULTILINE)
_HEADER = re.compile(r"(?:Current|Adding) ACLs for resource `(.*)`: ?\Z", re.DOTALL)
_PATTERN = re.compile(r"ResourcePattern\(resourceType=(\w+), name=(.*), patternType=(\w+)\)\Z", re.DOTALL)
_OLD_PATTERN = re.compile(r"([A-Za-z]+):(?:(LITERAL|PREFIXED):)?(.+)\Z", re.DOTALL)
_OLD_ENTRY = re.compile(r" ?\t(.*) has (\w+) permission for operations: (\w+) from hosts: (\S+) ?\Z", re.DOTALL)
_ENTRY_BEGINS = "(principal="
_EXISTS_BEGINS, _EXISTS_ENDS = "Acl (pattern=", ") already exists."
_BETWEEN = f", entry={_ENTRY_BEGINS}"
_OF_PRINCIPAL = re.compile(r"ACLs for principal `.*`\Z", re.DOTALL)

_Resource = tuple[str, str, str]
"""Type, name and pattern type."""


def is_kafka_acls_text(head: bytes) -> bool:
    """Whether a file that begins so is text of `kafka-acls`."""
    return _BEGINS.search(head) is not None


def read_kafka_acls_text(stream: IO[bytes]) -> Iterator[Entry]:
    """The ACLs of a text, one a line. A line that `kafka-acls` would not print there is told, never passed over."""
    resource: _Resource | None = None
    for number, line in text_lines(stream, way_out="that is no line of kafka-acls"):
        if isinstance(line, list):
            yield number, line
            continue
        text = line.removesuffix("\n").removesuffix("\r")
        header = _HEADER.match(text)
        if header is not None:
            resource = _resource(header[1])
            if resource is None:
                yield number, ["a resource that can't be read; expected ResourcePattern(resourceType=..., ...)"]
        elif not text.strip(" \t"):
            # INVARIANT: an entry belongs to the header right above it, never to one of a block before.
            resource = None
        elif _OF_PRINCIPAL.match(text) is None:
            yield number, _entry(text, resource)


def write_kafka_acls_text(bindings: Sequence[AclBinding], out: TextIO) -> None:
    """As `--list` prints them, a block for each resource pattern in the order of the bindings."""
    for binding in bindings:
        _check(binding)
    for pattern, acls in groupby(bindings, lambda each: (each.resource_type, each.resource_name, each.pattern_type)):
        resource_type, name, pattern_type = pattern
        out.write(
            f"Current ACLs for resource `ResourcePattern(resourceType={resource_type.name}, name={name}, "
            f"patternType={pattern_type.name})`:\n"
        )
        out.writelines(
            f"\t(principal={each.principal}, host={each.host}, operation={each.operation.name}, "
            f"permissionType={each.permission_type.name})\n"
            for each in acls
        )
        out.write("\n")


def _check(binding: AclBinding) -> None:
    """Raises FormatLimitError for what could not be read back."""
    if any(each in text for text in (binding.resource_name, binding.principal, binding.host) for each in "\r\n"):
        raise FormatLimitError(binding, "kafka-acls text has a line for an ACL, and no way to write a line end in it")
    if ", host=" in binding.host:
        raise FormatLimitError(binding, "kafka-acls text can't tell a host with `, host=` from its principal")


def _resource(text: str) -> _Resource | None:
    found = _PATTERN.match(text)
    if found is not None:
        resource_type, name, pattern_type = found.groups()
        return resource_type, name, pattern_type
    found = _OLD_PATTERN.match(text)
    if found is None:
        return None
    resource_type, pattern, name = found.groups()
    return loosely(ResourceType, resource_type), name, pattern or PatternType.LITERAL.name


def _entry(text: str, resource: _Resource | None) -> AclBinding | list[str]:
    if text.startswith(_EXISTS_BEGINS) and text.endswith(_EXISTS_ENDS):
        pattern, *entries = text[len(_EXISTS_BEGINS) : -len(_EXISTS_ENDS)].split(_BETWEEN)
        if len(entries) != 1:
            return [f"expected one `{_BETWEEN}`: where the resource ends can't be told; list the ACLs instead"]
        resource, text = _resource(pattern), f"\t{_ENTRY_BEGINS}{entries[0]}"
    fields = _fields(text)
    if fields is None:
        return ["neither a resource nor an entry of kafka-acls; remove the line, or list the ACLs again"]
    if resource is None:
        return ["an entry without a resource above it; keep the line `Current ACLs for resource ...` before it"]
    resource_type, name, pattern_type = resource
    principal, host, operation, permission_type = fields
    return binding_of(
        resource_type=resource_type,
        resource_name=name,
        pattern_type=pattern_type,
        principal=principal,
        host=host,
        operation=operation,
        permission_type=permission_type,
    )


def _fields(text: str) -> tuple[str, str, str, str] | None:
    """Principal, host, operation and permission type of an entry."""
    begin = text.removeprefix(" ").removeprefix("\t")
    if begin.startswith(_ENTRY_BEGINS) and len(text) - len(begin) in (1, 2) and begin.endswith(")"):
        rest, permission, permission_type = begin[len(_ENTRY_BEGINS) : -1].rpartition(", permissionType=")
        rest, operations, operation = rest.rpartition(", operation=")
        principal, hosts, host = rest.rpartition(", host=")
        return (principal, host, operation, permission_type) if permission and operations and hosts else None
    found = _OLD_ENTRY.match(text)
    if found is None:
        return None
    principal, permission_type, operation, host = found.groups()
    return principal, host, loosely(AclOperation, operation), loosely(AclPermissionType, permission_type)
