"""ACLs as comma-separated text: seven columns, as kafbat UI and Kafka Security Manager (KSM) have them.

Where any ACL has an end or an owner, there are two columns more. An empty cell in them says that there is none; a file
without them says nothing of either.

Those two write fields as they are, so that a distinguished name falls into several. A record without any quotes and
with too many fields is put together again around its words (resource type, pattern type, operation, permission type),
if there is one way only to do so. What is written here is quoted (RFC 4180).

Texts that a spreadsheet would run as formulas are marked (`formats.csv_cells`). The header says so: a column called
`'Principal` has marks, one called `Principal` has none, so that a file without marks means what it says.
"""

import csv
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import IO, NamedTuple, TextIO

from app.core.kafka.bindings import KEEP, NO_TERMS, NewAcl, rfc3339
from app.core.kafka.codes import CODED_FIELDS, PatternType
from app.formats.acl_entries import MAX_SHOWN, Entry, Problem, acl_of
from app.formats.csv_cells import MARK, is_formula, marked, unmarked
from app.formats.lines import MAX_LINE_BYTES, text_lines
from app.formats.reading import Reading
from app.formats.source import Source
from app.formats.words import is_word, loosely

_TOO_LONG = f"the record is longer than {MAX_LINE_BYTES} characters; is a quote missing?"
_FAULTS = {
    "unexpected end of data": "the file ends within quotes; add the closing quote",
    "',' expected after": 'a `"` within quotes is not doubled; write it as `""`',
    "new-line character seen": "a carriage return outside quotes; quote the field",
    "field larger than": "a field is longer than any field of an ACL can be; is a quote missing?",
}


class CsvField(NamedTuple):
    text: str
    quoted: bool


class _Lines:
    """An iterator of lines for csv.reader that keeps those of the current record."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._lines = text_lines(stream, way_out="write one ACL per record")
        self.begin_record()

    def begin_record(self) -> None:
        self.first_line = self._characters = 0
        self.record: list[str] = []

    def __iter__(self) -> "_Lines":
        return self

    def __next__(self) -> str:
        number, line = next(self._lines)
        self.first_line = self.first_line or number
        if isinstance(line, list):
            raise csv.Error(line[0])
        self.record.append(line)
        self._characters += len(line)
        if self._characters > MAX_LINE_BYTES:
            raise csv.Error(_TOO_LONG)
        return line


def csv_records(stream: IO[bytes]) -> Iterator[tuple[int, list[CsvField] | str]]:
    """Each record with the number of its first line, or what is wrong with it; blank lines are skipped."""
    lines = _Lines(stream)
    reader = csv.reader(lines, strict=True)
    while True:
        lines.begin_record()
        try:
            texts = next(reader)
        except StopIteration:
            return
        except csv.Error as fault:
            said = str(fault)
            yield lines.first_line, next((plain for begin, plain in _FAULTS.items() if said.startswith(begin)), said)
        else:
            record = "".join(lines.record)
            if record.strip():
                yield lines.first_line, list(_fields(texts, record))


def _fields(texts: Sequence[str], record: str) -> Iterator[CsvField]:
    # csv.reader does not tell which fields were quoted, but a field's text tells how long the field is in the record.
    at = 0
    for text in texts:
        quoted = record[at : at + 1] == '"'
        yield CsvField(text, quoted)
        at += len(text) + (2 + text.count('"') if quoted else 0) + 1


# The columns of a file without a header.
_BINDING = ("Principal", "ResourceType", "PatternType", "ResourceName", "Operation", "PermissionType", "Host")
_COLUMNS = {
    "principal": "principal",
    "kafkaprincipal": "principal",
    "resourcetype": "resource_type",
    "patterntype": "pattern_type",
    "resourcename": "resource_name",
    "operation": "operation",
    "permissiontype": "permission_type",
    "host": "host",
    "expiresat": "expires_at",
    "owner": "owner",
}
HEADER = (*_BINDING, "ExpiresAt", "Owner")
_STANDARD = tuple(_COLUMNS[each.lower()] for each in _BINDING)
_REQUIRED = tuple(each for each in _STANDARD if each != "pattern_type")
_TERMS = ("expires_at", "owner")
_TEXTS = ("principal", "resource_name", "host", "owner")
_HEADER_BEGINS = re.compile(rb"""\s*[ "]*'?(?:kafka)?principal[ "]*,[ "]*'?[a-z_]+[ "]*,""", re.IGNORECASE)
_MAX_PARTS = 100
"""A record with more parts is not joined; no name has so many commas."""

_NEEDS_QUOTES = re.compile(r'[",;\t\r\n]|\A\s|\s\Z|\A\Z')


@dataclass(frozen=True, slots=True)
class _Columns:
    names: tuple[str, ...]
    marked: frozenset[str] = frozenset()


def is_csv(head: bytes) -> bool:
    return _HEADER_BEGINS.match(head) is not None


def read_csv(source: Source, _: Reading) -> Iterator[Entry]:
    columns: _Columns | None = None
    for line, record in csv_records(source.stream):
        if isinstance(record, str):
            yield line, [Problem(record)]
            columns = columns or _Columns(_STANDARD)
        elif columns is not None:
            yield line, _acl(record, columns)
        elif _is_header(record):
            found = _columns(record)
            if isinstance(found, list):
                yield line, found
                return
            columns = found
        else:
            columns = _Columns(_STANDARD)
            yield line, _acl(record, columns)


def write_csv(acls: Sequence[NewAcl], out: TextIO) -> None:
    """RFC 4180, with a header. Texts that others would trim or split are quoted, formulas are marked.

    The ACLs say all their terms.
    """
    header: tuple[str, ...] = HEADER if any(each.terms_over(NO_TERMS) != NO_TERMS for each in acls) else _BINDING
    if any(is_formula(text) for each in acls for text in _texts(each)):
        header = tuple(f"{MARK}{each}" if _COLUMNS[each.lower()] in _TEXTS else each for each in header)
    out.write(f"{','.join(header)}\r\n")
    for acl in acls:
        each = acl.binding
        fields = (
            _quoted(marked(each.principal)),
            each.resource_type.name,
            each.pattern_type.name,
            _quoted(marked(each.resource_name)),
            each.operation.name,
            each.permission_type.name,
            _quoted(marked(each.host)),
            rfc3339(acl.expires_at) if isinstance(acl.expires_at, datetime) else "",
            _quoted(marked(acl.owner)) if isinstance(acl.owner, str) else "",
        )
        out.write(f"{','.join(fields[: len(header)])}\r\n")


def _texts(acl: NewAcl) -> tuple[str, str, str, str]:
    owner = acl.owner if isinstance(acl.owner, str) else ""
    return acl.binding.principal, acl.binding.resource_name, acl.binding.host, owner


def _quoted(text: str) -> str:
    if _NEEDS_QUOTES.search(text) is None:
        return text
    doubled = text.replace('"', '""')
    return f'"{doubled}"'


def _is_header(record: Sequence[CsvField]) -> bool:
    return _column(record[0].text) == "principal" or any(_column(each.text) == "resource_type" for each in record)


def _column(name: str) -> str | None:
    bare = name.strip()
    column = _COLUMNS.get(bare.removeprefix(MARK).replace("_", "").lower())
    return column if column in _TEXTS or not bare.startswith(MARK) else None


def _columns(record: Sequence[CsvField]) -> _Columns | list[str]:
    problems: list[str] = []
    columns: list[str] = []
    for each in record:
        column = _column(each.text)
        if column is None:
            problems.append(f"`{each.text[:MAX_SHOWN]}`: there is no such column; the columns are {', '.join(HEADER)}")
        elif column in columns:
            problems.append(f"`{each.text[:MAX_SHOWN]}`: the column comes more than once; keep one")
        else:
            columns.append(column)
    problems += [
        f"`{HEADER[_STANDARD.index(each)]}`: the column is missing" for each in _REQUIRED if each not in columns
    ]
    with_marks = {name for name, each in zip(columns, record, strict=False) if each.text.strip().startswith(MARK)}
    return problems or _Columns(tuple(columns), frozenset(with_marks))


def _acl(record: Sequence[CsvField], header: _Columns) -> NewAcl | list[str]:
    fields, columns = list(record), header.names
    if len(fields) > len(columns) and not any(each.quoted for each in fields):
        joined = _put_together([each.text for each in fields], columns)
        if isinstance(joined, str):
            return [joined]
        fields = [CsvField(each, quoted=False) for each in joined]
    if len(fields) != len(columns):
        return [f"{len(fields)} fields for {len(columns)} columns; quote a field that holds a comma"]
    texts: dict[str, str] = {"pattern_type": PatternType.LITERAL.name}
    terms: dict[str, str | None] = {}
    for column, each in zip(columns, fields, strict=True):
        words = CODED_FIELDS.get(column)
        if words is None and not each.quoted and each.text != each.text.strip():
            return [f"`{column}`: white space at its start or end; remove it, or quote the field if it belongs there"]
        text = unmarked(each.text) if column in header.marked else each.text
        if text is None:
            return [f"`{column}`: a mark (`{MARK}`) is missing, so the original text is unknown; export the ACLs again"]
        if column in _TERMS:
            terms[column] = text or None
        else:
            texts[column] = text if words is None else loosely(words, text)
    return acl_of(**texts, expires_at=terms.get("expires_at", KEEP), owner=terms.get("owner", KEEP))


def _put_together(parts: list[str], columns: Sequence[str]) -> list[str] | str:
    """The fields that these parts were before they were split at every comma, or why that can't be told."""
    found = list(islice(_ways(parts, columns), 2)) if len(parts) <= _MAX_PARTS else []
    if len(found) == 1:
        return found[0]
    why = "they can be read in more than one way" if found else "their values do not fit the columns"
    return f"{len(parts)} fields for {len(columns)} columns, and {why}; quote a field that holds a comma"


def _ways(parts: list[str], columns: Sequence[str]) -> Iterator[list[str]]:
    """Each way to read the parts: a word is one part, and one of Kafka's words; a text is one part or more."""
    if not columns:
        if not parts:
            yield []
        return
    words = CODED_FIELDS.get(columns[0])
    if words is not None and parts and not is_word(words, parts[0]):
        return
    longest = 1 if words is not None else len(parts)
    for size in range(1, min(longest, len(parts) - len(columns) + 1) + 1):
        for following in _ways(parts[size:], columns[1:]):
            yield [",".join(parts[:size]), *following]
