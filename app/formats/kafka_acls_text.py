"""The text that `kafka-acls` prints: `--list`, and what `--add` says it does, of every version since 1.0.

A principal may hold ", " and "=" (distinguished names), and so may a name, but none of the words that the text is made
of: a line with two of a kind may be two entries, and is refused. What the versions print (AclCommand, Resource, Acl,
ResourcePattern, AccessControlEntry):

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
from dataclasses import dataclass
from itertools import groupby
from typing import TextIO

from app.core.kafka.bindings import KEEP, AclBinding, NewAcl
from app.core.kafka.codes import AclOperation, AclPermissionType, PatternType, ResourceType
from app.core.spelling import nearest
from app.formats.acl_entries import Entry, FormatLimitError, Problem, acl_of
from app.formats.lines import text_lines
from app.formats.reading import Reading
from app.formats.source import Source
from app.formats.words import loosely

_HEADER = re.compile(r"[ \t]*(?:Current|Adding) ACLs for resource `(.*)`:\Z", re.DOTALL)
_PATTERN = re.compile(
    r"ResourcePattern\(resourceType=(?P<resource_type>\w+), name=(?P<resource_name>.*), "
    r"patternType=(?P<pattern_type>\w+)\)\Z",
    re.DOTALL,
)
_OLD_PATTERN = re.compile(
    r"(?P<resource_type>[A-Za-z]+):(?:(?P<pattern_type>LITERAL|PREFIXED):)?(?P<resource_name>.+)\Z", re.DOTALL
)
_OLD_ENTRY = re.compile(
    r"(?: ?\t| +)(?P<principal>\S.*) has (?P<permission_type>\w+) permission for operations: (?P<operation>\w+) "
    r"from hosts: (?P<host>\S+)\Z",
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
_OF_PRINCIPAL = re.compile(r"[ \t]*ACLs for principal `.*`\Z", re.DOTALL)
_LOGGED = re.compile(
    r"\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}\] (?:TRACE|DEBUG|INFO|WARN) .*\([\w.$]+\)\Z"
    r"|Warning: support for ACL configuration directly through the authorizer is deprecated .*\Z"
    r"|(?:OpenJDK|Java HotSpot\(TM\)) [\w -]+ warning: .*\Z|Picked up _?JA\w+: .*\Z"
    r"|SLF4J(?:\([WI]\))?: .*\Z|log4j:WARN .*\Z"
)
"""What Kafka's logger, the tool and Java say on standard error, which many send to the same file."""

_FAILED = re.compile(r"\[[^]]*\] (?:ERROR|FATAL) |Error while ")
_FIRST = re.compile(r"[ \t]*(?:[A-Z]\w+ ACLs for resource `|ACLs for principal `|Acl \(pattern=|\(principal=)")
"""How the first line begins that no logger has written."""

_LIKE_AN_ACL = re.compile(r"principal=|permissionType=| permission for operations: |ACLs for resource `")
_LIKE_A_RESOURCE = re.compile(r"[\w \t]*ACLs for resource `|[\w \t`]*ResourcePattern\(|[\w \t]+`.*`:\Z", re.DOTALL)
_LIKE_AN_ENTRY = re.compile(r"[ \t]*\(principal=|Acl \(pattern=")
_ENTRY_ENDS = re.compile(r", permissionType=\w+\)")
_TERMINAL = re.compile("[\x1b\x9b]")
"""How sequences begin that colour a terminal's text: in a file they can't be told from a name's own characters."""

_WORDS_OF_RESOURCES = "ACLs for resource `", "ResourcePattern(", ", name=", ", patternType="
_WORDS_OF_ENTRIES = "ACLs for resource `", _ENTRY_BEGINS, ", host=", ", operation=", "permissionType="
_WORDS_OF_OLD_ENTRIES = "ACLs for resource `", " permission for operations: ", " from hosts: "
"""INVARIANT: each stands in a line once at most. With two, nobody can tell a name from a second entry."""

_NO_RESOURCE = "a resource that can't be read; expected ResourcePattern(resourceType=..., ...) and nothing behind it"
_NO_RESOURCE_ABOVE = Problem(
    "an entry without a resource above it; keep the line `Current ACLs for resource ...` before it"
)
_COLOURED = "a terminal's escape sequences, such as colours; write the text again without them"
_NO_ENTRIES = "no entry follows the resource, as kafka-acls would print one; list the ACLs again"
_NOT_WHOLE = (
    "the line has no end: it was cut, or a terminal has wrapped it; write the list into a file instead of copying it"
)

_Words = Mapping[str, str]
"""Some fields of an ACL."""


@dataclass(slots=True)
class _Block:
    """A resource, and the entries below it. `words` is None if what is wrong with the resource was told."""

    line: int
    words: _Words | None = None
    needs_entries: bool = False
    may_be_empty: bool = False
    """1.x prints a resource without entries, and a blank line after it."""


def is_kafka_acls_text(head: bytes) -> bool:
    lines = (line.rstrip() for line in head.decode(errors="replace").split("\n"))
    said = (line for line in lines if line and _LOGGED.match(line) is None and _FAILED.match(line) is None)
    return _FIRST.match(next(said, "")) is not None


def read_kafka_acls_text(source: Source, _: Reading) -> Iterator[Entry]:
    """The ACLs of a text, one a line. A line that `kafka-acls` would not print there is a problem, never ignored."""
    text = _Text()
    for number, line in text_lines(source.stream, way_out="kafka-acls prints no such line"):
        if isinstance(line, list):
            yield from text.unreadable(number, line)
        else:
            yield from text.entries(number, line.rstrip("\r\n \t"), is_last=not line.endswith(("\n", " ")))
    yield from text.end_block()


class _Text:
    """Reads line after line. INVARIANT: an entry belongs to the header right above it, never to one of a block before.

    A mistake is told once: the entries below a resource with a fault, and the rest of a line that was wrapped, are not.
    """

    def __init__(self) -> None:
        self._block: _Block | None = None
        self._versions = _Versions()
        self._is_wrapped = False

    def end_block(self, following: _Block | None = None, *, is_blank: bool = False) -> Iterator[Entry]:
        ended, self._block = self._block, following
        if ended is not None and ended.needs_entries and not (is_blank and ended.may_be_empty):
            yield ended.line, [Problem(_NO_ENTRIES)]
            self._block = following or _Block(ended.line)

    def entries(self, number: int, text: str, *, is_last: bool) -> Iterator[Entry]:
        was_wrapped, self._is_wrapped = self._is_wrapped, False
        if _TERMINAL.search(text) is not None:
            yield from self.unreadable(number, [Problem(_COLOURED)])
        elif (header := _HEADER.match(text)) is not None:
            yield from self._resource(number, header[1])
        elif not text:
            yield from self.end_block(is_blank=True)
        elif _OF_PRINCIPAL.match(text) is not None:
            yield from self.end_block()
        elif _LOGGED.match(text) is not None and _LIKE_AN_ACL.search(text) is None:
            pass
        elif was_wrapped and _LIKE_A_RESOURCE.match(text) is None and _LIKE_AN_ENTRY.match(text) is None:
            self._is_wrapped = not text.endswith((")", "`:"))
        elif _LIKE_A_RESOURCE.match(text) is not None:
            self._is_wrapped = not text.endswith("`:") and _ENTRY_BEGINS not in text
            yield from self.end_block(_Block(number))
            yield number, [Problem(_NOT_WHOLE if self._is_wrapped else _NO_RESOURCE)]
        else:
            yield from self._entry(number, text, is_last=is_last)

    def unreadable(self, number: int, problems: Sequence[Problem]) -> Iterator[Entry]:
        """It may have been a resource, so that the entries below it are of nobody knows which one."""
        if self._block is not None:
            self._block.needs_entries = False
        self._block = _Block(number)
        yield number, problems

    def _resource(self, number: int, text: str) -> Iterator[Entry]:
        is_old = _PATTERN.match(text) is None
        found = _resource(text)
        problem = self._versions.problem(text, number) if is_old else None
        problems = found if isinstance(found, list) else [Problem(problem)] if problem is not None else []
        words = found if isinstance(found, Mapping) and not problems else None
        yield from self.end_block(_Block(number, words, words is not None, is_old))
        if problems:
            yield number, problems

    def _entry(self, number: int, text: str, *, is_last: bool) -> Iterator[Entry]:
        block = self._block
        if text.startswith(_EXISTS_BEGINS):
            found = _existing(text)
        else:
            found = _entry(text, None if block is None else block.words, is_last=is_last)
            if block is not None:
                block.needs_entries = False
        if found == [_NO_RESOURCE_ABOVE]:
            self._block = block or _Block(number)
            if block is not None:
                return
        self._is_wrapped = found == [_NOT_WHOLE]
        yield number, found


class _Versions:
    """Which of the old versions a text is of: 1.x writes `Group:LITERAL:x` for a group that is called `LITERAL:x`."""

    def __init__(self) -> None:
        self._first: tuple[int, bool] | None = None
        """The first resource's line, and whether it has a pattern type."""

    def problem(self, resource: str, line: int) -> str | None:
        found = _OLD_PATTERN.match(resource)
        if found is None:
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
    texts = binding.resource_name, binding.principal, binding.host
    if any(end in text for text in texts for end in "\r\n"):
        raise FormatLimitError(binding, "kafka-acls text has one line per ACL, and no way to write a line end in it")
    if any(_TERMINAL.search(text) is not None for text in texts):
        raise FormatLimitError(binding, "kafka-acls text can't tell a terminal's escape sequences from colours")
    words = [word for word in _WORDS_OF_RESOURCES if word in binding.resource_name]
    words += [word for word in _WORDS_OF_ENTRIES if word in binding.principal or word in binding.host]
    if words:
        raise FormatLimitError(binding, f"kafka-acls text can't tell a name with `{words[0]}` from its own words")


def _resource(text: str) -> _Words | list[Problem]:
    """What a header says, or what is wrong with it."""
    word = _repeated(f"ACLs for resource `{text}", _WORDS_OF_RESOURCES)
    if word is not None:
        return [Problem(_unclear(word, "resource"))]
    found = _PATTERN.match(text) or _OLD_PATTERN.match(text)
    if found is None:
        return [Problem(_NO_RESOURCE)]
    words = found.groupdict(PatternType.LITERAL.name)
    if found["pattern_type"] is None and _is_like_a_pattern_type(found["resource_name"]):
        return [Problem("it is unclear whether this was printed with a pattern type or without; list the ACLs again")]
    if found.re is _OLD_PATTERN:
        words["resource_type"] = loosely(ResourceType, words["resource_type"])
    acl = acl_of(**words, **_ANY_ENTRY, called=_CALLED)
    return acl if isinstance(acl, list) else words


def _is_like_a_pattern_type(name: str) -> bool:
    """Whether a name of 1.x begins like a word of 2.0 with two letters or its colon lost, `LITERL:orders`."""
    word, colon, _ = name.partition(":")
    return _is_like_one(name[:8], 0.75) or (bool(colon) and _is_like_one(word, 0.7))


def _is_like_one(begin: str, likeness: float) -> bool:
    is_upper = sum(map(str.isupper, begin)) > len(begin) / 2
    return is_upper and nearest(begin, ("LITERAL", "PREFIXED"), likeness=likeness) is not None


_ANY_ENTRY = {"principal": "User:a", "host": "*", "operation": "READ", "permission_type": "DENY"}
"""With it a resource is looked at before its entries are read."""


def _existing(text: str) -> NewAcl | list[Problem]:
    """The ACL that `--add` has not added because it exists."""
    if not text.endswith(_EXISTS_ENDS):
        return [Problem(_NOT_WHOLE)]
    pattern, *entries = text[len(_EXISTS_BEGINS) : -len(_EXISTS_ENDS)].split(_BETWEEN)
    if len(entries) != 1:
        return [Problem(f"expected one `{_BETWEEN}`: it is unclear where the resource ends; list the ACLs instead")]
    resource = _resource(pattern)
    if isinstance(resource, list):
        return resource
    return _entry(f"\t{_ENTRY_BEGINS}{entries[0]}", resource, is_last=False)


def _entry(text: str, resource: _Words | None, *, is_last: bool) -> NewAcl | list[Problem]:
    noted = _NOTED.match(text)
    text, ends, owner = noted.groups() if noted is not None else (text, None, None)
    is_new = _LIKE_AN_ENTRY.match(text) is not None
    word = _repeated(text, _WORDS_OF_ENTRIES if is_new else _WORDS_OF_OLD_ENTRIES)
    if word is not None:
        return [Problem(_unclear(word, "first entry"))]
    fields = _fields(text)
    if fields is None:
        return [Problem(_NOT_WHOLE if is_new and _ENTRY_ENDS.search(text) is None else _no_entry(text))]
    if not is_new and is_last and fields["host"] != "*":
        return [Problem("the text ends with this line, so its host may be cut; list the ACLs again")]
    if resource is None:
        return [_NO_RESOURCE_ABOVE]
    owner = json.loads(owner, strict=False) if owner else KEEP
    return acl_of(**resource, **fields, expires_at=ends or KEEP, owner=owner, called=_CALLED)


def _no_entry(text: str) -> str:
    if _FAILED.match(text) is not None:
        return "kafka-acls failed here, so ACLs may be missing; list the ACLs again"
    if _LIKE_AN_ACL.search(text) is not None:
        # Whoever took the line away would lose an ACL, perhaps a DENY.
        return "neither a resource nor an entry as kafka-acls prints it, but it looks like one; list the ACLs again"
    return "neither a resource nor an entry of kafka-acls; list the ACLs again, and keep only its standard output"


_CALLED = {
    "resource_type": "resourceType",
    "pattern_type": "patternType",
    "permission_type": "permissionType",
}


def _repeated(text: str, words: Sequence[str]) -> str | None:
    return next((word for word in words if text.count(word) > 1), None)


def _unclear(word: str, what: str) -> str:
    return (
        f"`{word.strip(', ')}` comes twice, so it is unclear where the {what} ends; is a line end missing? Put each "
        "entry on a line of its own, or use another format for names that hold this"
    )


def _fields(text: str) -> _Words | None:
    begin = text.lstrip(" \t")
    if begin.startswith(_ENTRY_BEGINS) and begin != text and begin.endswith(")"):
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
