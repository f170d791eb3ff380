"""The text that `kafka-acls` prints: `--list`, and what `--add` says it does, of every version since 1.0.

A principal may hold ", " and "=" (distinguished names), and so may a name: entries and headers are read from their
right end. What the versions print (AclCommand, Resource, Acl, ResourcePattern, AccessControlEntry):

    1.0, 1.1        `Topic:orders`                 User:a has Allow permission for operations: Read from hosts: *
    2.0             `Topic:LITERAL:orders`         the same
    2.1 to 2.3      as 2.0, or as 2.4 with --bootstrap-server; its --add has 2.4's resources and 2.0's entries
    2.4 and later   `ResourcePattern(...)`         (principal=User:a, host=*, operation=READ, permissionType=ALLOW)

What `klamm acls --list` says of an ACL's end and owner follows its entry: ` until 2026-12-01T18:00:00Z, owner "x"`.

Up to 3.9 a blank follows each header and the last entry of each resource, and stands before the first entry. The lists
of 4.3 have none.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import TextIO

from app.core.kafka.bindings import KEEP, AclBinding, NewAcl
from app.core.kafka.codes import AclOperation, AclPermissionType, PatternType, ResourceType
from app.formats.acl_entries import Entry, FormatLimitError, acl_of
from app.formats.lines import text_lines
from app.formats.reading import Reading
from app.formats.source import Source
from app.formats.words import loosely

_BEGINS = re.compile(rb"^(?:(?:Current|Adding) ACLs for resource `|ACLs for principal `|Acl \(pattern=)", re.MULTILINE)
_HEADER = re.compile(r"(?:Current|Adding) ACLs for resource `(.*)`: ?\Z", re.DOTALL)
_PATTERN = re.compile(
    r"ResourcePattern\(resourceType=(?P<resource_type>\w+), name=(?P<resource_name>.*), "
    r"patternType=(?P<pattern_type>\w+)\)\Z",
    re.DOTALL,
)
_OLD_PATTERN = re.compile(
    r"(?P<resource_type>[A-Za-z]+):(?:(?P<pattern_type>LITERAL|PREFIXED):)?(?P<resource_name>.+)\Z", re.DOTALL
)
_OLD_ENTRY = re.compile(
    r" ?\t(?P<principal>.*) has (?P<permission_type>\w+) permission for operations: (?P<operation>\w+) "
    r"from hosts: (?P<host>\S+) ?\Z",
    re.DOTALL,
)
_NOTED = re.compile(
    r"(.*, permissionType=\w+\))(?: until ([0-9TZ:-]+))?"
    r'(?:,? owner ("(?:[^"\\]|\\["\\/bfnrt]|\\u[0-9A-Fa-f]{4})*"))?\Z',
    re.DOTALL,
)
"""An entry of 2.4 and later, and what klamm says of its end and owner."""

_ENTRY_BEGINS = "(principal="
_EXISTS_BEGINS, _EXISTS_ENDS = "Acl (pattern=", ") already exists."
_BETWEEN = f", entry={_ENTRY_BEGINS}"
_OF_PRINCIPAL = re.compile(r"ACLs for principal `.*`\Z", re.DOTALL)
_LOGGED = re.compile(
    r"\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}\] (?:TRACE|DEBUG|INFO|WARN) .*\([\w.$]+\)\Z"
    r"|Warning: support for ACL configuration directly through the authorizer is deprecated .*\Z"
    r"|(?:OpenJDK|Java HotSpot\(TM\)) [\w -]+ warning: .*\Z|Picked up _?JA\w+: .*\Z"
    r"|SLF4J(?:\([WI]\))?: .*\Z|log4j:WARN .*\Z"
)
"""What Kafka's logger, the tool and Java say on standard error, which many send to the same file."""

_FAILED = re.compile(r"\[[^]]*\] (?:ERROR|FATAL) |Error while ")
_LIKE_AN_ACL = re.compile(r"principal=|permissionType=| permission for operations: |ACLs for resource `")
_TERMINAL = re.compile("[\x1b\x9b]")
"""How sequences begin that colour a terminal's text: in a file they can't be told from a name's own characters."""

_NO_RESOURCE = "a resource that can't be read; expected ResourcePattern(resourceType=..., ...)"

_Words = Mapping[str, str]
"""Some fields of an ACL."""


def is_kafka_acls_text(head: bytes) -> bool:
    return _BEGINS.search(head) is not None


def read_kafka_acls_text(source: Source, _: Reading) -> Iterator[Entry]:
    """The ACLs of a text, one a line. A line that `kafka-acls` would not print there is a problem, never ignored."""
    resource: _Words | None = None
    versions = _Versions()
    for number, line in text_lines(source.stream, way_out="kafka-acls prints no such line"):
        if isinstance(line, list):
            yield number, line
            continue
        text = line.removesuffix("\n").removesuffix("\r")
        header = _HEADER.match(text)
        if _TERMINAL.search(text) is not None:
            yield number, ["a terminal's escape sequences, such as colours; write the text again without them"]
        elif header is not None:
            resource = _resource(header[1])
            problem = _NO_RESOURCE if resource is None else versions.problem(header[1], number)
            if problem is not None:
                yield number, [problem]
        elif not text.strip(" \t"):
            # INVARIANT: an entry belongs to the header right above it, never to one of a block before.
            resource = None
        elif _OF_PRINCIPAL.match(text) is not None:
            resource = None
        elif _LOGGED.match(text) is None or _LIKE_AN_ACL.search(text) is not None:
            yield number, _entry(text, resource)


class _Versions:
    """Which of the old versions a text is of: 1.x writes `Group:LITERAL:x` for a group that is called `LITERAL:x`."""

    def __init__(self) -> None:
        self._first: tuple[int, bool] | None = None
        """The first resource's line, and whether it has a pattern type."""

    def problem(self, resource: str, line: int) -> str | None:
        found = _OLD_PATTERN.match(resource)
        if found is None or _PATTERN.match(resource) is not None:
            return None
        has_pattern = found["pattern_type"] is not None
        self._first = self._first or (line, has_pattern)
        if has_pattern is self._first[1]:
            return None
        return (
            f"this resource and the one in line {self._first[0]} were printed by two versions of Kafka, one with "
            "pattern types and one without; put the output of each in a file of its own"
        )


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
    if any(each in text for text in (binding.resource_name, binding.principal, binding.host) for each in "\r\n"):
        raise FormatLimitError(binding, "kafka-acls text has one line per ACL, and no way to write a line end in it")
    if any(_TERMINAL.search(text) is not None for text in (binding.resource_name, binding.principal, binding.host)):
        raise FormatLimitError(binding, "kafka-acls text can't tell a terminal's escape sequences from colours")
    if ", host=" in binding.host:
        raise FormatLimitError(binding, "kafka-acls text can't tell a host with `, host=` from its principal")


def _resource(text: str) -> _Words | None:
    if (found := _PATTERN.match(text)) is not None:
        return found.groupdict()
    if (found := _OLD_PATTERN.match(text)) is None:
        return None
    words = found.groupdict(PatternType.LITERAL.name)
    return {**words, "resource_type": loosely(ResourceType, words["resource_type"])}


def _entry(text: str, resource: _Words | None) -> NewAcl | list[str]:
    if text.startswith(_EXISTS_BEGINS) and text.endswith(_EXISTS_ENDS):
        pattern, *entries = text[len(_EXISTS_BEGINS) : -len(_EXISTS_ENDS)].split(_BETWEEN)
        if len(entries) != 1:
            return [f"expected one `{_BETWEEN}`: it is unclear where the resource ends; list the ACLs instead"]
        resource, text = _resource(pattern), f"\t{_ENTRY_BEGINS}{entries[0]}"
    noted = _NOTED.match(text)
    text, ends, owner = noted.groups() if noted is not None else (text, None, None)
    fields = _fields(text)
    if fields is None and _FAILED.match(text) is not None:
        return ["kafka-acls failed here, so ACLs may be missing; list the ACLs again"]
    if fields is None and _LIKE_AN_ACL.search(text) is not None:
        # Whoever took the line away would lose an ACL, perhaps a DENY.
        return ["neither a resource nor an entry as kafka-acls prints it, but it looks like one; list the ACLs again"]
    if fields is None:
        return ["neither a resource nor an entry of kafka-acls; list the ACLs again, and keep only its standard output"]
    if resource is None:
        return ["an entry without a resource above it; keep the line `Current ACLs for resource ...` before it"]
    owner = json.loads(owner, strict=False) if owner else KEEP
    return acl_of(**resource, **fields, expires_at=ends or KEEP, owner=owner)


def _fields(text: str) -> _Words | None:
    begin = text.removeprefix(" ").removeprefix("\t")
    begins = len(text) - len(begin)
    begin = begin.removesuffix(" ")
    if begin.startswith(_ENTRY_BEGINS) and begins in (1, 2) and begin.endswith(")"):
        rest, permission, permission_type = begin[len(_ENTRY_BEGINS) : -1].rpartition(", permissionType=")
        rest, operations, operation = rest.rpartition(", operation=")
        principal, hosts, host = rest.rpartition(", host=")
        if not (permission and operations and hosts):
            return None
        return {"principal": principal, "host": host, "operation": operation, "permission_type": permission_type}
    if (found := _OLD_ENTRY.match(text)) is None:
        return None
    words = found.groupdict()
    return {
        **words,
        "operation": loosely(AclOperation, words["operation"]),
        "permission_type": loosely(AclPermissionType, words["permission_type"]),
    }
